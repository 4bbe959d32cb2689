package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestMounted(t *testing.T) {
	for _, c := range []struct{ name, mountinfo, want string }{
		{"usual", "30 25 0:26 / /sys/fs/cgroup/devices rw,relatime shared:13 - cgroup cgroup rw,devices\n", "/sys/fs/cgroup/devices"},
		{"elsewhere, with others", "29 25 0:25 / /a rw - cgroup none rw,cpu,cpuacct\n30 25 0:26 / /a\\040b rw - cgroup none rw,freezer,devices\n", "/a b"},
		{"a part of it", "30 25 0:26 /docker/x /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices\n", ""},
		{"version 2", "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", ""},
		{"another file system of that word", "30 25 0:26 / /devices rw - tmpfs devices rw,devices\n", ""},
		{"torn", "30 25 0:26 / /x - cgroup\n", ""},
	} {
		file := filepath.Join(t.TempDir(), "mountinfo")
		if err := os.WriteFile(file, []byte(c.mountinfo), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Mounted(file)
		if got != c.want || (c.want == "") != errors.Is(err, ErrNoHierarchy) {
			t.Errorf("%s: got %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}
