package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
	"mesos-gpu/job"
)

// A check starts after its delay, ignores failures in the grace period,
// reports changes and each failure, and requests a kill at the limit.
func TestWatchHealth(t *testing.T) {
	bad := errors.New("refused")
	tests := []struct {
		name  string
		limit uint32
		found []error // result of the n-th probe; the last one repeats
		want  []string
	}{
		{"healthy", 3, []error{nil}, []string{"2s healthy"}},
		{"starts slowly", 3, []error{bad, bad, nil}, []string{"4s healthy"}},
		{"fails once", 3, []error{nil, bad, nil}, []string{"2s healthy", "3s unhealthy, 1 times of 3: refused", "4s healthy"}},
		{"fails too often", 2, []error{nil, bad}, []string{"2s healthy", "3s unhealthy, 1 times of 2: refused", "4s unhealthy, 2 times of 2: refused, kill",
			"5s unhealthy, 3 times of 2: refused, kill", "6s unhealthy, 4 times of 2: refused, kill", "7s unhealthy, 5 times of 2: refused, kill"}},
		{"never starts", 1, []error{bad}, []string{"6s unhealthy, 1 times of 1: refused, kill", "7s unhealthy, 2 times of 1: refused, kill"}},
		{"probe cannot reach the task", 1, []error{nil, task.ErrNotReached, nil}, []string{"2s healthy"}},
		{"failures without a limit", 0, []error{nil, bad, nil}, []string{"2s healthy", "3s unhealthy, 1 times of 0: refused", "4s healthy"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, n := time.Now(), 0
				h := &mesos.HealthCheck{DelaySeconds: ptr(2.0), IntervalSeconds: ptr(1.0), GracePeriodSeconds: ptr(3.0), ConsecutiveFailures: &tt.limit}
				try := func(context.Context) (*mesos.CheckStatusInfo, error) {
					n++
					return nil, tt.found[min(n, len(tt.found))-1]
				}
				var got []string
				ctx, cancel := context.WithTimeout(t.Context(), 7500*time.Millisecond)
				defer cancel()
				watchHealth(ctx, h, try, func(v healthResult) {
					text := fmt.Sprint(time.Since(start), " ", v.message)
					if v.killTask {
						text += ", kill"
					}
					got = append(got, text)
				})
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("verdicts (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// probedRuntime is a task whose health the test controls.
type probedRuntime struct {
	*fakeRuntime
	codes chan int
}

func (p probedRuntime) Start(ctx context.Context, t task.TaskSpec) (task.RunningTask, error) {
	_, err := p.fakeRuntime.Start(ctx, t)
	return p, err
}
func (p probedRuntime) ProbeAddress() string { return "" }
func (p probedRuntime) ExecProbe(ctx context.Context, argv []string, _ map[string]string) (int, error) {
	if !slices.Equal(argv, []string{"/bin/sh", "-c", "check"}) {
		return 0, fmt.Errorf("ran %q", argv)
	}
	select {
	case code := <-p.codes:
		return code, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// An unhealthy task reports its health, is killed, and its final status contains the
// reason.
func TestUnhealthyTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := probedRuntime{r.task, make(chan int, 3)}
		r.cfg.Runtimes[job.Docker] = p
		r.run()
		r.subscribed()
		work := info(t, task.TaskSpec{Containerizer: job.Docker, Image: "debian:12"})
		work.HealthCheck = &mesos.HealthCheck{Type: mesos.HealthCheck_COMMAND, Command: &mesos.CommandInfo{Value: ptr("check")}, ConsecutiveFailures: ptr(uint32(2))}
		r.launch(work)
		r.running()
		p.codes <- 0
		s := r.update(mesos.TASK_RUNNING)
		if !s.GetHealthy() || s.GetReason() != mesos.REASON_TASK_HEALTH_CHECK_STATUS_UPDATED {
			t.Errorf("healthy %v, reason %s", s.GetHealthy(), s.GetReason())
		}
		r.acknowledge(s)
		p.codes <- 1
		p.codes <- 1
		for n := 1; n <= 2; n++ {
			s = r.update(mesos.TASK_RUNNING)
			if want := fmt.Sprintf("unhealthy, %d times of 2: command exited with status 1", n); s.GetMessage() != want || s.Healthy == nil || *s.Healthy {
				t.Errorf("healthy %v with %q, want %q", s.Healthy, s.GetMessage(), want)
			}
			wantHealthFailure(t, s, &job.HealthFailure{Check: 1, Failures: n, Cause: "command exited with status 1"})
			r.acknowledge(s)
		}
		<-r.task.signals // SIGTERM
		r.task.exit <- task.ExitStatus{Signal: 15}
		s = r.update(mesos.TASK_KILLED)
		if s.Healthy == nil || *s.Healthy || s.GetMessage() != "unhealthy, 2 times of 2: command exited with status 1" {
			t.Errorf("healthy %v with %q at the end", s.Healthy, s.GetMessage())
		}
		r.acknowledge(s)
		r.endedWell()
	})
}

// wantHealthFailure checks the label of a status with the failure of a health check, nil for none.
func wantHealthFailure(t *testing.T, s mesos.TaskStatus, want *job.HealthFailure) {
	t.Helper()
	var got *job.HealthFailure
	for _, l := range s.GetLabels().GetLabels() {
		if l.Key == job.HealthFailureLabel {
			got = job.ParseHealthFailure(l.GetValue())
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("health failure (-want +got):\n%s", diff)
	}
}

// A task with two health checks is healthy if both pass. Either check can kill it, and
// each has its own failure limit.
func TestEachHealthCheckCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		first, second := make(chan int, 3), make(chan int, 3)
		r.cfg.Runtimes[job.Docker] = multiProbeRuntime{r.task, map[string]chan int{"first": first, "second": second}}
		r.run()
		r.subscribed()
		work := info(t, task.TaskSpec{Containerizer: job.Docker, Image: "debian:12"})
		of := func(command string, failures uint32) *mesos.HealthCheck {
			return &mesos.HealthCheck{
				Type:                mesos.HealthCheck_COMMAND,
				Command:             &mesos.CommandInfo{Value: &command},
				ConsecutiveFailures: &failures,
				TimeoutSeconds:      ptr(0.0),
			}
		}
		work.HealthCheck = of("first", 2)
		data, err := job.LaunchData{HealthChecks: []json.RawMessage{marshal(t, of("second", 0))}}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		work.Data = data
		r.launch(work)
		r.running()
		status := func(code chan int, with int, healthy bool, message string) mesos.TaskStatus {
			t.Helper()
			code <- with
			s := r.update(mesos.TASK_RUNNING)
			if s.Healthy == nil || *s.Healthy != healthy || s.GetMessage() != message {
				t.Errorf("healthy %v with %q, want %t with %q", s.Healthy, s.GetMessage(), healthy, message)
			}
			r.acknowledge(s)
			return s
		}
		first <- 0
		synctest.Wait() // no status: the second check has no result yet
		status(second, 0, true, "healthy")
		status(first, 1, false, "health check 1 of 2: unhealthy, 1 times of 2: command exited with status 1")
		wantHealthFailure(t,
			status(second, 1, false, "health check 2 of 2: unhealthy, 1 times of 0: command exited with status 1"),
			&job.HealthFailure{Check: 2, Failures: 1, Cause: "command exited with status 1"})
		first <- 0
		synctest.Wait() // still no status: the second check fails
		wantHealthFailure(t, status(second, 0, true, "healthy"), nil)
		status(first, 1, false, "health check 1 of 2: unhealthy, 1 times of 2: command exited with status 1")
		status(first, 1, false, "health check 1 of 2: unhealthy, 2 times of 2: command exited with status 1")
		<-r.task.signals // SIGTERM
		r.task.exit <- task.ExitStatus{Signal: 15}
		s := r.update(mesos.TASK_KILLED)
		if s.Healthy == nil || *s.Healthy {
			t.Errorf("healthy %v at the end", s.Healthy)
		}
		r.acknowledge(s)
		r.endedWell()
	})
}

// multiProbeRuntime is a task whose health the test controls for each command.
type multiProbeRuntime struct {
	*fakeRuntime
	codes map[string]chan int
}

func (p multiProbeRuntime) Start(ctx context.Context, t task.TaskSpec) (task.RunningTask, error) {
	_, err := p.fakeRuntime.Start(ctx, t)
	return p, err
}
func (p multiProbeRuntime) ProbeAddress() string { return "" }
func (p multiProbeRuntime) ExecProbe(ctx context.Context, argv []string, _ map[string]string) (int, error) {
	select {
	case code := <-p.codes[argv[2]]:
		return code, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func TestMaxCompletionTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).run()
		r.subscribed()
		work, start := info(t, task.TaskSpec{KillGrace: time.Minute}), time.Now()
		work.MaxCompletionTime = &mesos.DurationInfo{Nanoseconds: int64(time.Hour)}
		r.launch(work)
		r.running()
		if sig := <-r.task.signals; sig != 9 || time.Since(start) != time.Hour {
			t.Errorf("signal %d after %s, want SIGKILL after an hour", sig, time.Since(start))
		}
		r.task.exit <- task.ExitStatus{Signal: 9}
		s := r.update(mesos.TASK_FAILED)
		if s.GetReason() != mesos.REASON_MAX_COMPLETION_TIME_REACHED || s.GetMessage() != "ended after its max_completion_time of 1h0m0s" {
			t.Errorf("reason %s, message %q", s.GetReason(), s.GetMessage())
		}
		r.acknowledge(s)
		r.endedWell()
	})
}
