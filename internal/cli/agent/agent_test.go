package agent

import (
	"errors"
	"strings"
	"testing"

	"mesos-gpu/gpu"
)

func TestResolveDevice(t *testing.T) {
	devices := []gpu.Device{
		{UUID: "GPU-5e7f8c9a-0000-4000-8000-000000000000", Minor: 0}, {UUID: "GPU-5e800000-0000-4000-8000-000000000000", Minor: 10},
		{UUID: "MIG-1", Minor: 2}, {UUID: "MIG-2", Minor: 2},
	}
	for _, c := range []struct{ name, want, err string }{
		{"0", devices[0].UUID, ""},
		{"10", devices[1].UUID, ""},
		{"GPU-5e7", devices[0].UUID, ""},
		{devices[1].UUID, devices[1].UUID, ""},
		{"GPU-99999999-0000-4000-8000-000000000000", "GPU-99999999-0000-4000-8000-000000000000", ""},
		{"GPU-5e", "", "may be each of " + devices[0].UUID + ", " + devices[1].UUID},
		{"2", "", "may be each of MIG-1, MIG-2"},
		{"1", "", `"1" is neither the minor number nor the UUID of one of 4 devices`},
	} {
		got, err := resolveDevice(devices, c.name)
		if got != c.want || c.err == "" && err != nil || c.err != "" && (!errors.Is(err, errNoSuchDevice) || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: got %s, %v; want %s, %s", c.name, got, err, c.want, c.err)
		}
	}
}
