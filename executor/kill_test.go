package executor

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
	"mesos-gpu/job"
)

func (r *testRig) signalled(want syscall.Signal) {
	r.t.Helper()
	if got := r.awaitSignal(); got != want {
		r.t.Fatalf("task got signal %s, want %s", got, want)
	}
}

// awaitSignal returns the next signal to the task.
func (r *testRig) awaitSignal() (sig syscall.Signal) {
	r.t.Helper()
	select {
	case sig = <-r.task.signals:
	case <-time.After(patience):
		r.t.Fatalf("the task runs on, without a signal for %s: its executor does not end it", patience)
	}
	return sig
}

func TestKillEndsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).run()
		r.subscribed(mesos.FrameworkInfo_Capability_TASK_KILLING_STATE)
		r.launch(info(t, task.TaskSpec{KillGrace: 30 * time.Second}))
		r.running()
		r.kill(-1)
		r.acknowledge(r.update(mesos.TASK_KILLING))
		r.signalled(syscall.SIGTERM)
		r.task.exit <- task.ExitStatus{Code: 0}
		s := r.update(mesos.TASK_KILLED)
		if s.GetMessage() != "exited with status 0" || label(s) != "" {
			t.Errorf("got message %q and exit code %q, want no code for a requested end", s.GetMessage(), label(s))
		}
		r.acknowledge(s)
		r.endedWell()
		if len(r.task.signals) != 0 {
			t.Errorf("task got a further signal")
		}
	})
}

func TestKillGrace(t *testing.T) {
	policy := &mesos.KillPolicy{GracePeriod: &mesos.DurationInfo{Nanoseconds: int64(4 * time.Second)}}
	tests := []struct {
		name  string
		event time.Duration // time of the KILL event; negative: none
		info  *mesos.KillPolicy
		want  time.Duration
	}{
		{"no grace period set", -1, nil, 5 * time.Second},
		{"task info's", -1, policy, 4 * time.Second},
		{"kill's", 2 * time.Second, policy, 2 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t).run()
				r.subscribed()
				i := info(t, task.TaskSpec{})
				i.KillPolicy = tt.info
				r.launch(i)
				r.running()
				start := time.Now()
				r.kill(tt.event)
				r.signalled(syscall.SIGTERM)
				r.signalled(syscall.SIGKILL)
				if got := time.Since(start); got != tt.want {
					t.Errorf("SIGKILL came after %s, want %s", got, tt.want)
				}
				r.signalled(syscall.SIGKILL) // and again, while the task does not end
				r.task.exit <- task.ExitStatus{Signal: syscall.SIGKILL}
				r.acknowledge(r.update(mesos.TASK_KILLED))
				r.endedWell()
			})
		})
	}
}

// delayedInfo returns a task with a kill grace of 5 s and a shutdown delay of 10 s.
func delayedInfo(t *testing.T) mesos.TaskInfo {
	t.Helper()
	i := info(t, task.TaskSpec{KillGrace: 5 * time.Second})
	data, err := job.LaunchData{Job: "job", Command: []string{"x"}, ShutdownDelay: 10 * time.Second}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	i.Data = data
	return i
}

// A task with a shutdown delay is KILLING at once and gets SIGTERM after the delay. Repeated KILLs change nothing. It is
// killed, however it ends.
func TestShutdownDelay(t *testing.T) {
	for _, afterSIGTERM := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t).run()
			r.subscribed(mesos.FrameworkInfo_Capability_TASK_KILLING_STATE)
			r.launch(delayedInfo(t))
			r.running()
			start := time.Now()
			r.kill(-1)
			r.acknowledge(r.update(mesos.TASK_KILLING))
			time.Sleep(8 * time.Second)
			r.kill(-1)
			if afterSIGTERM {
				r.signalled(syscall.SIGTERM)
				if got := time.Since(start); got != 10*time.Second {
					t.Errorf("SIGTERM came after %s, want 10s", got)
				}
				r.signalled(syscall.SIGKILL)
				if got := time.Since(start); got != 15*time.Second {
					t.Errorf("SIGKILL came after %s, want 15s", got)
				}
			}
			r.task.exit <- task.ExitStatus{}
			r.acknowledge(r.update(mesos.TASK_KILLED))
			r.endedWell()
		})
	}
}

// signalledAfter checks that the next signal after a KILL with that grace period comes so long after start.
func signalledAfter(t *testing.T, r *testRig, grace time.Duration, sig syscall.Signal, start time.Time, want time.Duration) {
	t.Helper()
	r.signalled(sig)
	if got := time.Since(start); got != want {
		t.Errorf("grace %s: signal %s came after %s, want %s", grace, sig, got, want)
	}
}

// A second KILL with a shorter grace period brings SIGKILL forward. It leaves SIGTERM at its time, or brings it forward too.
func TestSecondKillDoesNotPostponeSIGTERM(t *testing.T) {
	for grace, want := range map[time.Duration]struct{ sigterm, sigkill time.Duration }{
		time.Minute:     {10 * time.Second, 61 * time.Second},
		8 * time.Second: {4 * time.Second, 9 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t).run()
			r.subscribed()
			r.launch(delayedInfo(t))
			r.running()
			start := time.Now()
			r.kill(100 * time.Second)
			time.Sleep(time.Second)
			r.kill(grace)
			signalledAfter(t, r, grace, syscall.SIGTERM, start, want.sigterm)
			signalledAfter(t, r, grace, syscall.SIGKILL, start, want.sigkill)
			r.task.exit <- task.ExitStatus{Signal: syscall.SIGKILL}
			r.acknowledge(r.update(mesos.TASK_KILLED))
			r.endedWell()
		})
	}
}

// A KILL with a grace period of its own leaves no time for the delay beyond it.
func TestKillGraceLimitsShutdownDelay(t *testing.T) {
	for grace, want := range map[time.Duration]struct{ sigterm, sigkill time.Duration }{
		0:               {0, 0},
		5 * time.Second: {0, 5 * time.Second},
		7 * time.Second: {2 * time.Second, 7 * time.Second},
		time.Minute:     {10 * time.Second, time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t).run()
			r.subscribed()
			r.launch(delayedInfo(t))
			r.running()
			start := time.Now()
			r.kill(grace)
			if grace > 0 {
				signalledAfter(t, r, grace, syscall.SIGTERM, start, want.sigterm)
			}
			signalledAfter(t, r, grace, syscall.SIGKILL, start, want.sigkill)
			r.task.exit <- task.ExitStatus{Signal: syscall.SIGKILL}
			r.acknowledge(r.update(mesos.TASK_KILLED))
			r.endedWell()
		})
	}
}

func TestKillWithoutGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).run()
		r.subscribed()
		r.launch(info(t, task.TaskSpec{KillGrace: time.Hour}))
		r.running()
		r.kill(-1)
		r.signalled(syscall.SIGTERM)
		r.kill(0) // an impatient second kill
		start := time.Now()
		r.signalled(syscall.SIGKILL)
		if got := time.Since(start); got != 0 {
			t.Errorf("SIGKILL came after %s, want at once", got)
		}
		r.task.exit <- task.ExitStatus{Signal: syscall.SIGKILL}
		r.acknowledge(r.update(mesos.TASK_KILLED))
		r.endedWell()
	})
}

func TestKillDuringLaunch(t *testing.T) {
	t.Run("start gives up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t).run()
			r.subscribed(mesos.FrameworkInfo_Capability_TASK_KILLING_STATE)
			r.launch(info(t, task.TaskSpec{KillGrace: time.Second}))
			r.update(mesos.TASK_STARTING)
			r.kill(-1)
			r.update(mesos.TASK_KILLING)
			r.acknowledge(r.update(mesos.TASK_KILLED))
			r.endedWell()
			if !r.task.aborted {
				t.Errorf("launch went on after the kill")
			}
		})
	})
	t.Run("start was faster", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.cfg.Runtimes[job.Mesos] = unprobedRuntime{r.task}
			r.run()
			r.subscribed()
			r.launch(info(t, task.TaskSpec{KillGrace: time.Second}))
			r.update(mesos.TASK_STARTING)
			r.kill(-1)
			synctest.Wait()
			r.task.start <- nil
			r.signalled(syscall.SIGTERM)
			r.task.exit <- task.ExitStatus{Signal: syscall.SIGTERM}
			r.acknowledge(r.update(mesos.TASK_KILLED))
			r.endedWell()
		})
	})
}

// TestKillReportsLeftContainer: a container that could not be removed may hold GPUs, so
// the status reports it even after a kill.
func TestKillReportsLeftContainer(t *testing.T) {
	left := errors.New("remove container mesos-gpu-1: docker rm -f mesos-gpu-1")
	if o := endStatus(task.ExitStatus{}, left, true); o.state != mesos.TASK_KILLED || o.message != left.Error() {
		t.Errorf("got %s with %q, want TASK_KILLED with %q", o.state, o.message, left)
	}
}

func TestKillOfUnknownTaskIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).run()
		r.subscribed()
		r.kill(-1) // nothing was launched
		i := info(t, task.TaskSpec{})
		i.TaskID.Value = "other"
		r.launch(i)
		r.running()
		r.kill(-1)
		synctest.Wait()
		if len(r.task.signals) != 0 {
			t.Errorf("another task's KILL signalled this one")
		}
		r.task.exit <- task.ExitStatus{}
		r.acknowledge(r.update(mesos.TASK_FINISHED))
		r.endedWell()
	})
}

func TestShutdownEndsTask(t *testing.T) {
	t.Run("of an idle executor", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t).run()
			r.subscribed()
			r.shutdown()
			r.endedWell()
		})
	})
	t.Run("kills within the agent's grace", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t).run()
			r.subscribed()
			r.launch(info(t, task.TaskSpec{KillGrace: time.Minute}))
			r.running()
			start := time.Now()
			r.shutdown()
			r.signalled(syscall.SIGTERM)
			r.signalled(syscall.SIGKILL)
			if got := time.Since(start); got != 4*time.Second {
				t.Errorf("SIGKILL came after %s of 5s, want 4s", got)
			}
			r.task.exit <- task.ExitStatus{Signal: syscall.SIGKILL}
			r.acknowledge(r.update(mesos.TASK_KILLED))
			r.endedWell()
		})
	})
	t.Run("does not outlast the agent's grace", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t).run()
			r.subscribed()
			r.launch(info(t, task.TaskSpec{KillGrace: time.Minute}))
			r.running()
			start := time.Now()
			r.shutdown()
			r.endedWell() // the task ignores every signal
			if got := time.Since(start); got != 5*time.Second {
				t.Errorf("executor ended after %s, want 5s", got)
			}
			if !r.task.forced {
				t.Errorf("the task was left running")
			}
		})
	})
	t.Run("by the executor's own context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t).run()
			r.subscribed()
			r.launch(info(t, task.TaskSpec{KillGrace: time.Second}))
			r.running()
			r.stop()
			r.signalled(syscall.SIGTERM)
			r.task.exit <- task.ExitStatus{Signal: syscall.SIGTERM}
			r.acknowledge(r.update(mesos.TASK_KILLED))
			r.endedWell()
		})
	})
}
