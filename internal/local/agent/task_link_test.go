package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mesos-gpu/internal/testing/testneeds"
)

// TestTaskLinkNames checks that ids of executors are names of links only if they are plain, and that no link is replaced. Other users
// cannot list or write the folder with the links.
func TestTaskLinkNames(t *testing.T) {
	links := filepath.Join(t.TempDir(), "tasks")
	for _, c := range []struct{ executor, want string }{
		{"train.0.1.abc", "train.0.1.abc"},
		{"train.0.1.abc", "train.0.1.abc-2"},
		{"train.0.1.abc", "train.0.1.abc-3"},
		{"..", "c-1"},
		{".hidden", "c-1-2"},
		{"my task", "c-1-3"},
		{"-rf", "c-1-4"},
		{strings.Repeat("a", 101), "c-1-5"},
	} {
		folder := t.TempDir()
		link, err := linkTask(links, c.executor, "c-1", folder)
		if err != nil {
			t.Fatal(err)
		}
		if link != filepath.Join(links, c.want) || readlink(t, link) != folder {
			t.Errorf("executor %q: link %s to %s, want %s", c.executor, link, readlink(t, link), c.want)
		}
	}
	if info, err := os.Stat(links); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("the folder with the links: %v, %v", info, err)
	}
}

// TestTaskLinkEndsWithItsSandbox checks that a link is removed with the sandbox and that the others stay.
func TestTaskLinkEndsWithItsSandbox(t *testing.T) {
	r := newRig(t, false, func(c *AgentConfig) {
		c.KeepSandboxes, c.collectInterval = time.Hour, time.Hour
		c.diskUse = func(string) (float64, error) { return 0, nil }
	})
	for _, executor := range []string{"ended", "running"} {
		r.run(r.custom(executor), newTask(executor, "block"))
		last := r.master.awaitStates(t, executor, "RUNNING")
		if err := r.nest(below(*last.ContainerStatus.ContainerID, "n"), argv("sleep", "1000"), nil); err != nil {
			t.Fatal(err)
		}
	}
	r.run(r.custom("ended"), newTask("last", "exit"))
	r.master.awaitExit(t, "ended")
	for _, c := range []struct {
		after time.Duration
		want  string
	}{{time.Minute, "ended running"}, {2 * time.Hour, "running"}} {
		if err := r.agent.collectOnce(t.Context(), time.Now().Add(c.after)); err != nil {
			t.Fatal(err)
		}
		entries, err := os.ReadDir(filepath.Join(r.agent.cfg.WorkDir, "tasks"))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("after %s there are links of %s, want %s", c.after, got, c.want)
		}
	}
}

// TestTasksSeeNoOtherLinks checks that a task sees its own link only and cannot make others, even as root.
func TestTasksSeeNoOtherLinks(t *testing.T) {
	testneeds.RequireDevicesCgroup(t)
	r := newRig(t, true, nil)
	p := r.parent()
	r.nestAndWait(below(p, "first"), argv("true"), nil)
	_, out := r.nestAndWait(below(p, "second"), argv("sh", "-c", "ls ..; cd ..; pwd; readlink /proc/self/cwd"), nil)
	links := filepath.Join(r.agent.cfg.WorkDir, "tasks")
	if want := "ex-2\n" + links + "\n" + links + "\n"; out != want {
		t.Errorf("got %q, want %q", out, want)
	}
}
