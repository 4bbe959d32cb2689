package control

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/job"
)

const checked = `{"id": "/shop/web", "cmd": "one", "mem": 32, "healthChecks": [{"protocol": "TCP"}]}`

type healthResult struct {
	Alive                                              bool
	ConsecutiveFailures                                int
	FirstSuccess, LastSuccess, LastFailure, InstanceID string
	LastFailureCause                                   string
}

func (s *testController) onlyHealthResult() healthResult {
	s.Helper()
	synctest.Wait()
	var got struct {
		Tasks []struct{ HealthCheckResults []healthResult }
	}
	if s.sendRequest("GET", web+"/tasks", "", &got); len(got.Tasks) != 1 || len(got.Tasks[0].HealthCheckResults) != 1 {
		s.Fatalf("tasks %+v, want one with one result", got.Tasks)
	}
	return got.Tasks[0].HealthCheckResults[0]
}

// TestHealthResultsHaveHistory checks that the result of a task's health checks has the times of successes and failures,
// the number of consecutive failures and their cause.
func TestHealthResultsHaveHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startInBubble(t, newFakeCluster(), nil)
		now := func() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000Z") }
		check := func(want healthResult) {
			t.Helper()
			got := s.onlyHealthResult()
			want.InstanceID = got.InstanceID
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("at %s (-want +got):\n%s", now(), diff)
			}
			time.Sleep(10 * time.Second)
		}
		s.mustSend("POST", "/v2/apps", checked)
		name, first := s.onlyJobName(), now()
		check(healthResult{Alive: true, FirstSuccess: first, LastSuccess: first})

		s.cluster.setHealth(name, false, "unhealthy, 1 times of 3: connection refused", &job.HealthFailure{Check: 1, Failures: 1, Cause: "connection refused"})
		check(healthResult{ConsecutiveFailures: 1, FirstSuccess: first, LastSuccess: first, LastFailure: now(), LastFailureCause: "connection refused"})
		s.cluster.setHealth(name, false, "health check 2 of 2: unhealthy, 2 times of 3: status 500", &job.HealthFailure{Check: 2, Failures: 2, Cause: "status 500"})
		failed := healthResult{ConsecutiveFailures: 2, FirstSuccess: first, LastSuccess: first, LastFailure: now(), LastFailureCause: "status 500"}
		check(failed)
		s.cluster.setHealth(name, false, "health check 2 of 2: unhealthy, 2 times of 3: status 500", &job.HealthFailure{
			Check:    2,
			Failures: 2,
			Cause:    "status 500",
		}) // another change of the job
		check(failed)
		s.cluster.setHealth(name, false, "a message about something else", nil)
		check(failed)

		s.cluster.setHealth(name, true, "healthy", nil)
		again := now()
		check(healthResult{Alive: true, FirstSuccess: first, LastSuccess: again, LastFailure: failed.LastFailure, LastFailureCause: "status 500"})
		s.cluster.setHealth(name, false, "GPU-1 has failed", nil)
		check(healthResult{ConsecutiveFailures: 1, FirstSuccess: first, LastSuccess: again, LastFailure: now(), LastFailureCause: "GPU-1 has failed"})
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
	})
}

// TestKillForHealthIsLastFailure checks that a task that its executor ended because of its health is the app's last
// failure, and that the next attempt starts with an empty history.
func TestKillForHealthIsLastFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster()
		s := startInBubble(t, f, nil)
		s.mustSend("POST", "/v2/apps", checked)
		name := s.onlyJobName()
		f.setHealth(name, false, "unhealthy, 3 times of 3: connection refused", &job.HealthFailure{Check: 1, Failures: 3, Cause: "connection refused"})
		synctest.Wait()
		id := f.endFirstTask(name, job.Killed, "unhealthy, 3 times of 3: connection refused")
		f.mu.Lock()
		f.runTask(f.jobs[name], &f.jobs[name].Tasks[0])
		f.notifyChange(name, f.jobs[name].Tasks[0])
		f.mu.Unlock()
		if got := s.onlyHealthResult(); !got.Alive || got.LastFailure != "" || got.InstanceID == id {
			t.Errorf("the next attempt has %+v", got)
		}
		want := "Task was killed since health check failed. Reason: unhealthy, 3 times of 3: connection refused"
		if got := s.lastFailure(); got == nil || got.TaskID != id || got.State != "TASK_KILLED" || got.Message != want {
			t.Errorf("last failure %+v", got)
		}
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
	})
}
