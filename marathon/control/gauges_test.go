package control

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// readGauges returns all gauges by name and state.
func (s *testController) readGauges() (map[string]float64, error) {
	all := map[string]float64{}
	err := s.control.Gauges(context.Background(), func(name, help string, labels map[string]string, value float64) {
		if help == "" {
			s.Errorf("%s says nothing of itself", name)
		}
		if state := labels["state"]; state != "" {
			name += " " + state
		}
		if _, twice := all[name]; twice {
			s.Errorf("%s is there twice", name)
		}
		all[name] = value
	})
	return all, err
}

// checkGauges compares the gauges that are not zero.
func (s *testController) checkGauges(want map[string]float64) {
	s.Helper()
	got, err := s.readGauges()
	if err != nil {
		s.Fatal(err)
	}
	if len(got) != 12 {
		s.Errorf("%d gauges, want 12, those that are zero too", len(got))
	}
	for name, n := range got {
		if n == 0 {
			delete(got, name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("(-want +got):\n%s", diff)
	}
}

// TestGauges checks the gauges during a deployment, a failed health check and a wait, and the error if the Controller
// does not run.
func TestGauges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster()
		s := startInBubble(t, f, nil)
		s.checkGauges(map[string]float64{})
		s.createApp("one", "3")
		s.mustSend("POST", "/v2/apps",
			`{"id": "/api", "cmd": "serve", "mem": 32, "instances": 2, "healthChecks": [{"protocol": "COMMAND", "command": {"value": "true"}}]}`)
		s.checkGauges(map[string]float64{"marathon_apps": 2, "marathon_instances RUNNING": 5, "marathon_instances_healthy": 2})
		s.failHealthCheck("/api")
		s.checkGauges(map[string]float64{"marathon_apps": 2, "marathon_instances RUNNING": 5, "marathon_instances_healthy": 1, "marathon_instances_unhealthy": 1})
		f.mu.Lock()
		f.held = true
		f.mu.Unlock()
		s.mustSend("PUT", web, `{"instances": 5}`)
		s.checkGauges(map[string]float64{
			"marathon_apps": 2, "marathon_deployments": 1, "marathon_instances RUNNING": 5, "marathon_instances WAITING": 2,
			"marathon_instances_healthy": 1, "marathon_instances_unhealthy": 1, "marathon_queue": 2,
		})
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
		if got, err := s.readGauges(); err == nil || len(got) > 0 {
			t.Errorf("after its end: %v, %v", got, err)
		}
	})
}

// failHealthCheck fails the health check of one instance of an app.
func (s *testController) failHealthCheck(app string) {
	defer synctest.Wait()
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	for name, j := range s.cluster.jobs {
		if j.Spec.Group == app {
			j.Tasks[0].Healthy = new(false)
			s.cluster.notifyChange(name)
		}
	}
}
