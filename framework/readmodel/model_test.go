package readmodel

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/request"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/job"
)

// entry returns the newest run of a name.
func (m *Model) entry(name string) *jobEntry {
	e, _ := m.jobs.Find(name)
	return e
}

func listNames(t *testing.T, v *Model, q request.JobQuery) (names, next string) {
	t.Helper()
	list, err := v.ListJobs(q)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for i := range list.Jobs {
		all = append(all, list.Jobs[i].Spec.Name)
	}
	return strings.Join(all, " "), list.Next
}

// Pages continue correctly while jobs are added and removed, and a filter applies to all
// of them.
func TestJobPages(t *testing.T) {
	v := New(journal.JournalContents{Jobs: []*job.Job{frameworktest.JobInStates("b", 2, job.Running), frameworktest.JobInStates("a", 1, job.Finished)}})
	v.ApplyChange(frameworktest.ChangeOf(frameworktest.JobInStates("c", 3, job.Waiting),
		frameworktest.JobInStates("d", 4, job.Failed, job.Killed), frameworktest.JobInStates("e", 5, job.Finished, job.Running)))
	for name, change := range map[string]func(*job.Spec){
		"a": func(s *job.Spec) { s.Owner = "ada" },
		"b": func(s *job.Spec) { s.Role = "web" },
		"c": func(s *job.Spec) { s.Labels = map[string]string{"team": "vision", "tier": "1"} },
		"d": func(s *job.Spec) { s.Labels = map[string]string{"team": "vision"} },
		"e": func(s *job.Spec) { s.Owner, s.Labels = "ada", map[string]string{"team": "speech"} },
	} {
		change(v.entry(name).Spec)
	}
	for want, q := range map[string]api.JobQuery{
		"a b c d e": {},
		"b c e":     {State: api.LiveJobs},
		"a d":       {State: api.EndedJobs},
		"a d ":      {State: api.EndedJobs, PageRequest: api.PageRequest{Limit: 2}},
		"b e":       {State: "RUNNING"},
		"a c d":     {State: "FINISHED,WAITING,FAILED"},
		"a e":       {Owner: "ada"},
		"e":         {Owner: "ada", State: api.LiveJobs},
		"c d":       {Labels: "team=vision"},
		"c d e":     {Labels: "team"},
		"c":         {Labels: "team,tier=1"},
		"":          {Labels: "team="},
		"b":         {Name: "[b-d]", Role: "web"},
		"b c d":     {Name: "[b-d]"},
		"e d c b a": {NewestFirst: true},
		"d a":       {NewestFirst: true, State: api.EndedJobs},
	} {
		if got, next := listNames(t, v, request.JobQuery{JobQuery: q}); got != strings.TrimSpace(want) || next != "" {
			t.Errorf("%+v: %q, next %q", q, got, next)
		}
	}
	got, next := listNames(t, v, request.JobQuery{JobQuery: api.JobQuery{PageRequest: api.PageRequest{Limit: 2}}})
	if got != "a b" || next == "" {
		t.Fatalf("first page %q, next %q", got, next)
	}
	v.ApplyChange(journal.Change{Removed: []job.RunID{{Name: "b", Run: 1}, {Name: "c", Run: 1}}}) // including the job at the page's end
	if got, next = listNames(t, v, request.JobQuery{JobQuery: api.JobQuery{PageRequest: api.PageRequest{Limit: 2, After: next}}}); got != "d e" || next != "" {
		t.Errorf("second page %q, next %q", got, next)
	}
	if got, next = listNames(t, v, request.JobQuery{JobQuery: api.JobQuery{
		PageRequest: api.PageRequest{Limit: 2},
		NewestFirst: true,
	}}); got != "e d" || next == "" {
		t.Fatalf("first page of the newest %q, next %q", got, next)
	}
	v.ApplyChange(journal.Change{Removed: []job.RunID{{Name: "d", Run: 1}}})
	if got, next = listNames(t, v, request.JobQuery{JobQuery: api.JobQuery{
		PageRequest: api.PageRequest{Limit: 2, After: next},
		NewestFirst: true,
	}}); got != "a" || next != "" {
		t.Errorf("second page of the newest %q, next %q", got, next)
	}
	var p *api.Problem
	if _, err := v.ListJobs(request.JobQuery{JobQuery: api.JobQuery{PageRequest: api.PageRequest{After: "nonsense"}}}); !errors.As(err, &p) || p.Status != 400 {
		t.Errorf("got %v", err)
	}
}

// TestJobPagesHideOtherRoles: hidden jobs do not count towards a page's limit, and no
// cursor contains their names.
func TestJobPagesHideOtherRoles(t *testing.T) {
	of := func(role string, j *job.Job) *job.Job { j.Spec.Role = role; return j }
	v := New(journal.JournalContents{Jobs: []*job.Job{
		of("secret", frameworktest.JobInStates("hidden", 1, job.Running)), of("web", frameworktest.JobInStates("a", 2, job.Running)),
		of("secret", frameworktest.JobInStates("between", 3, job.Running)),
		of("web", frameworktest.JobInStates("b", 4, job.Running)),
		of("secret", frameworktest.JobInStates("last", 5, job.Running)),
	}})
	web := (&access.AccessPolicy{Rules: []access.PermissionRule{{Permission: access.View, Roles: []string{"web"},
		Users: []string{"w"}}}}).GrantFor(access.Identity{Name: "w"})
	got, next := listNames(t, v, request.JobQuery{JobQuery: api.JobQuery{PageRequest: api.PageRequest{Limit: 1}}, Grant: web})
	if got != "a" || !strings.HasSuffix(next, ".a") {
		t.Fatalf("first page %q, next %q", got, next)
	}
	if got, next = listNames(t, v, request.JobQuery{
		JobQuery: api.JobQuery{PageRequest: api.PageRequest{Limit: 1, After: next}},
		Grant:    web,
	}); got != "b" || next != "" {
		t.Errorf("second page %q, next %q", got, next)
	}
}

// A service scaled to zero tasks has not ended; one that is scaled up keeps its existing
// tasks.
func TestReadModelOfScaledService(t *testing.T) {
	web := frameworktest.JobInStates("web", 1, job.Killed)
	web.Spec.Service, web.Tasks[0].KillReason = &job.Service{}, job.KillByScaling
	v := New(journal.JournalContents{Jobs: []*job.Job{web}})
	if got, _ := listNames(t, v, request.JobQuery{JobQuery: api.JobQuery{State: api.LiveJobs}}); got != "web" {
		t.Errorf("live are %q, want the service", got)
	}
	grown := frameworktest.JobInStates("web", 1, job.Killed, job.Waiting, job.Running)
	v.ApplyChange(journal.Change{Jobs: []*job.Job{grown}, Tasks: grown.Tasks[1:]})
	for _, id := range []string{"web.0", "web.1", "web.2"} {
		if _, err := v.FindTask(id); err != nil {
			t.Error(err)
		}
	}
	grown.Tasks[0].State = job.Running
	v.ApplyChange(journal.Change{Tasks: grown.Tasks[:1]})
	if got, err := v.FindTask("web.0"); err != nil || got.State != job.Running {
		t.Errorf("the first task is %s, %v", got.State, err)
	}
	if got, err := v.JobView("web"); err != nil || len(got.Tasks) != 3 || got.Tasks[2].State != job.Running {
		t.Errorf("the service is %+v, %v", got.Job, err)
	}
}

// The model follows changes: reused names, new attempts of tasks, removed jobs.
func TestReadModelFollowsChanges(t *testing.T) {
	v := New(journal.JournalContents{FrameworkID: "f1"})
	s := openTestStream(t, v, request.EventQuery{})
	readAvailable(t, s)
	v.ApplyChange(frameworktest.ChangeOf(frameworktest.JobInStates("a", 1, job.Running, job.Waiting)))
	again := frameworktest.JobInStates("a", 1, job.Waiting).Tasks[0]
	again.ID = "a.0.2"
	v.ApplyChange(journal.Change{FrameworkID: "f2", Tasks: []job.Task{again, {ID: "x", Job: "unknown"}}})
	if _, err := v.FindTask("a.0"); err == nil {
		t.Error("the attempt before is there")
	}
	if got, err := v.FindTask("a.0.2"); err != nil || got.State != job.Waiting || v.CurrentFrameworkID() != "f2" {
		t.Errorf("%+v, %v, framework %s", got, err, v.CurrentFrameworkID())
	}
	if h := v.DeviceHolders(); len(h) != 0 {
		t.Errorf("holders %v", h)
	}
	v.ApplyChange(journal.Change{Tasks: frameworktest.JobInStates("a", 2, job.Waiting, job.Running).Tasks[1:]})
	if diff := cmp.Diff(map[string]string{"GPU-a": "a.1"}, v.DeviceHolders()); diff != "" {
		t.Error(diff)
	}
	fresh := frameworktest.JobInStates("a", 9, job.Waiting)
	c := frameworktest.ChangeOf(fresh)
	c.Removed = []job.RunID{{Name: "a", Run: 1}}
	v.ApplyChange(c)
	view, err := v.JobView("a")
	if diff := cmp.Diff(fresh, &view.Job); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	// Readers get copies.
	view.Tasks[0].State = job.Running
	if view, _ := v.JobView("a"); view.State != job.Waiting {
		t.Error("a reader changed the view")
	}
	// After a standby has reloaded the journal it publishes only differences.
	v.ReplaceAll(journal.JournalContents{Jobs: []*job.Job{fresh, frameworktest.JobInStates("b", 10, job.Waiting)}})
	var told []string
	for _, ev := range readAvailable(t, s) {
		told = append(told, ev.Task+" "+string(ev.State))
	}
	want := []string{"a.0 RUNNING", "a.1 WAITING", "a.0.2 WAITING", "a.1 RUNNING", "a.0 WAITING", "b.0 WAITING"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("events: %s", diff)
	}
}

// Removed jobs use no memory.
func TestReadModelReleasesRemovedJobs(t *testing.T) {
	v := New(journal.JournalContents{})
	for i := range 1000 {
		c := frameworktest.ChangeOf(frameworktest.JobInStates(fmt.Sprint(i), int64(i), job.Finished))
		if i >= 10 {
			c.Removed = []job.RunID{{Name: fmt.Sprint(i - 10), Run: 1}}
		}
		v.ApplyChange(c)
	}
	if v.jobs.Len() != 10 || len(v.tasks) != 10 || len(v.bySubmission) > 30 {
		t.Errorf("%d jobs, %d tasks, %d in order", v.jobs.Len(), len(v.tasks), len(v.bySubmission))
	}
}

// The jobs of a group are sorted by name, in their current state, and do not change with the
// model.
func TestGroupJobs(t *testing.T) {
	in := func(group string, j *job.Job) *job.Job { j.Spec.Group = group; return j }
	v := New(journal.JournalContents{Jobs: []*job.Job{
		in("/web", frameworktest.JobInStates("b", 1, job.Running)), in("/db", frameworktest.JobInStates("c", 2, job.Running)), frameworktest.JobInStates("d",
			3, job.Running),
	}})
	v.ApplyChange(frameworktest.ChangeOf(in("/web", frameworktest.JobInStates("a", 4, job.Waiting))))
	before := v.ListGroupJobs("/web")
	v.ApplyChange(journal.Change{Tasks: frameworktest.JobInStates("a", 4, job.Running).Tasks})
	after := v.ListGroupJobs("/web")
	if len(before) != 2 || before[0].Tasks[0].State != job.Waiting || len(after) != 2 || after[0].Tasks[0].State != job.Running || after[1].Spec.Name != "b" {
		t.Errorf("before %+v, after %+v", before, after)
	}
	v.ApplyChange(journal.Change{Removed: []job.RunID{{Name: "a", Run: 1}, {Name: "b", Run: 1}, {Name: "d", Run: 1}}})
	if left := v.ListGroupJobs("/web"); len(left) > 0 || len(v.byGroup) != 1 {
		t.Errorf("remaining jobs %+v of %d groups", left, len(v.byGroup))
	}
}

// TestWorkdirsOfUpdatedService checks that the working folders of all versions of a service are kept and served while tasks
// have them.
func TestWorkdirsOfUpdatedService(t *testing.T) {
	j := frameworktest.JobInStates("web", 1, job.Starting, job.Starting, job.Running)
	j.Spec.Workdir, j.Version, j.OldSpecs = "new", 2, map[int]*job.Spec{0: {Workdir: "oldest"}, 1: {Workdir: "old"}}
	j.Tasks[0].Version, j.Tasks[1].Version = 2, 1
	v := New(journal.JournalContents{Jobs: []*job.Job{j}})
	if got := v.StartingWorkdirs(j.RunID()); !slices.Equal(got, []string{"new", "old"}) {
		t.Errorf("starting: %v", got)
	}
	if got := slices.Sorted(maps.Keys(v.LiveWorkdirs())); !slices.Equal(got, []string{"new", "old", "oldest"}) {
		t.Errorf("live: %v", got)
	}
}

// TestEndsHaveVersionOfTask checks that the end of a task of an earlier version has what that version requested.
func TestEndsHaveVersionOfTask(t *testing.T) {
	j := frameworktest.JobInStates("web", 1, job.Finished, job.Finished)
	j.Spec.CPUs, j.Version, j.OldSpecs = 1, 1, map[int]*job.Spec{0: {CPUs: 4}}
	j.Tasks[1].Version = 1
	cpus := map[string]float64{}
	for _, e := range New(journal.JournalContents{Jobs: []*job.Job{j}}).AllEndedAttempts() {
		cpus[e.Task.ID] = e.CPUs
	}
	if cpus[j.Tasks[0].ID] != 4 || cpus[j.Tasks[1].ID] != 1 {
		t.Errorf("the tasks had %v CPUs, want 4 and 1", cpus)
	}
}

// TestTasksAreShared: tasks exist once, and a later change of the record does not modify those of the State.
func TestTasksAreShared(t *testing.T) {
	recorded, ends := frameworktest.JobInStates("recorded", 1, job.Finished), frameworktest.JobInStates("ends", 2, job.Running)
	v := New(journal.JournalContents{Jobs: []*job.Job{recorded, ends}})
	if &v.entry("ends").Tasks[0] != &ends.Tasks[0] {
		t.Error("the model has its own tasks of a recorded job")
	}
	ends.Tasks = slices.Clone(ends.Tasks)
	ends.Tasks[0].State = job.Failed
	v.ApplyRecorded(journal.Change{Tasks: slices.Clone(ends.Tasks)}, nil, nil, []*job.Job{ends, frameworktest.JobInStates("removed", 3, job.Failed)})
	for _, j := range []*job.Job{recorded, ends} {
		before := j.Tasks[0]
		if e := v.entry(j.Spec.Name); &e.Tasks[0] != &j.Tasks[0] || v.tasks[before.ID] != &j.Tasks[0] {
			t.Errorf("%s: the model has its own tasks", j.Spec.Name)
		}
		late := before
		late.Message = "late"
		v.ApplyChange(journal.Change{Tasks: []job.Task{late}})
		if got, err := v.FindTask(before.ID); err != nil || got.Message != "late" {
			t.Errorf("%s: a later record was lost: %+v, %v", j.Spec.Name, got, err)
		}
		if diff := cmp.Diff(before, j.Tasks[0]); diff != "" {
			t.Errorf("%s: a later record changed the State's task:\n%s", j.Spec.Name, diff)
		}
	}
}
