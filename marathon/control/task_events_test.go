package control

import (
	"bufio"
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/job"
	"mesos-gpu/marathon"
	"mesos-gpu/marathon/translate"
)

// onlyJobName returns the name of the only job.
func (s *testController) onlyJobName() string {
	s.Helper()
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	for name := range s.cluster.jobs {
		return name
	}
	s.Fatal("there is no job")
	return ""
}

// readEvents reads a stream in the test's bubble; read returns its events once it has ended.
func (s *testController) readEvents(query string) (read func() []map[string]any) {
	w, ended := httptest.NewRecorder(), make(chan struct{})
	go func() {
		defer close(ended)
		s.control.ServeHTTP(w, httptest.NewRequest("GET", "/v2/events"+query, nil))
	}()
	synctest.Wait()
	return func() []map[string]any {
		<-ended
		var list []map[string]any
		lines := bufio.NewScanner(w.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var ev map[string]any
				if err := json.Unmarshal([]byte(text), &ev); err != nil {
					s.Errorf("%v in %s", err, text)
				}
				list = append(list, ev)
			}
		}
		return list
	}
}

type failure struct{ AppID, Host, Message, State, TaskID, SlaveID, Timestamp, Version string }

func (s *testController) lastFailure() *failure {
	var got struct {
		App struct{ LastTaskFailure *failure }
	}
	s.sendRequest("GET", web, "", &got)
	return got.App.LastTaskFailure
}

// TestTerminationsArePublished checks that each end of an attempt is published once, with the attempt's data, even if
// later attempts started before the Controller read the changes. The last failure by Marathon's definition is part of
// the app until the app is removed.
func TestTerminationsArePublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster()
		f.ports = []int{31000}
		s := startInBubble(t, f, nil)
		s.createApp("one", "1")
		var app struct{ App struct{ Version string } }
		s.sendRequest("GET", web, "", &app)
		told := s.readEvents("?event_type=status_update_event&event_type=instance_changed_event&event_type=unknown_instance_terminated_event")
		name := s.onlyJobName()
		time.Sleep(time.Minute)
		var ids []string
		for _, end := range []struct {
			as  job.State
			why string
		}{{job.Failed, "exited with status 7"}, {job.Lost, "TASK_GONE"}, {job.Finished, ""}} {
			id := f.endFirstTask(name, end.as, end.why) // the Controller does not read changes in between
			ids = append(ids, id)
			f.mu.Lock()
			f.runTask(f.jobs[name], &f.jobs[name].Tasks[0])
			f.notifyChange(name, f.jobs[name].Tasks[0])
			f.mu.Unlock()
			time.Sleep(0)
		}
		f.mu.Lock() // the lost attempt reports its end
		f.notifyChange(name, job.Task{ID: ids[1], Job: name, State: job.Killed, Changed: time.Now()})
		f.mu.Unlock()
		synctest.Wait()
		at := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
		want := &failure{"/shop/web", "127.0.0.1", "TASK_GONE", "TASK_LOST", ids[1], "a1", at, app.App.Version}
		if diff := cmp.Diff(want, s.lastFailure()); diff != "" {
			t.Errorf("last failure (-want +got):\n%s", diff)
		}
		s.mustSend("DELETE", web, "")
		s.createApp("one", "1")
		if got := s.lastFailure(); got != nil {
			t.Errorf("a new app of the id has the failure of the old one: %+v", got)
		}
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
		states := map[string][]string{}
		for _, ev := range told() {
			id, _ := ev["taskId"].(string)
			switch {
			case ev["eventType"] == "unknown_instance_terminated_event":
				id = ev["instanceId"].(string)
				states[id] = append(states[id], "unknown "+ev["condition"].(string))
			case ev["eventType"] == "instance_changed_event":
				id = ev["instanceId"].(string)
				states[id] = append(states[id], ev["condition"].(string))
			case id == ids[0] && ev["taskStatus"] == "TASK_FAILED":
				delete(ev, "timestamp")
				full := map[string]any{
					"eventType": "status_update_event", "slaveId": "a1", "taskId": id, "taskStatus": "TASK_FAILED", "message": "exited with status 7",
					"appId": "/shop/web", "host": "127.0.0.1", "ports": []any{31000.0}, "version": app.App.Version,
					"ipAddresses": []any{map[string]any{"ipAddress": "10.0.0.1", "protocol": "IPv4"}},
				}
				if diff := cmp.Diff(full, ev); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				fallthrough
			default:
				states[id] = append(states[id], ev["taskStatus"].(string))
			}
		}
		for i, want := range [][]string{
			{"Failed", "TASK_FAILED"},
			{"Scheduled", "Running", "TASK_RUNNING", "Gone", "TASK_LOST", "unknown Killed"},
			{"Scheduled", "Running", "TASK_RUNNING", "Finished", "TASK_FINISHED"},
		} {
			if diff := cmp.Diff(want, states[ids[i]]); diff != "" {
				t.Errorf("attempt %d (-want +got):\n%s", i+1, diff)
			}
		}
	})
}

// TestQueueAfterFailure checks which instances wait after a failure, and that a request ends their backoff.
func TestQueueAfterFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startInBubble(t, newFakeCluster(), nil)
		s.createApp("one", "2")
		s.cluster.endFirstTask(s.onlyJobName(), job.Failed, "exited with status 7")
		synctest.Wait()
		var q struct {
			Queue []struct {
				Count   int
				Summary struct {
					Unused int `json:"unusedOffersCount"`
				} `json:"processedOffersSummary"`
			}
		}
		if s.sendRequest("GET", "/v2/queue", "", &q); len(q.Queue) != 1 || q.Queue[0].Count != 1 || q.Queue[0].Summary.Unused != 1 {
			t.Errorf("queue %+v, want an instance that one agent has no memory for", q)
		}
		if code := s.sendRequest("DELETE", "/v2/queue/shop/web/delay", "", nil); code != 204 {
			t.Errorf("the delay: status %d", code)
		}
		synctest.Wait()
		s.checkSettled(map[string]int{"one": 2})
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
	})
}

// TestTaskVersions checks that tasks have the version of the app that they were started for, also those that scaling
// started, and that the statistics use these versions.
func TestTaskVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startInBubble(t, newFakeCluster(), nil)
		s.createApp("one", "1")
		time.Sleep(time.Minute)
		s.mustSend("PUT", web, `{"instances": 3}`)
		type stats struct {
			Stats struct{ Counts struct{ Running int } }
		}
		var got struct {
			App struct {
				Version     string
				VersionInfo struct{ LastScalingAt, LastConfigChangeAt string }
				Tasks       []struct {
					Version, StagedAt, Region, Zone string
					IPAddresses                     []map[string]string
				}
				TasksStats struct{ StartedAfterLastScaling, WithLatestConfig, TotalSummary stats }
			}
		}
		s.sendRequest("GET", web+"?embed=app.taskStats", "", &got)
		versions := map[string]int{}
		for _, task := range got.App.Tasks {
			versions[task.Version]++
			if task.Region != "region-a1" || task.Zone != "zone-1" || len(task.IPAddresses) != 1 ||
				task.IPAddresses[0]["ipAddress"] != "10.0.0.1" || task.IPAddresses[0]["protocol"] != "IPv4" {
				t.Errorf("task %+v", task)
			}
		}
		info := got.App.VersionInfo
		if diff := cmp.Diff(map[string]int{
			info.LastConfigChangeAt: 1,
			info.LastScalingAt:      2,
		}, versions); diff != "" || info.LastScalingAt == info.LastConfigChangeAt {
			t.Errorf("%+v (-want +got):\n%s", info, diff)
		}
		n := got.App.TasksStats
		if a, b, c := n.StartedAfterLastScaling.Stats.Counts.Running, n.WithLatestConfig.Stats.Counts.Running, n.TotalSummary.Stats.Counts.Running; a != 2 ||
			b != 3 || c != 3 {
			t.Errorf("%d started after the scaling, %d of the latest configuration, %d in all", a, b, c)
		}
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
	})
}

// TestAddressesOfInstances checks that an instance has the addresses that its task reported. Only an instance in its
// agent's network that reported none has the address of the agent.
func TestAddressesOfInstances(t *testing.T) {
	bridge := `"container": {"type": "DOCKER", "docker": {"image": "busybox"}}, "networks": [{"mode": "container/bridge"}], `
	for _, c := range []struct {
		networks string
		told     []string
		want     string
	}{
		{"", nil, `[{"ipAddress":"10.0.0.1","protocol":"IPv4"}]`},
		{"", []string{"10.0.0.7"}, `[{"ipAddress":"10.0.0.7","protocol":"IPv4"}]`},
		{bridge, nil, `[]`},
		{bridge, []string{"172.17.0.2", "fd00::2", "no address"}, `[{"ipAddress":"172.17.0.2","protocol":"IPv4"},{"ipAddress":"fd00::2","protocol":"IPv6"}]`},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeCluster()
			f.addresses = c.told
			s := startInBubble(t, f, nil)
			s.mustSend("POST", "/v2/apps", `{"id": "/web", `+c.networks+`"cmd": "run"}`)
			var got struct {
				Tasks []struct{ IPAddresses json.RawMessage }
			}
			if s.sendRequest("GET", "/v2/tasks", "", &got); len(got.Tasks) != 1 || string(got.Tasks[0].IPAddresses) != c.want {
				t.Errorf("%s, reported %v: got %s, want %s", c.networks, c.told, got.Tasks, c.want)
			}
			if err := s.stopAndWait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDryRunOfALockedGroup checks that a dry run succeeds during a deployment of the same group.
func TestDryRunOfALockedGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeCluster()
		f.held = true
		s := startInBubble(t, f, nil)
		s.mustSend("PUT", "/v2/groups", `{"id": "/g", "apps": [{"id": "a", "cmd": "run"}]}`)
		s.mustSend("PUT", "/v2/groups/g?dryRun=true", `{"apps": []}`)
		var under []struct{ AffectedApps []string }
		if s.sendRequest("GET", "/v2/deployments", "", &under); len(under) != 1 {
			t.Errorf("deployments %+v, want the first alone", under)
		}
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
	})
}

// TestForeignJobKeepsItsName checks that a user's job with the name of an app's job is not changed, and that the app
// then runs under another name: it is scaled, replaced and removed there.
func TestForeignJobKeepsItsName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, name := newFakeCluster(), ""
		f.deny = func(call string) error { // another client was faster
			if words := strings.Fields(call); words[0] == "submit" && name == "" {
				name = words[1]
				f.addUserJob(job.Spec{Name: name, Command: []string{"stranger"}})
			}
			return nil
		}
		s := startInBubble(t, f, nil)
		s.createApp("one", "2")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		s.checkSettled(map[string]int{"one": 2, "stranger": 1})
		s.mustSend("PUT", web, `{"instances": 3}`)
		s.checkSettled(map[string]int{"one": 3, "stranger": 1})
		s.mustSend("PUT", web, `{"cmd": "two"}`)
		s.checkSettled(map[string]int{"two": 3, "stranger": 1})
		s.mustSend("DELETE", web, "")
		s.checkSettled(map[string]int{"stranger": 1})
		if err := s.stopAndWait(); err != nil {
			t.Error(err)
		}
	})
}

// TestUserJobIsNoInstance checks that a job is an instance of an app only if this scheduler submitted it, in the app's
// role: not if a user wrote the labels, the group and the name of such a job.
func TestUserJobIsNoInstance(t *testing.T) {
	for name, forge := range map[string]func(*job.Spec){
		"of a user":       func(s *job.Spec) { s.Owner = "viewer" },
		"in another role": func(s *job.Spec) { s.Role = "research" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFakeCluster()
				s := startInBubble(t, f, nil)
				s.createApp("genuine", "0")
				var app struct{ App marathon.App }
				s.sendRequest("GET", web, "", &app)
				forged := job.Spec{
					Name: translate.JobName(app.App.ID, app.App.Version), Group: app.App.ID, Role: "*", Command: []string{"impostor"},
					Container: job.Container{Labels: map[string]string{marathon.AppLabel: app.App.ID, marathon.VersionLabel: app.App.Version}},
				}
				forge(&forged)
				f.mu.Lock()
				f.addUserJob(forged)
				f.mu.Unlock()
				s.mustSend("PUT", web, `{"instances": 2}`)
				s.checkSettled(map[string]int{"genuine": 2, "impostor": 1})
				var tasks struct{ Tasks []struct{ ID string } }
				if s.sendRequest("GET", web+"/tasks", "", &tasks); len(tasks.Tasks) != 2 {
					t.Errorf("tasks of the app: %+v, want 2", tasks.Tasks)
				}
				f.mu.Lock()
				f.held = true // the third waits
				f.mu.Unlock()
				s.mustSend("PUT", web, `{"instances": 3}`)
				s.sendRequest("GET", "/v2/queue", "", nil)
				if len(f.explained) == 0 || slices.Contains(f.explained, forged.Name) {
					t.Errorf("the queue explains the jobs %q, want only the app's", f.explained)
				}
				if err := s.stopAndWait(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
