package framework

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/journal"
	"mesos-gpu/job"
)

func viewedJob(name string, second int64, states ...job.State) *job.Job {
	j := &job.Job{Spec: job.Spec{Name: name, Tasks: len(states)}, Submitted: time.Unix(second, 0)}
	for i, s := range states {
		j.Tasks = append(j.Tasks, job.Task{ID: fmt.Sprintf("%s.%d", name, i), Job: name, Index: i, State: s, Changed: time.Unix(second, 0), DeviceIDs: []string{"GPU-" + name}})
	}
	return j
}

func changeOf(jobs ...*job.Job) journal.Change {
	var c journal.Change
	for _, j := range jobs {
		c.Jobs, c.Tasks = append(c.Jobs, j), append(c.Tasks, j.Tasks...)
	}
	return c
}

func listNames(t *testing.T, v *readModel, q api.JobQuery) (names, next string) {
	t.Helper()
	list, err := v.listJobs(q)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for i := range list.Jobs {
		all = append(all, list.Jobs[i].Spec.Name)
	}
	return strings.Join(all, " "), list.Next
}

// Pages follow one another through jobs that come and go, and a filter holds
// for all of them.
func TestJobPages(t *testing.T) {
	v := newView(journal.JournalContents{Jobs: []*job.Job{viewedJob("b", 2, job.Running), viewedJob("a", 1, job.Finished)}})
	v.Apply(changeOf(viewedJob("c", 3, job.Waiting), viewedJob("d", 4, job.Failed, job.Killed), viewedJob("e", 5, job.Finished, job.Running)))
	for want, q := range map[string]api.JobQuery{
		"a b c d e": {}, "b c e": {State: api.LiveJobs}, "a d": {State: api.EndedJobs}, "a d ": {State: api.EndedJobs, PageRequest: api.PageRequest{Limit: 2}},
		"e d c b a": {NewestFirst: true}, "d a": {NewestFirst: true, State: api.EndedJobs},
	} {
		if got, next := listNames(t, v, q); got != strings.TrimSpace(want) || next != "" {
			t.Errorf("%+v: %q, next %q", q, got, next)
		}
	}
	got, next := listNames(t, v, api.JobQuery{PageRequest: api.PageRequest{Limit: 2}})
	if got != "a b" || next == "" {
		t.Fatalf("first page %q, next %q", got, next)
	}
	v.Apply(journal.Change{Removed: []string{"b", "c"}}) // the one at which the page ended too
	if got, next = listNames(t, v, api.JobQuery{PageRequest: api.PageRequest{Limit: 2, After: next}}); got != "d e" || next != "" {
		t.Errorf("second page %q, next %q", got, next)
	}
	if got, next = listNames(t, v, api.JobQuery{PageRequest: api.PageRequest{Limit: 2}, NewestFirst: true}); got != "e d" || next == "" {
		t.Fatalf("first page of the newest %q, next %q", got, next)
	}
	v.Apply(journal.Change{Removed: []string{"d"}})
	if got, next = listNames(t, v, api.JobQuery{PageRequest: api.PageRequest{Limit: 2, After: next}, NewestFirst: true}); got != "a" || next != "" {
		t.Errorf("second page of the newest %q, next %q", got, next)
	}
	var p *api.Problem
	if _, err := v.listJobs(api.JobQuery{PageRequest: api.PageRequest{After: "nonsense"}}); !errors.As(err, &p) || p.Status != 400 {
		t.Errorf("got %v", err)
	}
}

// TestJobPagesHideOtherRoles: what is left out is not counted, and no
// cursor names it.
func TestJobPagesHideOtherRoles(t *testing.T) {
	of := func(role string, j *job.Job) *job.Job { j.Spec.Role = role; return j }
	v := newView(journal.JournalContents{Jobs: []*job.Job{
		of("secret", viewedJob("hidden", 1, job.Running)), of("web", viewedJob("a", 2, job.Running)),
		of("secret", viewedJob("between", 3, job.Running)), of("web", viewedJob("b", 4, job.Running)), of("secret", viewedJob("last", 5, job.Running)),
	}})
	web := (&access.AccessPolicy{Rules: []access.PermissionRule{{Permission: access.View, Roles: []string{"web"}, Users: []string{"w"}}}}).GrantFor(access.Identity{Name: "w"})
	got, next := listNames(t, v, api.JobQuery{PageRequest: api.PageRequest{Limit: 1}, Grant: web})
	if got != "a" || !strings.HasSuffix(next, ".a") {
		t.Fatalf("first page %q, next %q", got, next)
	}
	if got, next = listNames(t, v, api.JobQuery{PageRequest: api.PageRequest{Limit: 1, After: next}, Grant: web}); got != "b" || next != "" {
		t.Errorf("second page %q, next %q", got, next)
	}
}

// A service may be wanted to have no task, and has not ended for it; one that
// grows keeps the tasks that it had.
func TestReadModelOfScaledService(t *testing.T) {
	web := viewedJob("web", 1, job.Killed)
	web.Spec.Service, web.Tasks[0].KillReason = &job.Service{}, job.KillByScaling
	v := newView(journal.JournalContents{Jobs: []*job.Job{web}})
	if got, _ := listNames(t, v, api.JobQuery{State: api.LiveJobs}); got != "web" {
		t.Errorf("live are %q, want the service", got)
	}
	grown := viewedJob("web", 1, job.Killed, job.Waiting, job.Running)
	v.Apply(journal.Change{Jobs: []*job.Job{grown}, Tasks: grown.Tasks[1:]})
	for _, id := range []string{"web.0", "web.1", "web.2"} {
		if _, err := v.findTask(id); err != nil {
			t.Error(err)
		}
	}
	grown.Tasks[0].State = job.Running
	v.Apply(journal.Change{Tasks: grown.Tasks[:1]})
	if got, err := v.findTask("web.0"); err != nil || got.State != job.Running {
		t.Errorf("the first task is %s, %v", got.State, err)
	}
	if got, err := v.jobView("web"); err != nil || len(got.Tasks) != 3 || got.Tasks[2].State != job.Running {
		t.Errorf("the service is %+v, %v", got.Job, err)
	}
}

// A view follows changes: names used again, tasks tried again, jobs gone.
func TestReadModelFollowsChanges(t *testing.T) {
	v := newView(journal.JournalContents{FrameworkID: "f1"})
	_, l, err := v.subscribeEvents(api.EventQuery{})
	if err != nil {
		t.Fatal(err)
	}
	v.Apply(changeOf(viewedJob("a", 1, job.Running, job.Waiting)))
	again := viewedJob("a", 1, job.Waiting).Tasks[0]
	again.ID = "a.0.2"
	v.Apply(journal.Change{FrameworkID: "f2", Tasks: []job.Task{again, {ID: "x", Job: "nobody"}}})
	if _, err := v.findTask("a.0"); err == nil {
		t.Error("the attempt before is there")
	}
	if got, err := v.findTask("a.0.2"); err != nil || got.State != job.Waiting || v.currentFrameworkID() != "f2" {
		t.Errorf("%+v, %v, framework %s", got, err, v.currentFrameworkID())
	}
	if h := v.deviceHolders(); len(h) != 0 {
		t.Errorf("holders %v", h)
	}
	v.Apply(journal.Change{Tasks: viewedJob("a", 2, job.Waiting, job.Running).Tasks[1:]})
	if diff := cmp.Diff(map[string]string{"GPU-a": "a.1"}, v.deviceHolders()); diff != "" {
		t.Error(diff)
	}
	fresh := viewedJob("a", 9, job.Waiting)
	c := changeOf(fresh)
	c.Removed = []string{"a"}
	v.Apply(c)
	view, err := v.jobView("a")
	if diff := cmp.Diff(fresh, &view.Job); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	// What is read is a copy.
	view.Tasks[0].State = job.Running
	if view, _ := v.jobView("a"); view.State != job.Waiting {
		t.Error("a reader changed the view")
	}
	// A standby that begins anew tells only what is new.
	v.Reset(journal.JournalContents{Jobs: []*job.Job{fresh, viewedJob("b", 10, job.Waiting)}})
	var told []string
	for len(l.ch) > 0 {
		ev := <-l.ch
		told = append(told, ev.Task+" "+string(ev.State))
	}
	want := []string{"a.0 RUNNING", "a.1 WAITING", "a.0.2 WAITING", "a.1 RUNNING", "a.0 WAITING", "b.0 WAITING"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("events: %s", diff)
	}
	v.hub.closeListeners()
	if _, ok := <-l.ch; ok {
		t.Error("the listener was not let go")
	}
	if _, late, _ := v.subscribeEvents(api.EventQuery{}); late == nil {
		t.Error("no listener")
	} else if _, ok := <-late.ch; ok {
		t.Error("one who came later waits for ever")
	}
}

// What is gone takes no place.
func TestReadModelReleasesRemovedJobs(t *testing.T) {
	v := newView(journal.JournalContents{})
	for i := range 1000 {
		c := changeOf(viewedJob(fmt.Sprint(i), int64(i), job.Finished))
		if i >= 10 {
			c.Removed = []string{fmt.Sprint(i - 10)}
		}
		v.Apply(c)
	}
	if len(v.jobs) != 10 || len(v.tasks) != 10 || len(v.bySubmission) > 30 {
		t.Errorf("%d jobs, %d tasks, %d in order", len(v.jobs), len(v.tasks), len(v.bySubmission))
	}
}
