package containers

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDriverFolders(t *testing.T) {
	for _, test := range []struct{ image, want map[string]string }{
		{nil, map[string]string{
			"PATH":            defaultPath + ":/usr/local/nvidia/bin",
			"LD_LIBRARY_PATH": "/usr/local/cuda/compat:/usr/local/nvidia/lib:/usr/local/nvidia/lib64",
		}},
		{map[string]string{"PATH": "/usr/local/nvidia/bin:/bin", "LD_LIBRARY_PATH": "/x:/usr/local/nvidia/lib"}, map[string]string{
			"PATH":            "/usr/local/nvidia/bin:/bin",
			"LD_LIBRARY_PATH": "/x:/usr/local/nvidia/lib:/usr/local/cuda/compat:/usr/local/nvidia/lib64",
		}},
	} {
		if diff := cmp.Diff(test.want, DriverFolders(test.image)); diff != "" {
			t.Errorf("of %v (-want +got):\n%s", test.image, diff)
		}
	}
}
