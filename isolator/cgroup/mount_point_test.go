package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func writeTempFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFindMountPoint(t *testing.T) {
	const (
		v1 = "30 25 0:26 / /sys/fs/cgroup/devices rw,relatime shared:13 - cgroup cgroup rw,devices\n"
		v2 = "31 25 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate\n"
	)
	for _, c := range []struct{ name, mountinfo, devices, unified string }{
		{"v1", v1, "/sys/fs/cgroup/devices", ""},
		{"v2", v2, "", "/sys/fs/cgroup/unified"},
		{"both", v2 + v1, "/sys/fs/cgroup/devices", "/sys/fs/cgroup/unified"},
		{"elsewhere, with others", "29 25 0:25 / /a rw - cgroup none rw,cpu,cpuacct\n30 25 0:26 / /a\\040b rw - cgroup none rw,freezer,devices\n", "/a b", ""},
		{"a part of it", "30 25 0:26 /docker/x /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices\n31 25 0:27 /x /y rw - cgroup2 none rw\n", "", ""},
		{"another file system of that word", "30 25 0:26 / /devices rw - tmpfs devices rw,devices\n", "", ""},
		{"torn", "30 25 0:26 / /x - cgroup\n", "", ""},
	} {
		path := writeTempFile(t, c.mountinfo)
		for _, h := range []struct {
			find func(string) (string, error)
			want string
		}{{FindV1MountPoint, c.devices}, {FindV2MountPoint, c.unified}} {
			got, err := h.find(path)
			if got != h.want || (h.want == "") != errors.Is(err, ErrNoHierarchy) {
				t.Errorf("%s: got %q, %v; want %q", c.name, got, err, h.want)
			}
		}
	}
	if _, err := FindV2MountPoint(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestProcessCgroup(t *testing.T) {
	for _, c := range []struct{ name, text, v1, v2 string }{
		{"both", "5:devices:/mesos/1\n4:memory:/m\n0::/mesos/2\n", "/mesos/1", "/mesos/2"},
		{"joined controllers", "3:cpu,devices,pids:/a:b\n", "/a:b", ""},
		{"named hierarchy", "9:name=devices:/x\n5:devices:/y\n", "/y", ""},
		{"v2 alone", "0::/user.slice/a:b\n", "", "/user.slice/a:b"},
		{"no path", "5:devices:\n0::\n", "", ""},
		{"empty", "", "", ""},
	} {
		path := writeTempFile(t, c.text)
		for _, h := range []struct {
			of   func(string) (string, error)
			want string
		}{{V1{}.ProcessCgroup, c.v1}, {V2{}.ProcessCgroup, c.v2}} {
			got, err := h.of(path)
			if got != h.want || (h.want == "") != errors.Is(err, ErrNoHierarchy) {
				t.Errorf("%s: got %q, %v; want %q", c.name, got, err, h.want)
			}
		}
	}
	if _, err := (V1{}).ProcessCgroup(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// With any other content in mountinfo, a mount point is decoded as it was before the
// kernel escaped it.
func FuzzMountPoint(f *testing.F) {
	f.Add("", "sys/fs/cgroup/devices")
	f.Add("30 25 0:26 / /x rw - cgroup none rw,cpu\n", "a b\\040#\t\n")
	f.Add(" - - \n", "\r")
	escape := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, "#", `\043`, `\`, `\134`)
	f.Fuzz(func(t *testing.T, before, below string) {
		point := "/" + below
		for _, h := range []hierarchySpec{devicesV1, unifiedV2} {
			if _, ok := h.parseMountInfo(before); ok {
				continue // the first one wins
			}
			line := "\n1 2 0:1 / " + escape.Replace(point) + " rw - " + h.fileSystem + " x rw,devices\n"
			if got, ok := h.parseMountInfo(before + line); !ok || got != point {
				t.Errorf("%q came back as %q, %v", point, got, ok)
			}
		}
	})
}

// A path is returned unchanged, and only from its hierarchy's own line.
func FuzzPath(f *testing.F) {
	f.Add("4:memory:/m\n", "/mesos/1")
	f.Add("0::/\n", "/a:b")
	f.Add("::\n5:devices", "/")
	f.Fuzz(func(t *testing.T, before, path string) {
		if strings.Contains(path, "\n") || !strings.HasPrefix(path, "/") {
			return
		}
		for _, h := range []hierarchySpec{devicesV1, unifiedV2} {
			if got, ok := h.parseProcessCgroup(before); ok {
				if !strings.HasPrefix(got, "/") || !strings.Contains(before, ":"+got) {
					t.Errorf("%q is no path of %q", got, before)
				}
				continue
			}
			own := "5:cpu,devices:" + path
			if h == unifiedV2 {
				own = "0::" + path
			}
			if got, ok := h.parseProcessCgroup(before + "\n" + own + "\n"); !ok || got != path {
				t.Errorf("%q came back as %q, %v", path, got, ok)
			}
		}
	})
}
