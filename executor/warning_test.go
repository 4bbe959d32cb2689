package executor

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
	"mesos-gpu/job"
)

// warnedInfo returns a task with a kill grace of 5 s and a warning.
func warnedInfo(t *testing.T, w job.Warning) mesos.TaskInfo {
	t.Helper()
	i := info(t, task.TaskSpec{KillGrace: 5 * time.Second})
	data, err := job.LaunchData{Job: "job", Command: []string{"x"}, Warn: &w}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	i.Data = data
	return i
}

// TestWarningPrecedesKill: a KILL with time for a warning sends the signal, then SIGTERM, then SIGKILL. Repeated KILLs
// change nothing.
func TestWarningPrecedesKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).run()
		r.subscribed()
		r.launch(warnedInfo(t, job.Warning{Signal: "USR1", File: "warned", Before: time.Minute}))
		r.running()
		start := time.Now()
		wait := func(want syscall.Signal, after time.Duration) {
			t.Helper()
			r.signalled(want)
			if got := time.Since(start); got != after {
				t.Errorf("%s came after %s, want %s", want, got, after)
			}
		}
		r.kill(65 * time.Second)
		wait(syscall.SIGUSR1, 0)
		synctest.Wait()
		text, err := os.ReadFile(filepath.Join(r.cfg.Sandbox, "warned"))
		if want := start.Add(time.Minute).UTC().Format(time.RFC3339) + "\n"; err != nil || string(text) != want {
			t.Errorf("the file has %q, %v, want %q", text, err, want)
		}
		time.Sleep(10 * time.Second)
		r.kill(65 * time.Second)
		wait(syscall.SIGTERM, time.Minute)
		wait(syscall.SIGKILL, 65*time.Second)
		r.task.exit <- task.ExitStatus{Signal: syscall.SIGKILL}
		r.acknowledge(r.update(mesos.TASK_KILLED))
		r.endedWell()
	})
}

// TestDrainByMesosWarns: a KILL with the grace period of Mesos's drain warns the task, for its own time at most.
func TestDrainByMesosWarns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).run()
		r.subscribed()
		r.launch(warnedInfo(t, job.Warning{Signal: "USR1", Before: time.Minute}))
		r.running()
		start := time.Now()
		r.kill(time.Hour)
		r.signalled(syscall.SIGUSR1)
		r.signalled(syscall.SIGTERM)
		if took := time.Since(start); took != time.Minute {
			t.Errorf("SIGTERM came after %s, want a minute", took)
		}
		r.task.exit <- task.ExitStatus{Signal: syscall.SIGTERM}
		r.acknowledge(r.update(mesos.TASK_KILLED))
		r.endedWell()
	})
}

// TestWarnedTaskLeavesEarly: a task that exits with 0 after its warning has finished; with another code, or after SIGTERM, it
// was killed.
func TestWarnedTaskLeavesEarly(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration
		exit  int
		want  mesos.TaskState
	}{
		{"done", time.Second, 0, mesos.TASK_FINISHED},
		{"to be continued", time.Second, 75, mesos.TASK_KILLED},
		{"after SIGTERM", 61 * time.Second, 0, mesos.TASK_KILLED},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t).run()
				r.subscribed()
				r.launch(warnedInfo(t, job.Warning{Signal: "USR2", Before: time.Minute}))
				r.running()
				r.kill(65 * time.Second)
				r.signalled(syscall.SIGUSR2)
				time.Sleep(c.after)
				r.task.exit <- task.ExitStatus{Code: c.exit}
				r.acknowledge(r.update(c.want))
				r.endedWell()
			})
		})
	}
}

// TestWarningFileReplacesWhatTaskMade: pipes and links that the task made at the file's name neither block the executor nor
// let it write elsewhere.
func TestWarningFileReplacesWhatTaskMade(t *testing.T) {
	victim := filepath.Join(t.TempDir(), "victim")
	for name, prepare := range map[string]func(path string) error{
		"nothing": func(string) error { return nil },
		"file": func(path string) error {
			return os.WriteFile(path, []byte("a long text that is not the time of SIGTERM"), 0o600)
		},
		"pipe": func(path string) error { return syscall.Mkfifo(path, 0o666) },
		"link": func(path string) error { return os.Symlink(victim, path) },
	} {
		for _, file := range []string{"warned", "run/warned"} {
			sandbox := t.TempDir()
			if err := os.Mkdir(filepath.Join(sandbox, "run"), 0o755); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(sandbox, file)
			if err := prepare(path); err != nil {
				t.Fatal(err)
			}
			written := make(chan error, 1)
			go func() { written <- writeWarningFile(sandbox, file, time.Unix(0, 0)) }()
			select {
			case err := <-written:
				if err != nil {
					t.Errorf("%s at %s: %v", name, file, err)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%s at %s: the executor hangs", name, file)
			}
			if text, err := os.ReadFile(path); err != nil || string(text) != "1970-01-01T00:00:00Z\n" {
				t.Errorf("%s at %s: the file has %q, %v", name, file, text, err)
			}
			if _, err := os.Stat(victim); err == nil {
				t.Errorf("%s at %s: the executor wrote out of the sandbox", name, file)
			}
		}
	}
}

// TestPostWarning: the task gets a POST, and an error answer is reported.
func TestPostWarning(t *testing.T) {
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.Path)
		switch r.URL.Path {
		case "/broken":
			w.WriteHeader(http.StatusInternalServerError)
		case "/elsewhere":
			http.Redirect(w, r, "/warn", http.StatusTemporaryRedirect)
		}
	}))
	defer s.Close()
	if err := postWarning(s.URL + "/warn"); err != nil {
		t.Error(err)
	}
	if err := postWarning(s.URL + "/elsewhere"); err != nil {
		t.Error(err)
	}
	if err := postWarning(s.URL + "/broken"); err == nil || !strings.Contains(err.Error(), "500") {
		t.Errorf("got %v", err)
	}
	if want := []string{"POST /warn", "POST /elsewhere", "POST /broken"}; !slices.Equal(got, want) {
		t.Errorf("the task got %q, want %q", got, want)
	}
}

// TestKillEndsWarning: a KILL without time for a warning, as users request it, ends one that is in progress.
func TestKillEndsWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).run()
		r.subscribed()
		r.launch(warnedInfo(t, job.Warning{Signal: "USR1", Before: time.Minute}))
		r.running()
		r.kill(65 * time.Second)
		r.signalled(syscall.SIGUSR1)
		start := time.Now()
		r.kill(-1)
		r.signalled(syscall.SIGTERM)
		r.signalled(syscall.SIGKILL)
		if got := time.Since(start); got != 5*time.Second {
			t.Errorf("SIGKILL came after %s, want 5s", got)
		}
		r.task.exit <- task.ExitStatus{Signal: syscall.SIGKILL}
		r.acknowledge(r.update(mesos.TASK_KILLED))
		r.endedWell()
	})
}
