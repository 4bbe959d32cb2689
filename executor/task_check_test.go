package executor

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
	"mesos-gpu/job"
)

func exitCode(code int32) *mesos.CheckStatusInfo {
	return &mesos.CheckStatusInfo{Type: mesos.CheckInfo_COMMAND.Enum(), Command: &mesos.CheckStatusInfo_Command{ExitCode: &code}}
}

// A check reports changes. A probe without a result is an empty result, and a
// probe that did not reach the task is ignored.
func TestWatchCheck(t *testing.T) {
	type answer struct {
		found   *mesos.CheckStatusInfo
		problem error
	}
	late, away := answer{nil, errors.New("late")}, answer{nil, task.ErrNotReached}
	well, ill := answer{exitCode(0), nil}, answer{exitCode(1), errors.New("command exited with status 1")}
	synctest.Test(t, func(t *testing.T) {
		answers := []answer{late, well, well, away, ill, ill, late, late, well}
		start, n := time.Now(), 0
		try := func(context.Context) (*mesos.CheckStatusInfo, error) {
			n++
			return answers[n-1].found, answers[n-1].problem
		}
		h := checkAsHealthCheck(&mesos.CheckInfo{Type: mesos.CheckInfo_COMMAND, DelaySeconds: ptr(0.0), IntervalSeconds: ptr(1.0),
			Command: &mesos.CheckInfo_Command{Command: mesos.CommandInfo{Value: ptr("check")}}})
		var got []string
		ctx, cancel := context.WithTimeout(t.Context(), 8500*time.Millisecond)
		defer cancel()
		watchCheck(ctx, h, try, func(found *mesos.CheckStatusInfo, message string) {
			text := fmt.Sprint(time.Since(start), " none")
			if found.Command.ExitCode != nil {
				text = fmt.Sprint(time.Since(start), " ", *found.Command.ExitCode)
			}
			got = append(got, text+" "+message)
		})
		want := []string{"1s 0 ", "4s 1 ", "6s none check without an answer: late", "8s 0 "}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("statuses (-want +got):\n%s", diff)
		}
	})
}

// Every status of a task with a check contains the latest check result and the task's
// health. A check never ends the task.
func TestCheckedTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := probedRuntime{r.task, make(chan int, 3)}
		r.cfg.Runtimes[job.Docker] = p
		r.run()
		r.subscribed(mesos.FrameworkInfo_Capability_TASK_KILLING_STATE)
		work := info(t, task.TaskSpec{Containerizer: job.Docker, KillGrace: time.Second})
		work.Check = &mesos.CheckInfo{
			Type:            mesos.CheckInfo_COMMAND,
			IntervalSeconds: ptr(1e6),
			Command:         &mesos.CheckInfo_Command{Command: mesos.CommandInfo{Value: ptr("check")}},
		}
		work.HealthCheck = &mesos.HealthCheck{Type: mesos.HealthCheck_COMMAND, Command: &mesos.CommandInfo{Value: ptr("check")}, DelaySeconds: ptr(100.0)}
		r.launch(work)
		expect := func(state mesos.TaskState, reason mesos.TaskStatus_Reason, check *mesos.CheckStatusInfo, healthy *bool) {
			t.Helper()
			s := r.update(state)
			r.acknowledge(s)
			if diff := cmp.Diff(check, s.CheckStatus); diff != "" || s.GetReason() != reason {
				t.Errorf("%s for %s: check_status (-want +got):\n%s", state, s.GetReason(), diff)
			}
			if diff := cmp.Diff(healthy, s.Healthy); diff != "" {
				t.Errorf("%s: healthy (-want +got):\n%s", state, diff)
			}
		}
		const none = mesos.TaskStatus_Reason(0)
		empty := emptyCheckStatus(mesos.HealthCheck_COMMAND)
		expect(mesos.TASK_STARTING, none, empty, nil)
		r.task.start <- nil
		expect(mesos.TASK_RUNNING, none, empty, nil)
		p.codes <- 7
		expect(mesos.TASK_RUNNING, mesos.REASON_TASK_CHECK_STATUS_UPDATED, exitCode(7), nil)
		p.codes <- 0
		expect(mesos.TASK_RUNNING, mesos.REASON_TASK_HEALTH_CHECK_STATUS_UPDATED, exitCode(7), ptr(true))
		r.kill(-1)
		expect(mesos.TASK_KILLING, none, exitCode(7), ptr(true))
		<-r.task.signals
		r.task.exit <- task.ExitStatus{Signal: 15}
		expect(mesos.TASK_KILLED, none, exitCode(7), ptr(true))
		r.endedWell()
	})
}
