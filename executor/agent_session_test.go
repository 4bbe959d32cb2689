package executor

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"

	"mesos-gpu/executor/task"
)

func TestReconnectResends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cfg.Checkpoint = true
		r.run()
		if s := r.subscribed(); len(s.UnacknowledgedTasks) != 0 || len(s.UnacknowledgedUpdates) != 0 {
			t.Errorf("first subscription carries %d tasks and %d updates, want none", len(s.UnacknowledgedTasks), len(s.UnacknowledgedUpdates))
		}
		r.launch(info(t, task.TaskSpec{}))
		starting := r.update(mesos.TASK_STARTING) // neither update is acknowledged
		r.task.start <- nil
		run := r.update(mesos.TASK_RUNNING)
		r.agent.hangUp()
		synctest.Wait()
		r.task.exit <- task.ExitStatus{} // while the agent is disconnected
		synctest.Wait()
		s := r.subscribed()
		if len(s.UnacknowledgedTasks) != 1 || s.UnacknowledgedTasks[0].TaskID.Value != "t1" {
			t.Errorf("subscription carries tasks %v, want t1", s.UnacknowledgedTasks)
		}
		if len(s.UnacknowledgedUpdates) != 3 {
			t.Fatalf("subscription carries %d updates, want 3", len(s.UnacknowledgedUpdates))
		}
		for i, want := range []mesos.TaskStatus{starting, run} {
			if got := s.UnacknowledgedUpdates[i].Status; !bytes.Equal(got.UUID, want.UUID) {
				t.Errorf("update %d is %s, want %s again", i, got.GetState(), want.GetState())
			}
		}
		last := s.UnacknowledgedUpdates[2].Status
		if last.GetState() != mesos.TASK_FINISHED {
			t.Fatalf("last update is %s, want TASK_FINISHED", last.GetState())
		}
		r.acknowledge(starting)
		r.acknowledge(run)
		r.acknowledge(last)
		r.endedWell()
		if len(r.agent.calls) != 0 {
			t.Errorf("an update that the subscription carried was sent once more")
		}
	})
}

func TestAcknowledgedIsNotResent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cfg.Checkpoint = true
		r.run()
		r.subscribed()
		r.launch(info(t, task.TaskSpec{}))
		r.running()
		synctest.Wait()
		r.agent.hangUp()
		if s := r.subscribed(); len(s.UnacknowledgedTasks) != 0 || len(s.UnacknowledgedUpdates) != 0 {
			t.Errorf("subscription carries %d tasks and %d updates, want none", len(s.UnacknowledgedTasks), len(s.UnacknowledgedUpdates))
		}
		r.task.exit <- task.ExitStatus{}
		r.acknowledge(r.update(mesos.TASK_FINISHED))
		r.endedWell()
	})
}

func TestRefusedUpdateIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		refuse := 2
		r.agent.setAnswer(func(c *executor.Call) int {
			if c.GetType() == executor.Call_UPDATE && refuse > 0 {
				refuse--
				return http.StatusServiceUnavailable
			}
			return http.StatusOK
		})
		r.run()
		r.subscribed()
		start := time.Now()
		r.launch(info(t, task.TaskSpec{}))
		r.running()
		if got := time.Since(start); got != 2*resendInterval {
			t.Errorf("update arrived after %s, want %s", got, 2*resendInterval)
		}
		r.task.exit <- task.ExitStatus{}
		r.acknowledge(r.update(mesos.TASK_FINISHED))
		r.endedWell()
	})
}

// gone makes the agent refuse every call from now on.
func (r *testRig) gone() {
	r.agent.setAnswer(func(*executor.Call) int { return http.StatusServiceUnavailable })
	r.agent.hangUp()
}

func TestLostAgentEndsTask(t *testing.T) {
	tests := []struct {
		name       string
		checkpoint bool
		want       time.Duration // from the disconnection to SIGTERM
	}{
		{"with checkpoints the recovery timeout passes", true, 40 * time.Second},
		{"without them at once", false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.cfg.Checkpoint, r.cfg.RecoveryTimeout = tt.checkpoint, 40*time.Second
				r.run()
				r.subscribed()
				r.launch(info(t, task.TaskSpec{KillGrace: time.Second}))
				r.running()
				synctest.Wait()
				lost := time.Now()
				r.gone()
				r.awaitSignal()
				if got := time.Since(lost); got != tt.want {
					t.Errorf("the task was ended %s after the agent's loss, want %s", got, tt.want)
				}
				r.task.exit <- task.ExitStatus{}
				if err := r.ended(); err == nil || !strings.Contains(err.Error(), "agent at agent:5051 is gone") {
					t.Errorf("executor ended with %v, want the agent's loss", err)
				}
			})
		})
	}
}

// TestFinalStatusWaitsForAgent: the wait for the acknowledgement begins when the agent is back.
func TestFinalStatusWaitsForAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cfg.Checkpoint, r.cfg.RecoveryTimeout, r.cfg.ackTimeout = true, 15*time.Minute, time.Minute
		r.run()
		r.subscribed()
		r.launch(info(t, task.TaskSpec{}))
		r.running()
		synctest.Wait()
		r.gone()
		r.task.exit <- task.ExitStatus{}
		time.Sleep(10 * time.Minute)
		back := time.Now()
		r.agent.setAnswer(func(*executor.Call) int { return http.StatusOK })
		s := r.subscribed()
		if n := len(s.UnacknowledgedUpdates); n != 1 || s.UnacknowledgedUpdates[0].Status.GetState() != mesos.TASK_FINISHED {
			t.Fatalf("subscription carries %v, want TASK_FINISHED", s.UnacknowledgedUpdates)
		}
		subscribed := time.Now()
		r.endedWell()
		if got := time.Since(subscribed); got != time.Minute || subscribed.Sub(back) > defaultBackoffMax {
			t.Errorf("executor came back after %s and waited %s for the acknowledgement, want 1m", subscribed.Sub(back), got)
		}
	})
}

func TestAgentNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		attempts := 0
		r.agent.setAnswer(func(*executor.Call) int { attempts++; return http.StatusServiceUnavailable })
		start := time.Now()
		r.run()
		if err := r.ended(); err == nil || !strings.Contains(err.Error(), "refused by the test") {
			t.Errorf("executor ended with %v, want the agent's answer in it", err)
		}
		if got := time.Since(start); got != firstContactTimeout {
			t.Errorf("executor tried for %s, want %s", got, firstContactTimeout)
		}
		if attempts < 5 || attempts > 60 {
			t.Errorf("executor tried %d times", attempts)
		}
	})
}

func TestRecoveringAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		ready := time.Now().Add(5 * time.Second)
		r.agent.setAnswer(func(*executor.Call) int {
			if time.Now().Before(ready) {
				return http.StatusServiceUnavailable
			}
			return http.StatusOK
		})
		r.run()
		r.subscribed()
		if late := time.Since(ready); late > defaultBackoffMax {
			t.Errorf("executor came %s after the agent was ready, want at most %s", late, defaultBackoffMax)
		}
		r.shutdown()
		r.endedWell()
	})
}

func TestSubscribeBackoff(t *testing.T) {
	r := &reconnection{backoffMax: 2 * time.Second, random: rand.N[time.Duration]}
	for attempt := range 100 {
		want := min(backoffMin<<min(attempt, 16), r.backoffMax)
		if got := r.backoff(attempt); got < want/2 || got > want {
			t.Errorf("pause(%d) is %s, want %s to %s", attempt, got, want/2, want)
		}
	}
}
