package container

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mesos-gpu/internal/testing/testneeds"
)

// kinds runs a test with plain processes and, as root, with isolated ones.
func kinds(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Run("plain", func(t *testing.T) { test(t, newRig(t, false)) })
	t.Run("fenced", func(t *testing.T) {
		testneeds.RequireDevicesCgroup(t)
		test(t, newRig(t, true))
	})
}

// rig launches shell commands and reads their output.
type rig struct {
	t      *testing.T
	engine *ContainerEngine
	dir    string
	n      int
}

func newRig(t *testing.T, fenced bool) *rig {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cgroup := fmt.Sprintf("/mesos-gpu-test-%d-%s", os.Getpid(), strings.NewReplacer("/", "-").Replace(t.Name()))
	e, err := New(EngineConfig{Program: program, Fenced: fenced, Cgroup: cgroup})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.ClearCgroups(t.Context()); err != nil {
			t.Error(err)
		}
		if fenced && e.cgroups.cgroupExists(cgroup) {
			t.Errorf("cgroup %s is still there", cgroup)
		}
	})
	return &rig{t: t, engine: e, dir: t.TempDir()}
}

// spec returns a spec that runs a shell command in the rig's folder.
func (r *rig) spec(script string) LaunchSpec {
	r.t.Helper()
	r.n++
	name := fmt.Sprintf("c%d", r.n)
	return LaunchSpec{
		ID: []string{name},
		Command: Command{
			Path: "sh", Args: []string{"sh", "-c", script}, Dir: r.dir,
			Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "GREETING=hello"},
		},
		Stdout: r.file(name + ".out"), Stderr: r.file(name + ".err"),
	}
}

func (r *rig) file(name string) *os.File {
	r.t.Helper()
	f, err := os.OpenFile(filepath.Join(r.dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { f.Close() })
	return f
}

func (r *rig) launch(s LaunchSpec) *RunningContainer {
	r.t.Helper()
	c, err := r.engine.Launch(r.t.Context(), s)
	if err != nil {
		r.t.Fatalf("launch: %v\n%s", err, r.read(s.Stderr.Name()))
	}
	r.t.Cleanup(func() {
		c.Kill()
		<-c.Exited()
		if err := c.RemoveCgroup(); err != nil {
			r.t.Error(err)
		}
	})
	return c
}

func (r *rig) wait(c *RunningContainer) syscall.WaitStatus {
	r.t.Helper()
	select {
	case <-c.Exited():
		return c.WaitStatus()
	case <-time.After(time.Minute):
		r.t.Fatal("the container has not ended after a minute")
		return 0
	}
}

func (r *rig) read(file string) string {
	r.t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// await polls until another program has made the condition true.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

func TestOutputEnvironmentAndExit(t *testing.T) {
	kinds(t, func(t *testing.T, r *rig) {
		s := r.spec(`echo "$GREETING from $(pwd)"; env | wc -l; echo oops >&2; exit 3`)
		status := r.wait(r.launch(s))
		if !status.Exited() || status.ExitStatus() != 3 {
			t.Errorf("status %#x, want exit 3", int(status))
		}
		// PATH, GREETING, and PWD, which the shell adds.
		if got, want := r.read(s.Stdout.Name()), "hello from "+r.dir+"\n3"; got != want {
			t.Errorf("stdout %q, want %q", got, want)
		}
		if got := r.read(s.Stderr.Name()); got != "oops" {
			t.Errorf("stderr %q", got)
		}
	})
}

func TestSignalsReachTheCommand(t *testing.T) {
	kinds(t, func(t *testing.T, r *rig) {
		// Not a shell: as the first process of a PID namespace a program
		// without a handler would ignore SIGTERM.
		s := r.spec("")
		s.Command.Path, s.Command.Args = "sleep", []string{"sleep", "1000"}
		c := r.launch(s)
		if err := c.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if status := r.wait(c); !status.Signaled() || status.Signal() != syscall.SIGTERM {
			t.Errorf("status %#x, want killed by SIGTERM", int(status))
		}
	})
}

func TestKillEndsTheWholeTree(t *testing.T) {
	kinds(t, func(t *testing.T, r *rig) {
		// One child has left its session, one its parent. While they run, the
		// write end of a pipe stays open.
		held, end, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		s := r.spec("setsid sleep 1000 & (sleep 1000 &) ; echo ready; wait")
		s.Stderr = end
		c := r.launch(s)
		await(t, "the tree", func() bool { return r.read(s.Stdout.Name()) == "ready" })
		c.Kill()
		if status := r.wait(c); !status.Signaled() || status.Signal() != syscall.SIGKILL {
			t.Errorf("status %#x, want killed by SIGKILL", int(status))
		}
		end.Close()
		held.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := held.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
			t.Errorf("a process of the container lives after Kill: read %v", err)
		}
		held.Close()
	})
}

func TestWhatTheCommandLeavesEnds(t *testing.T) {
	kinds(t, func(t *testing.T, r *rig) {
		held, end, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		s := r.spec("setsid sleep 1000 & exit 0")
		s.Stderr = end
		r.wait(r.launch(s))
		end.Close()
		held.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := held.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
			t.Errorf("a child outlives its container's command: read %v", err)
		}
		held.Close()
	})
}

func TestLaunchErrors(t *testing.T) {
	kinds(t, func(t *testing.T, r *rig) {
		for _, test := range []struct {
			name, want string
			change     func(*LaunchSpec)
		}{
			{"no program", "no such program", func(s *LaunchSpec) { s.Command.Path = "no-such-program" }},
			{"no directory", "no such file", func(s *LaunchSpec) { s.Command.Dir = "/no/such/directory" }},
			{"no PATH", "no PATH", func(s *LaunchSpec) { s.Command.Env = nil }},
		} {
			t.Run(test.name, func(t *testing.T) {
				s := r.spec("true")
				test.change(&s)
				_, err := r.engine.Launch(t.Context(), s)
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error %v, want one with %q", err, test.want)
				}
				if err := r.engine.ClearCgroups(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	})
}

func TestLaunchObeysContext(t *testing.T) {
	kinds(t, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.engine.Launch(ctx, r.spec("sleep 1000")); err == nil {
			t.Error("launched under a context that was over")
		}
	})
}
