package memorycgroup

import (
	"os"
	"path/filepath"
	"testing"

	"mesos-gpu/internal/mounttable"
)

// writeGroup writes the files of a cgroup.
func writeGroup(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFindAndReadUsage(t *testing.T) {
	v1, v2 := t.TempDir(), t.TempDir()
	writeGroup(t, filepath.Join(v1, "mesos/a"), map[string]string{
		"memory.limit_in_bytes": "85983232\n", "memory.max_usage_in_bytes": "85979136\n", "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
	})
	writeGroup(t, filepath.Join(v1, "free"), map[string]string{
		"memory.limit_in_bytes": "9223372036854771712\n", "memory.max_usage_in_bytes": "4096\n", "memory.oom_control": "under_oom 0\n",
	})
	writeGroup(t, filepath.Join(v2, "b"), map[string]string{
		"memory.max":    "1048576\n",
		"memory.peak":   "1048576\n",
		"memory.events": "low 0\noom 1\noom_kill 1\noom_group_kill 0\n",
	})
	writeGroup(t, filepath.Join(v2, "old"), map[string]string{"memory.max": "max\n", "memory.events": "oom_kill 0\n"})
	mounts := []mounttable.Mount{
		{FileSystem: "cgroup", Root: "/", Point: "/none", SuperOptions: []string{"rw", "cpu"}},
		{FileSystem: "cgroup", Root: "/", Point: v1, SuperOptions: []string{"rw", "memory"}},
		{FileSystem: "cgroup2", Root: "/docker/x", Point: v2},
	}
	for _, c := range []struct {
		name, memberships string
		want              Usage
		text              string
	}{
		{"version 1", "8:cpu,cpuacct:/\n4:memory:/mesos/a\n0::/\n", Usage{85983232, 85979136, 2}, "the limit is 82 MiB, the peak was 81.9 MiB"},
		{"no limit", "4:memory:/free\n", Usage{0, 4096, 0}, ""},
		{"version 2, mounted below its root", "0::/docker/x/b\n", Usage{1 << 20, 1 << 20, 1}, "the limit is 1 MiB, the peak was 1 MiB"},
		{"a kernel without peaks", "0::/docker/x/old\n", Usage{}, ""},
	} {
		g, err := findMember(mounts, []byte(c.memberships))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got, err := g.ReadUsage(); err != nil || got != c.want || c.text != "" && got.String() != c.text {
			t.Errorf("%s: %+v (%s), %v, want %+v", c.name, got, got, err, c.want)
		}
	}
	for _, outside := range []string{"0::/elsewhere\n", "4:memory:/removed\n", "3:cpu:/\n", "x"} {
		if g, err := findMember(mounts, []byte(outside)); err == nil {
			t.Errorf("%q is %+v", outside, g)
		}
	}
	g, _ := findMember(mounts, []byte("4:memory:/mesos/a\n"))
	if !g.HasName("a") || g.HasName("mesos/a") || (Group{}).HasName("a") {
		t.Error("HasName compares other than parts of the path")
	}
}

func TestFindNamed(t *testing.T) {
	proc, v1, v2 := t.TempDir(), t.TempDir(), t.TempDir()
	mountinfo := "24 1 0:9 / " + v2 + " rw - cgroup2 cgroup2 rw\n25 1 0:9 / " + v1 + " rw - cgroup cgroup rw,memory\n"
	writeGroup(t, filepath.Join(proc, "self"), map[string]string{"mountinfo": mountinfo})
	writeGroup(t, filepath.Join(v2, "system.slice/docker-c0ffee.scope"), nil)
	writeGroup(t, filepath.Join(v1, "docker/beef"), nil)
	writeGroup(t, filepath.Join(v1, "1/2/3/4/deep"), nil)
	for id, want := range map[string]Group{
		"c0ffee": {filepath.Join(v2, "system.slice/docker-c0ffee.scope"), version2}, "beef": {filepath.Join(v1, "docker/beef"), version1}, "deep": {}, "none": {},
	} {
		if got, err := FindNamed(proc, id); got != want || (err == nil) != (want != Group{}) {
			t.Errorf("%s is %+v, %v, want %+v", id, got, err, want)
		}
	}
}
