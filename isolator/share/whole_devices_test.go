package share

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
)

// recordingLimiter records the shares that it admits, and the devices for which callers wait.
type recordingLimiter struct {
	NoLimiter
	admitted []gpu.DeviceShare
	awaited  []string
	err      error
}

func (l *recordingLimiter) AdmitContainer(_ context.Context, _ string, shares []gpu.DeviceShare) (LimitSetup, error) {
	l.admitted = append(l.admitted, shares...)
	return LimitSetup{OwnRootfs: true}, nil
}

func (l *recordingLimiter) AwaitUnlimited(_ context.Context, uuid string) error {
	l.awaited = append(l.awaited, uuid)
	return l.err
}

// A container is not limited on a device of which it has all, and is limited to its shares of other devices.
func TestWholeDevicesAreNotLimited(t *testing.T) {
	capacity := func(uuid string) (gpu.DeviceShare, bool) {
		return gpu.DeviceShare{UUID: uuid, MemMiB: 2000, Cores: 150}, uuid != "unknown"
	}
	of := func(uuid string, mem int64, cores int) gpu.DeviceShare {
		return gpu.DeviceShare{UUID: uuid, MemMiB: mem, Cores: cores}
	}
	for name, c := range map[string]struct {
		shares, limited []gpu.DeviceShare
		whole           []string
	}{
		"all":             {[]gpu.DeviceShare{of("a", 2000, 150)}, nil, []string{"a"}},
		"all memory":      {[]gpu.DeviceShare{of("a", 2000, 149)}, []gpu.DeviceShare{of("a", 2000, 149)}, nil},
		"all cores":       {[]gpu.DeviceShare{of("a", 1999, 150)}, []gpu.DeviceShare{of("a", 1999, 150)}, nil},
		"of unknown size": {[]gpu.DeviceShare{of("unknown", 2000, 150)}, []gpu.DeviceShare{of("unknown", 2000, 150)}, nil},
		"all of two":      {[]gpu.DeviceShare{of("a", 2000, 150), of("b", 2000, 150)}, nil, []string{"a", "b"}},
		"all and a part":  {[]gpu.DeviceShare{of("a", 2000, 150), of("b", 1, 0)}, []gpu.DeviceShare{of("b", 1, 0)}, []string{"a"}},
	} {
		inner := &recordingLimiter{}
		setup, err := ExemptWholeDevices(inner, capacity).AdmitContainer(t.Context(), "c", c.shares)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.limited, inner.admitted); diff != "" || setup.OwnRootfs != (c.limited != nil) {
			t.Errorf("%s: admitted with %+v (-want +got):\n%s", name, setup, diff)
		}
		if diff := cmp.Diff([][]string{c.whole, c.whole}, [][]string{setup.WholeDevices, inner.awaited}); diff != "" {
			t.Errorf("%s: whole devices and awaited ones (-want +got):\n%s", name, diff)
		}
	}
	inner := &recordingLimiter{err: errors.New("a daemon runs")}
	if _, err := ExemptWholeDevices(inner, capacity).AdmitContainer(t.Context(), "c", []gpu.DeviceShare{of("a", 2000, 150)}); !errors.Is(err, inner.err) {
		t.Errorf("a container gets a device that is not free of limits: %v", err)
	}
}
