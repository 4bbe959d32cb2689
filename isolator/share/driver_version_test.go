package share

import (
	"testing"

	"mesos-gpu/gpu"
)

func TestCheckDriver(t *testing.T) {
	for _, c := range []struct {
		method  gpu.EnforcementMethod
		version string
		want    string
	}{
		{gpu.EnforcedByMPS, "470.256.02", "the driver is 470.256.02: mps enforces shares from 495 on"},
		{gpu.EnforcedByMPS, "495.29.05", ""},
		{gpu.EnforcedByPreload, "450.248.02", "the driver is 450.248.02: preload enforces shares from 470 on"},
		{gpu.EnforcedByPreload, "470.256.02", ""},
		{gpu.EnforcedByMIG, "450.248.02", ""},
		{gpu.EnforcedByMPS, "", ""},
	} {
		err := CheckDriver(c.method, c.version)
		if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%s with %q: got %v, want %q", c.method, c.version, err, c.want)
		}
	}
}
