package sched

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// updatedService is a State with the service "web", whose agent has room for any task.
type updatedService struct {
	t   *testing.T
	st  *State
	now time.Time
}

// webSpec returns version 1 of the service.
func webSpec(tasks int) job.Spec {
	s := testSpec("web")
	s.Service, s.Tasks = &job.Service{}, tasks
	s.SetDefaults()
	return s
}

func startUpdatedService(t *testing.T, tasks int) *updatedService {
	u := &updatedService{t, New(SchedulerSettings{}, RecoveredState{}), time.Unix(1_700_000_000, 0)}
	u.st.Step(u.now, Subscribed{FrameworkID: "f"})
	u.st.Step(u.now, SubmitJob{Spec: webSpec(tasks)})
	u.placeAll()
	u.startAll()
	return u
}

func (u *updatedService) web() *job.Job {
	j, ok := u.st.Job("web")
	if !ok {
		u.t.Fatal("there is no service")
	}
	return j
}

// placeAll places the waiting tasks.
func (u *updatedService) placeAll() {
	u.now = u.now.Add(time.Second)
	u.st.Step(u.now, OffersReceived{Offers: []Offer{{ID: fmt.Sprint(u.now.Unix()), AgentID: "a", AgentURL: "http://a", Free: Amount{CPUs: 99, MemMiB: 99999}}}})
	u.st.Step(u.now, Cycle{})
}

// startAll reports that the placed tasks run, and ends those that are to be killed.
func (u *updatedService) startAll() {
	for _, t := range u.web().Tasks {
		switch {
		case t.State == job.Killing:
			u.st.Step(u.now, TaskUpdate{TaskID: t.ID, AgentID: "a", State: job.Killed, UUID: []byte{1}})
		case t.State.IsPlaced():
			u.st.Step(u.now, TaskUpdate{TaskID: t.ID, AgentID: "a", State: job.Running, UUID: []byte{1}})
		}
	}
}

// tick returns the number of tasks that a Tick stops.
func (u *updatedService) tick() (stopped int) {
	u.now = u.now.Add(time.Second)
	for _, op := range u.st.Step(u.now, Tick{}) {
		if _, ok := op.(KillTask); ok {
			stopped++
		}
	}
	return stopped
}

// versions returns the version and the state of each task.
func (u *updatedService) versions() string {
	var all []string
	for _, t := range u.web().Tasks {
		all = append(all, fmt.Sprint(t.Version, " ", t.State))
	}
	return strings.Join(all, ", ")
}

func (u *updatedService) expect(want string) {
	u.t.Helper()
	if got := u.versions(); got != want {
		u.t.Errorf("the tasks are %s\nwant %s", got, want)
	}
}

// TestUpdateReplacesTasksInTurn checks that an update replaces one task after another, and waits while a new one does not
// run.
func TestUpdateReplacesTasksInTurn(t *testing.T) {
	u := startUpdatedService(t, 3)
	u.expect("0 RUNNING, 0 RUNNING, 0 RUNNING")
	next := webSpec(3)
	next.Image, next.Request.GPUs = "web:2", 1
	next.Request.Types = gpu.TypeSelector{Include: []string{"V100"}}
	u.st.Step(u.now, UpdateService{Job: next.Name, Spec: next})
	u.expect("0 KILLING, 0 RUNNING, 0 RUNNING")
	if j := u.web(); j.Version != 1 || j.Spec.Image != "web:2" || j.OldSpecs[0].Image != "" || j.SpecOf(&j.Tasks[1]).Image != "" {
		t.Errorf("the service is %+v", j)
	}
	u.startAll()
	u.expect("1 WAITING, 0 RUNNING, 0 RUNNING")
	u.placeAll() // no GPU is offered
	if n := u.tick(); n != 0 {
		t.Errorf("%d tasks are stopped while the new one waits", n)
	}
	// A correction takes the place of the update that does not go on. Also after a restart.
	u.st.TakeChanges()
	u.st = New(u.st.cfg, RecoveredState{FrameworkID: "f", Jobs: u.st.Jobs()})
	u.st.Step(u.now, Subscribed{FrameworkID: "f"})
	next.Request = gpu.Request{}
	u.st.Step(u.now, UpdateService{Job: next.Name, Spec: next})
	u.expect("2 WAITING, 0 RUNNING, 0 RUNNING")
	u.placeAll()
	u.startAll()
	u.tick()
	u.expect("2 RUNNING, 0 KILLING, 0 RUNNING")
	u.startAll()
	u.placeAll()
	u.startAll()
	u.tick()
	u.startAll()
	u.placeAll()
	u.startAll()
	u.tick()
	u.expect("2 RUNNING, 2 RUNNING, 2 RUNNING")
	if j := u.web(); len(j.OldSpecs) != 0 || len(u.st.updating) != 0 {
		t.Errorf("the service still has %+v, and updates %v", j.OldSpecs, u.st.updating)
	}
}

// TestUpdateOfLargeService checks that a tenth of the tasks is replaced at a time, and that a number of tasks alone is no
// new version.
func TestUpdateOfLargeService(t *testing.T) {
	u := startUpdatedService(t, 20)
	u.st.Step(u.now, UpdateService{Job: webSpec(21).Name, Spec: webSpec(21)})
	if j := u.web(); j.Version != 0 || j.WantedTasks() != 21 {
		t.Errorf("version %d has %d tasks", j.Version, j.WantedTasks())
	}
	u.placeAll()
	u.startAll()
	next := webSpec(20)
	next.Env = map[string]string{"A": "1"}
	u.st.Step(u.now, UpdateService{Job: next.Name, Spec: next})
	for range 30 {
		live := 0
		for _, task := range u.web().Tasks {
			if task.State == job.Running {
				live++
			}
		}
		if live < 18 {
			t.Fatalf("%d tasks run", live)
		}
		u.startAll()
		u.placeAll()
		u.startAll()
		u.tick()
	}
	if j := u.web(); len(j.OldSpecs) > 0 || j.WantedTasks() != 20 {
		t.Errorf("the update has not ended: %s", u.versions())
	}
}

// TestUpdateIsRejected checks what an update may not change.
func TestUpdateIsRejected(t *testing.T) {
	u := startUpdatedService(t, 1)
	batch := testSpec("batch")
	u.st.Step(u.now, SubmitJob{Spec: batch})
	for want, spec := range map[string]job.Spec{
		`there is no job "unknown"`:    testSpec("unknown"),
		`job "batch" is not a service`: batch,
		"service: an update cannot":    testSpec("web"),
		"role: an update cannot":       func() job.Spec { s := webSpec(1); s.Role = "b"; return s }(),
		"group: an update cannot":      func() job.Spec { s := webSpec(1); s.Group = "x"; return s }(),
		"after: an update cannot":      func() job.Spec { s := webSpec(1); s.After = []job.Dependency{{Job: "batch"}}; return s }(),
	} {
		if err := u.st.AdmitUpdate(spec.Name, &spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if ops := u.st.Step(u.now, UpdateService{Job: spec.Name, Spec: spec}); u.web().Version != 0 {
			t.Errorf("%s: %v", want, ops)
		}
	}
	u.st.Step(u.now, KillJob{Job: "web"})
	spec := webSpec(1)
	if err := u.st.AdmitUpdate(spec.Name, &spec); err == nil || !strings.Contains(err.Error(), "is being killed") {
		t.Error(err)
	}
}

// TestUpdatesInProgressAreBounded checks the limit of stored specifications.
func TestUpdatesInProgressAreBounded(t *testing.T) {
	u := startUpdatedService(t, 100)
	next := webSpec(100)
	next.Request.GPUs = 1 // none is offered, so each update stops after its first tasks
	for i := range 2 * maxOldSpecs {
		next.Env = map[string]string{"A": fmt.Sprint(i)}
		u.st.Step(u.now, UpdateService{Job: next.Name, Spec: next})
	}
	if j := u.web(); len(j.OldSpecs) != 1 {
		t.Errorf("%d specifications are stored, although no task has them", len(j.OldSpecs))
	}
	old := map[int]*job.Spec{}
	for i := range maxOldSpecs {
		old[i] = &next
	}
	web, _ := u.st.jobs.Find("web")
	web.OldSpecs = old
	if err := u.st.AdmitUpdate(next.Name, &next); err == nil || !strings.Contains(err.Error(), "tasks of 10 earlier versions") {
		t.Error(err)
	}
}

// An update of a service that is scaled by load keeps its number of tasks, within the new bounds.
func TestUpdateKeepsTasksScaledByLoad(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	spec := testService("web", 1)
	spec.Ports = []job.Port{{}}
	spec.Service.Autoscaling = job.AutoscalingPolicy{Min: 1, Max: 5, Target: job.LoadTarget{Metric: "queue", Value: 10, Path: "/metrics"}}
	st := newPlacedState(SchedulerSettings{}, now, spec)
	st.Step(now, ScaleService{Job: "web", Tasks: 4, Reason: "load"})
	for _, c := range []struct{ most, want int }{{6, 4}, {3, 3}} {
		next := spec
		service := *spec.Service
		service.Autoscaling.Max = c.most
		next.Service = &service
		st.Step(now, UpdateService{Job: next.Name, Spec: next})
		if j, _ := st.Job("web"); j.WantedTasks() != c.want || j.Spec.Service.Autoscaling.Max != c.most {
			t.Errorf("after an update to max %d the service wants %d tasks, want %d", c.most, j.WantedTasks(), c.want)
		}
	}
}

// TestUsageIsThatOfTasksVersion checks that tasks of an earlier version count with the GPUs that they hold, not with those
// of the present version.
func TestUsageIsThatOfTasksVersion(t *testing.T) {
	u := startUpdatedService(t, 3)
	u.st.cfg.HalfLife = time.Hour
	next := webSpec(3)
	next.Request.GPUs = 8
	u.st.Step(u.now, UpdateService{Job: next.Name, Spec: next})
	u.expect("0 KILLING, 0 RUNNING, 0 RUNNING")
	u.startAll()
	u.expect("1 WAITING, 0 RUNNING, 0 RUNNING")
	if r := u.st.RecentUsage(); len(r.Held) != 0 || len(r.Average) != 0 {
		t.Errorf("tasks without GPUs count as holding %v, recently %v", r.Held, r.Average)
	}
}
