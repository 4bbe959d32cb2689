package executor

import (
	"context"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"

	"mesos-gpu/executor/task"
	"mesos-gpu/job"
)

// wantKilled waits for TASK_KILLED with a UUID, and for the executor's end after its
// acknowledgement, not before.
func (r *testRig) wantKilled() {
	r.t.Helper()
	s := r.update(mesos.TASK_KILLED)
	if len(s.UUID) == 0 {
		r.t.Error("TASK_KILLED without a UUID")
	}
	synctest.Wait()
	select {
	case err := <-r.done:
		r.t.Fatalf("executor ended before the acknowledgement: %v", err)
	default:
	}
	r.acknowledge(s)
	r.endedWell()
}

// SHUTDOWN ends the task in every phase within its own kill grace, because the framework sets the
// executor's grace 5 s above it. The task is KILLED, and the executor waits for the
// acknowledgement.
func TestShutdownInEachPhase(t *testing.T) {
	const killGrace = 30 * time.Second
	newShutdownRig := func(t *testing.T) *testRig {
		r := newRig(t)
		r.cfg.ShutdownGrace = killGrace + 5*time.Second
		return r
	}
	i := func(t *testing.T) mesos.TaskInfo { return info(t, task.TaskSpec{KillGrace: killGrace}) }
	for name, run := range map[string]func(t *testing.T){
		"while it claims its devices": func(t *testing.T) {
			r := newClaimRig(t, func(ctx context.Context) error {
				<-ctx.Done()
				return ctx.Err()
			})
			r.cfg.ShutdownGrace = killGrace + 5*time.Second
			r.run().subscribed()
			r.launch(claimInfo(t, true))
			r.acknowledge(r.update(mesos.TASK_STARTING))
			r.shutdown()
			r.wantKilled()
			if r.task.got.ID != "" {
				t.Error("the task was started")
			}
		},
		"while it pulls an image": func(t *testing.T) {
			r := newShutdownRig(t).run()
			r.subscribed(mesos.FrameworkInfo_Capability_TASK_KILLING_STATE)
			r.launch(i(t))
			r.acknowledge(r.update(mesos.TASK_STARTING))
			synctest.Wait()
			r.shutdown()
			r.acknowledge(r.update(mesos.TASK_KILLING))
			r.wantKilled()
			if !r.task.aborted {
				t.Error("the start went on")
			}
		},
		"while it starts and cannot stop": func(t *testing.T) {
			r := newShutdownRig(t)
			r.cfg.Runtimes[job.Mesos] = unprobedRuntime{r.task}
			r.run().subscribed()
			r.launch(i(t))
			r.acknowledge(r.update(mesos.TASK_STARTING))
			start := time.Now()
			r.shutdown()
			time.Sleep(10 * time.Second)
			r.task.start <- nil
			r.signalled(syscall.SIGTERM)
			r.signalled(syscall.SIGKILL)
			if got := time.Since(start); got != killGrace {
				t.Errorf("SIGKILL came after %s, want %s", got, killGrace)
			}
			r.task.exit <- task.ExitStatus{Signal: syscall.SIGKILL}
			r.wantKilled()
		},
		"before TASK_RUNNING is acknowledged": func(t *testing.T) {
			r := newShutdownRig(t).run()
			r.subscribed()
			r.launch(i(t))
			r.task.start <- nil
			starting, running := r.update(mesos.TASK_STARTING), r.update(mesos.TASK_RUNNING)
			r.shutdown()
			r.signalled(syscall.SIGTERM)
			r.acknowledge(starting)
			r.acknowledge(running)
			r.task.exit <- task.ExitStatus{Signal: syscall.SIGTERM}
			r.wantKilled()
		},
		"while it runs": func(t *testing.T) {
			r := newShutdownRig(t).run()
			r.subscribed()
			r.launch(i(t))
			r.running()
			start := time.Now()
			r.shutdown()
			r.shutdown() // again
			r.signalled(syscall.SIGTERM)
			r.signalled(syscall.SIGKILL)
			if got := time.Since(start); got != killGrace {
				t.Errorf("SIGKILL came after %s, want %s", got, killGrace)
			}
			r.task.exit <- task.ExitStatus{Signal: syscall.SIGKILL}
			r.wantKilled()
		},
		"while it is killed": func(t *testing.T) {
			r := newShutdownRig(t).run()
			r.subscribed()
			r.launch(i(t))
			r.running()
			start := time.Now()
			r.kill(time.Hour)
			time.Sleep(time.Second)
			r.shutdown()
			r.signalled(syscall.SIGTERM)
			r.signalled(syscall.SIGKILL)
			if got, want := time.Since(start), killGrace+time.Second; got != want {
				t.Errorf("SIGKILL came after %s, want %s", got, want)
			}
			r.task.exit <- task.ExitStatus{Signal: syscall.SIGKILL}
			r.wantKilled()
		},
		"while the agent is away": func(t *testing.T) {
			r := newShutdownRig(t)
			r.cfg.Checkpoint = true
			r.run().subscribed()
			r.launch(i(t))
			r.running()
			r.agent.send(executor.Event{Type: executor.Event_SHUTDOWN})
			synctest.Wait()
			r.agent.hangUp()
			synctest.Wait()
			r.signalled(syscall.SIGTERM)
			r.task.exit <- task.ExitStatus{Signal: syscall.SIGTERM}
			for _, u := range r.subscribed().UnacknowledgedUpdates {
				if u.Status.GetState() == mesos.TASK_KILLED { // the subscription carries it
					r.acknowledge(u.Status)
					r.endedWell()
					return
				}
			}
			r.wantKilled()
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, run) })
	}
}

// SHUTDOWN after the task's end leaves its status as it is, and the executor waits for the
// acknowledgement until its grace period ends.
func TestShutdownAfterEnd(t *testing.T) {
	for _, acknowledged := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t).run()
			r.subscribed()
			r.launch(info(t, task.TaskSpec{}))
			r.running()
			r.task.exit <- task.ExitStatus{Code: 3}
			s := r.update(mesos.TASK_FAILED)
			start := time.Now()
			r.shutdown()
			time.Sleep(2 * time.Second)
			want := r.cfg.ShutdownGrace
			if acknowledged {
				r.acknowledge(s)
				want = 2 * time.Second
			}
			r.endedWell()
			if got := time.Since(start); got != want {
				t.Errorf("ended after %s, want %s", got, want)
			}
		})
	}
}
