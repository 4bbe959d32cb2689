package container

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseHierarchies(t *testing.T) {
	const mountinfo = `24 30 0:22 / /sys/fs/cgroup rw,relatime shared:1 - tmpfs tmpfs rw,mode=755
25 24 0:23 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:2 master:1 - cgroup cgroup rw,cpu,cpuacct
26 24 0:24 / /sys/fs/cgroup/devices rw,relatime - cgroup cgroup rw,devices
27 24 0:24 / /mnt/again rw,relatime - cgroup cgroup rw,devices
28 24 0:25 /docker/x /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
29 24 0:26 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
broken line
`
	c := cgroupHierarchies{parseHierarchies(mountinfo)}
	var dirs []string
	for _, h := range c.all {
		dirs = append(dirs, h.dir)
	}
	want := []string{"/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/devices", "/sys/fs/cgroup/unified"}
	if diff := cmp.Diff(want, dirs); diff != "" {
		t.Errorf("hierarchies (-want +got):\n%s", diff)
	}
	if h, ok := c.findHierarchy("cpu"); !ok || h.dir != want[0] {
		t.Errorf("with(cpu) = %v, %v", h, ok)
	}
	if _, ok := c.findHierarchy("memory"); ok {
		t.Error("found memory, whose mount shows another root")
	}
}

// TestLimitFiles uses folders in place of hierarchies.
func TestLimitFiles(t *testing.T) {
	root := t.TempDir()
	c := cgroupHierarchies{[]cgroupHierarchy{{filepath.Join(root, "mem"), []string{"memory"}}, {filepath.Join(root, "cpu"), []string{"cpu"}}}}
	if err := c.createCgroup("/a"); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"mem/a/memory.limit_in_bytes": "33554432", "cpu/a/cpu.shares": "2"}
	for file := range files {
		if err := os.WriteFile(filepath.Join(root, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.writeLimits("/a", ContainerLimits{CPUs: 0.0001, MemBytes: 1}); err != nil {
		t.Fatal(err)
	}
	for file, want := range files {
		if got, _ := os.ReadFile(filepath.Join(root, file)); string(got) != want {
			t.Errorf("%s is %q, want the least value %s", file, got, want)
		}
	}
	if err := c.writeLimits("/none", ContainerLimits{MemBytes: 1}); err == nil {
		t.Error("limits of a cgroup that is not there were written")
	}
}

// cgroupExists reports whether any hierarchy has the cgroup.
func (c cgroupHierarchies) cgroupExists(path string) bool {
	return slices.ContainsFunc(c.all, func(h cgroupHierarchy) bool {
		_, err := os.Stat(filepath.Join(h.dir, path))
		return err == nil
	})
}
