package apachemesos

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// RemoveCgroups kills the processes in an agent's cgroups and removes the
// cgroups. A killed process leaves its cgroup shortly afterwards, without a
// notification.
func RemoveCgroups(t testing.TB, cgroup string) {
	PollUntil(t, "cgroups "+cgroup+" to go", func() bool {
		killAll("/sys/fs/cgroup/freezer/" + cgroup)
		roots, err := filepath.Glob("/sys/fs/cgroup/*/" + cgroup)
		if err != nil {
			t.Fatal(err)
		}
		for _, root := range roots {
			removeTree(root)
		}
		return len(roots) == 0
	})
}

func killAll(root string) {
	_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.Name() != "cgroup.procs" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		for pid := range strings.FieldsSeq(string(text)) {
			if n, err := strconv.Atoi(pid); err == nil && n > 0 {
				_ = syscall.Kill(n, syscall.SIGKILL)
			}
		}
		// An agent that stopped while it destroyed a container has left it frozen.
		_ = os.WriteFile(filepath.Join(filepath.Dir(path), "freezer.state"), []byte("THAWED"), 0)
		return nil
	})
}

func removeTree(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			removeTree(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.Remove(dir)
}
