package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
	"mesos-gpu/marathon/api"
	"mesos-gpu/marathon/deploy"
)

// TestControllerRunsApps follows an app from its definition to its removal.
func TestControllerRunsApps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startInBubble(t, newFakeCluster(), nil)
		s.createApp("one", "3")
		s.checkSettled(map[string]int{"one": 3})
		s.mustSend("PUT", web, `{"instances": 5}`)
		s.checkSettled(map[string]int{"one": 5})
		s.mustSend("PUT", web, `{"cmd": "two", "instances": 4}`)
		s.checkSettled(map[string]int{"two": 4})
		s.mustSend("DELETE", web+"/tasks?host=127.0.0.1", "")
		s.checkSettled(map[string]int{"two": 4})
		s.mustSend("DELETE", web+"/tasks?scale=true", "")
		s.checkSettled(nil)
		s.mustSend("PUT", web, `{"instances": 1}`)
		s.checkSettled(map[string]int{"two": 1})
		s.mustSend("DELETE", web, "")
		s.checkSettled(nil)
		if len(s.cluster.documents) != 0 {
			t.Errorf("documents are left: %v", s.cluster.documents)
		}
		if err := s.stopAndWait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}

// TestFailedActionsAreRetried checks that failed actions are repeated until they succeed, although jobs change all
// the time.
func TestFailedActionsAreRetried(t *testing.T) {
	for _, kind := range []string{"submit", "scale", "stop", "kill"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, failures := newFakeCluster(), 0
				s := startInBubble(t, f, nil)
				s.mustSend("PUT", "/v2/groups/", `{"apps": [{"id": "/other", "cmd": "other", "mem": 32}]}`)
				f.denyCalls(func(call string) error {
					if strings.HasPrefix(call, kind) && failures < 4 {
						failures++
						return errors.New("the disk is slow")
					}
					return nil
				})
				s.createApp("one", "2")
				changeJobsConstantly(s, 10*time.Second)
				s.checkSettled(map[string]int{"one": 2, "other": 1})
				s.mustSend("PUT", web, `{"instances": 3}`)
				changeJobsConstantly(s, 10*time.Second)
				s.checkSettled(map[string]int{"one": 3, "other": 1})
				s.mustSend("PUT", web, `{"cmd": "two", "instances": 2}`)
				changeJobsConstantly(s, 10*time.Second)
				s.checkSettled(map[string]int{"two": 2, "other": 1})
				s.mustSend("DELETE", web, "")
				changeJobsConstantly(s, 10*time.Second)
				s.checkSettled(map[string]int{"other": 1})
				if failures != 4 {
					t.Errorf("%d calls failed, want 4", failures)
				}
				if err := s.stopAndWait(); err != nil {
					t.Errorf("it ended with %v", err)
				}
			})
		})
	}
}

// changeJobsConstantly changes all jobs ten times a second.
func changeJobsConstantly(s *testController, how time.Duration) {
	for range how / (100 * time.Millisecond) {
		time.Sleep(100 * time.Millisecond)
		s.cluster.mu.Lock()
		for name := range s.cluster.jobs {
			s.cluster.notifyChange(name)
		}
		s.cluster.mu.Unlock()
		synctest.Wait()
	}
}

// TestRequestsAreRecordedBeforeActions checks that no job changes before the request is recorded, or if it cannot be
// recorded.
func TestRequestsAreRecordedBeforeActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster()
		s := startInBubble(t, f, nil)
		s.createApp("one", "1")
		if len(f.calls) < 2 || !strings.HasPrefix(f.calls[0], "put [marathon/app/shop/web marathon/deployment/") {
			t.Errorf("the first of the calls %q records nothing", f.calls)
		}
		f.denyCalls(func(call string) error {
			if strings.HasPrefix(call, "put") {
				return errors.New("the disk is full")
			}
			return nil
		})
		var p struct{ Message string }
		if code := s.sendRequest("PUT", web, `{"cmd": "two"}`, &p); code != http.StatusServiceUnavailable || !strings.Contains(p.Message, "the disk is full") {
			t.Errorf("got %d %s", code, p.Message)
		}
		if err := <-s.ended; err == nil || !strings.Contains(err.Error(), "record apps: the disk is full") {
			t.Errorf("it ended with %v", err)
		}
		if len(f.calls) > 0 {
			t.Errorf("%q was done though nothing was recorded", f.calls)
		}
		s.stop()
	})
}

// TestStepsAreRecordedBeforeActions checks that the actions of a deployment's step are executed only after the step
// is recorded as current.
func TestStepsAreRecordedBeforeActions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, steps := newFakeCluster(), map[string]int{}
		f.deny = func(call string) error {
			app, submits := strings.CutPrefix(call, "submit ")
			for key, value := range f.documents {
				var d deploy.Deployment
				if !submits || !strings.HasPrefix(key, "marathon/deployment/") {
					continue
				}
				if err := json.Unmarshal(value, &d); err != nil {
					t.Error(err)
				}
				steps[app[:1]] = d.Current
			}
			return nil
		}
		s := startInBubble(t, f, nil)
		s.mustSend("PUT", "/v2/apps", `[{"id": "/a", "cmd": "a", "mem": 32, "dependencies": ["/b"]}, {"id": "/b", "cmd": "b", "mem": 32}]`)
		s.checkSettled(map[string]int{"a": 1, "b": 1})
		if want := map[string]int{"b": 2, "a": 3}; !maps.Equal(steps, want) {
			t.Errorf("the apps were started when the steps %v were recorded, want %v", steps, want)
		}
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
	})
}

// TestNextSchedulerCompletesDeployments checks that the next scheduler completes the deployments, whichever call was the last of the previous
// one.
func TestNextSchedulerCompletesDeployments(t *testing.T) {
	const steps = 200
	last := 0
	for n := range steps {
		synctest.Test(t, func(t *testing.T) {
			f, calls := newFakeCluster(), 0
			f.deny = func(string) error {
				if calls++; calls > n {
					return errLost
				}
				return nil
			}
			s := startInBubble(t, f, nil)
			story := []string{
				`[{"id": "/a", "cmd": "one", "instances": 3, "mem": 32}, {"id": "/b", "cmd": "b", "dependencies": ["/a"], "mem": 32}]`,
				`[{"id": "/a", "instances": 4}]`,
				`[{"id": "/a", "cmd": "two", "instances": 2, "upgradeStrategy": {"minimumHealthCapacity": 0.5, "maximumOverCapacity": 0}}]`,
			}
			for i := 0; i < len(story); {
				code := s.sendRequest("PUT", "/v2/apps?force=true", story[i], nil)
				synctest.Wait()
				switch {
				case code == http.StatusOK:
					i++
				case code != http.StatusServiceUnavailable:
					t.Fatalf("after %d calls: status %d", n, code)
				default:
					s = takeOver(t, s)
				}
			}
			select {
			case <-f.lost:
				if s.cluster == f {
					s = takeOver(t, s)
				}
			default:
				last = n
			}
			s.checkSettled(map[string]int{"two": 2, "b": 1})
			if err := s.stopAndWait(); err != nil {
				t.Errorf("after %d calls: %v", n, err)
			}
		})
		if last > 0 || t.Failed() {
			break
		}
	}
	if last < 8 {
		t.Errorf("the story has %d calls: where was the lead lost?", last)
	}
}

// takeOver checks that the scheduler has lost its leadership, and starts the next one.
func takeOver(t *testing.T, s *testController) *testController {
	t.Helper()
	if err := <-s.ended; !errors.Is(err, errLost) {
		s.Fatalf("it ended with %v", err)
	}
	s.stop()
	return startInBubble(t, s.cluster.newSuccessor(), nil)
}

// TestRequestsFailWhenNotLeading checks that requests fail with status 503 unless the Controller runs, and that
// streams end with it.
func TestRequestsFailWhenNotLeading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &testController{TB: t, control: New(ControllerConfig{Log: discardLogger()}), cluster: newFakeCluster()}
		unavailable := func() {
			t.Helper()
			for _, r := range []string{
				"GET /v2/apps", "POST /v2/apps", "GET /v2/groups", "GET /v2/deployments", "GET /v2/queue",
				"GET /v2/tasks", "GET /v2/info", "DELETE /v2/apps/a",
			} {
				method, path, _ := strings.Cut(r, " ")
				if code := s.sendRequest(method, path, `{"id": "/a", "cmd": "x"}`, nil); code != http.StatusServiceUnavailable {
					t.Errorf("%s: status %d", r, code)
				}
			}
			if code := s.sendRequest("GET", "/v2/leader", "", nil); code != http.StatusNotFound {
				t.Errorf("leader: status %d", code)
			}
		}
		unavailable()
		s = startInBubble(t, s.cluster, nil)
		var who struct{ Leader string }
		if s.sendRequest("GET", "/v2/leader", "", &who); who.Leader != "127.0.0.1:1" {
			t.Errorf("leader %q", who.Leader)
		}
		w := httptest.NewRecorder()
		streamed := make(chan struct{})
		go func() {
			defer close(streamed)
			s.control.ServeHTTP(w, httptest.NewRequest("GET", "/v2/events", nil))
		}()
		synctest.Wait()
		s.createApp("one", "1")
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
		<-streamed
		if !strings.Contains(w.Body.String(), "event: deployment_success\r\n") {
			t.Errorf("the stream had %s", w.Body)
		}
		unavailable()
	})
}

// TestWatchFailureStopsController checks that Run ends if changes of the cluster cannot be watched.
func TestWatchFailureStopsController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startInBubble(t, newFakeCluster(), nil)
		close(s.cluster.lost)
		if err := <-s.ended; !errors.Is(err, errLost) {
			t.Errorf("it ended with %v", err)
		}
		s.stop()
	})
}

// TestCancelledRequestHasNoEffect covers requests that were cancelled before the loop handled them.
func TestCancelledRequestHasNoEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startInBubble(t, newFakeCluster(), nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		done := 0
		for range 100 { // select chooses at random if both cases are ready
			if err := s.control.runInLoop(ctx, func(*controlLoop) error { done++; return nil }); err != nil && !strings.Contains(err.Error(), "before it was handled") {
				t.Errorf("got %v", err)
			}
		}
		if done == 100 {
			t.Error("all were done")
		}
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
	})
}

// TestKillAndScale checks that instances which are already ending do not scale their app down.
func TestKillAndScale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startInBubble(t, newFakeCluster(), nil)
		s.createApp("one", "4")
		f := s.cluster
		f.mu.Lock()
		var ids []string
		for name, j := range f.jobs {
			for i := range j.Tasks[:2] {
				ids = append(ids, j.Tasks[i].ID)
			}
			f.endTask(&j.Tasks[0], job.KillByScaling)
			j.Tasks[0].State = job.Killing
			j.Spec = specWithTasks(j.Spec, j.Spec.Tasks-1)
			f.notifyChange(name)
		}
		f.mu.Unlock()
		synctest.Wait()
		s.mustSend("POST", "/v2/tasks/delete?scale=true", `{"ids": ["`+ids[0]+`", "`+ids[1]+`", "unknown.0.1.0"]}`)
		var got struct{ App struct{ Instances int } }
		if s.sendRequest("GET", web, "", &got); got.App.Instances != 3 {
			t.Errorf("the app has %d instances, want 3", got.App.Instances)
		}
		f.mu.Lock()
		for _, j := range f.jobs {
			if j.Tasks[1].ID == ids[1] && j.Tasks[1].State == job.Running {
				t.Errorf("%s runs still", ids[1])
			}
		}
		f.mu.Unlock()
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
	})
}

// TestEnforcedRole checks that apps of a top group that enforces its role get this role.
func TestEnforcedRole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startInBubble(t, newFakeCluster(), nil)
		s.mustSend("POST", "/v2/groups", `{"id": "/lab", "enforceRole": true}`)
		s.mustSend("POST", "/v2/apps", `{"id": "/lab/train", "cmd": "train", "mem": 32}`)
		s.mustSend("POST", "/v2/apps", `{"id": "/other", "cmd": "other", "mem": 32}`)
		for id, want := range map[string]string{"/lab/train": "lab", "/other": "*"} {
			var got struct{ App marathon.App }
			if s.sendRequest("GET", "/v2/apps"+id, "", &got); got.App.Role != want {
				t.Errorf("%s has the role %q, want %q", id, got.App.Role, want)
			}
		}
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
	})
}

// TestDryRun checks that a dry run returns the plan and changes nothing.
func TestDryRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startInBubble(t, newFakeCluster(), nil)
		s.createApp("one", "1")
		before := slices.Clone(s.cluster.calls)
		var plan struct {
			Steps []struct {
				Actions []struct{ Action, App string }
			}
		}
		s.sendRequest("PUT", "/v2/groups/shop?dryRun=true", `{"apps": [{"id": "/shop/web", "cmd": "two", "mem": 32}]}`, &plan)
		if len(plan.Steps) != 1 || fmt.Sprint(plan.Steps[0].Actions) != "[{RestartApplication /shop/web}]" {
			t.Errorf("plan %+v", plan)
		}
		synctest.Wait()
		if !slices.Equal(before, s.cluster.calls) {
			t.Errorf("it did %v", s.cluster.calls[len(before):])
		}
		s.checkSettled(map[string]int{"one": 1})
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
	})
}

// TestAppWhileLeadershipEnds checks that a definition is not rejected as invalid if its job cannot be checked because the
// scheduler stops leading: the client is to repeat the request.
func TestAppWhileLeadershipEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster()
		f.uncheckable = errors.New("the scheduler is stopping")
		s := startInBubble(t, f, nil)
		for _, request := range [][2]string{{"POST", "/v2/apps"}, {"PUT", "/v2/apps/a"}} {
			var answer api.ErrorResponse
			code := s.sendRequest(request[0], request[1], `{"id":"/a","cmd":"sleep 1"}`, &answer)
			if code != http.StatusServiceUnavailable || answer.Message != "the scheduler is stopping" {
				t.Errorf("%s: %d %+v", request, code, answer)
			}
		}
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
	})
}

// TestRejectedApp checks that an app whose job the cluster would never accept is rejected, without starting a
// deployment.
func TestRejectedApp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster()
		f.refuses = map[string]bool{"/g/bad": true}
		s := startInBubble(t, f, nil)
		for path, body := range map[string]string{
			"/v2/apps":   `{"id":"/g/bad","cmd":"sleep 1"}`,
			"/v2/groups": `{"id":"/g","apps":[{"id":"good","cmd":"sleep 1"},{"id":"bad","cmd":"sleep 1"}]}`,
		} {
			var answer marathon.ValidationError
			code := s.sendRequest("POST", path, body, &answer)
			if code != 422 || !strings.Contains(answer.Message, "has not allowed") || len(answer.Details) != 1 || answer.Details[0].Errors[0] != answer.Message {
				t.Errorf("POST %s: %d %+v", path, code, answer)
			}
		}
		s.mustSend("POST", "/v2/apps", `{"id":"/g/bad","cmd":"sleep 1","instances":0}`)
		if len(f.jobs) > 0 {
			t.Errorf("jobs %v were submitted", f.calls)
		}
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
	})
}
