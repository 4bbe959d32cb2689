//go:build linux && cgo

package nvml

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/internal/testing/nvmltest"
)

func TestWaitEvent(t *testing.T) {
	h := hostWithMIG()
	m, l := openStandIn(t, h, LibraryConfig{})
	parent, one, two, three := h.Devices[0].MIG.Parent, h.Devices[0].UUID, h.Devices[1].UUID, h.Devices[2].UUID
	events := waitForEvents(t, l)
	cases := []struct {
		name string
		push func()
		want []DeviceEvent
	}{
		{"XID", func() { m.ReportXID(uuid(9), 79) }, []DeviceEvent{{Device: uuid(9), XID: 79}}},
		{"double bit", func() { m.ReportUncorrectedECC(uuid(9)) }, []DeviceEvent{{Device: uuid(9), ECC: true}}},
		{"single bit", func() { m.ReportCorrectedECC(uuid(9)) }, []DeviceEvent{{Device: uuid(9), ECC: true, Corrected: true}}},
		{"unknown device", func() { m.ReportXID("GPU-none", 999) }, []DeviceEvent{{XID: 999}}},
		{"one slice", func() { m.ReportXID(two, 43) }, []DeviceEvent{{Device: two, XID: 43}}},
		{"a GPU and its slices", func() { m.ReportXID(parent, 48) }, []DeviceEvent{{Device: one, XID: 48}, {Device: two, XID: 48}, {Device: three, XID: 48}}},
		{"several", func() { m.ReportXID(uuid(9), 13); m.ReportXID(uuid(9), 31) }, []DeviceEvent{{Device: uuid(9), XID: 13}, {Device: uuid(9), XID: 31}}},
		{"off the bus", func() { m.UnplugGPU(parent) }, []DeviceEvent{{Device: one, Lost: true}, {Device: two, Lost: true}, {Device: three, Lost: true}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before := time.Now()
			c.push()
			for _, want := range c.want {
				var got DeviceEvent
				select {
				case got = <-events:
				case <-time.After(time.Minute):
					t.Fatalf("no event, want %+v", want)
				}
				if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(DeviceEvent{}, "At")); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if got.At.Before(before) || got.At.After(time.Now()) {
					t.Errorf("at %s, before %s", got.At, before)
				}
			}
		})
	}
	if _, err := l.SampleDevice(one); !errors.Is(err, ErrLost) {
		t.Errorf("off the bus: %v", err)
	}
	// The event is reported once, even if the bus is checked again: at the latest by the
	// poll that returns the second event.
	l.mu.Lock()
	l.busCheckedAt = time.Time{}
	l.mu.Unlock()
	for _, xid := range []uint64{13, 31} {
		m.ReportXID(uuid(9), xid)
		if e := <-events; e.Device != uuid(9) || e.XID != xid {
			t.Errorf("one more event: %+v", e)
		}
	}
}

// Wait returns when its context ends, with or without event support.
func TestWaitEventEndsWithContext(t *testing.T) {
	for name, fail := range map[string]nvmltest.FunctionFailure{
		"events":          {Function: "none"},
		"no event set":    {Function: "nvmlEventSetCreate", Index: -1, Return: 3},
		"no events":       {Function: "nvmlDeviceRegisterEvents", Index: -1, Return: 3},
		"GPU lost":        {Function: "nvmlEventSetWait_v2", Index: -1, Return: 15},
		"no event types":  {Function: "nvmlDeviceGetSupportedEventTypes", Index: -1, Return: 3},
		"driver unloaded": {Function: "nvmlEventSetWait_v2", Index: -1, Return: 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := nvmltest.ReportHost(t, v100s(1), fail)
			log, hook := logtest.NewNullLogger()
			l, err := Open(LibraryConfig{Library: buildStandIn(t), SysRoot: m.SysRoot, Log: log})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if e, err := l.WaitEvent(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %+v, %v", e, err)
			}
			if text := strings.Join(loggedWarnings(hook), "\n"); (text != "") != strings.HasPrefix(name, "no ") {
				t.Errorf("warned of %q", text)
			}
		})
	}
}
