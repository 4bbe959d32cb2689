package readmodel

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/request"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/job"
)

// pendingJobs is a queue in an order that the test sets.
type pendingJobs struct {
	QueuePages
	order  []string
	jobs   map[string]*job.Job
	sorted int // number of times the order was computed
}

func newPendingJobs(names ...string) *pendingJobs {
	w := &pendingJobs{order: names, jobs: map[string]*job.Job{}}
	for _, name := range names {
		w.jobs[name] = frameworktest.JobInStates(name, 1, job.Waiting)
	}
	return w
}

func (w *pendingJobs) readPage(p api.PageRequest, g *access.Grant) (api.QueueList, error) {
	order := func() (runs []job.RunID, err error) {
		w.sorted++
		for _, name := range w.order {
			runs = append(runs, job.RunID{Name: name, Run: 1})
		}
		return runs, nil
	}
	return w.ListPage(p, g, order, func(run string) (*job.Job, bool) { j, ok := w.jobs[strings.TrimSuffix(run, "@1")]; return j, ok })
}

// pageText returns a page as positions and names, such as "1a,2b", and the next cursor.
func (w *pendingJobs) pageText(t *testing.T, p api.PageRequest) (text, next string) {
	t.Helper()
	list, err := w.readPage(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, q := range list.Jobs {
		all = append(all, fmt.Sprint(q.Position, q.Name))
	}
	return strings.Join(all, ","), list.Next
}

// TestQueuePagesSurviveReordering: however the order changes between two pages, each job
// that is still pending appears once, and jobs that leave the queue do not hide others.
func TestQueuePagesSurviveReordering(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *pendingJobs)
		want   string
	}{
		"nothing":             {func(*pendingJobs) {}, "4d,5e,6f"},
		"the order turns":     {func(w *pendingJobs) { slices.Reverse(w.order) }, "4d,5e,6f"},
		"the first starts":    {func(w *pendingJobs) { w.startJobs("a") }, "4d,5e,6f"},
		"the last goes":       {func(w *pendingJobs) { delete(w.jobs, "c") }, "4d,5e,6f"},
		"the whole page goes": {func(w *pendingJobs) { w.startJobs("a", "b", "c") }, "4d,5e,6f"},
		"one to come goes":    {func(w *pendingJobs) { w.startJobs("d") }, "5e,6f"},
		"all go":              {func(w *pendingJobs) { clear(w.jobs) }, ""},
		"one comes":           {func(w *pendingJobs) { w.order = append([]string{"new"}, w.order...) }, "4d,5e,6f"},
	} {
		w := newPendingJobs("a", "b", "c", "d", "e", "f")
		got, next := w.pageText(t, api.PageRequest{Limit: 3})
		if got != "1a,2b,3c" || next == "" {
			t.Fatalf("first page %s, next %q", got, next)
		}
		test.change(w)
		again, _ := w.pageText(t, api.PageRequest{Limit: 2, After: next})
		if got, next = w.pageText(t, api.PageRequest{Limit: 10, After: next}); got != test.want || next != "" {
			t.Errorf("%s: %s, next %q, want %s", name, got, next, test.want)
		}
		if n := min(len(test.want), len("4d,5e")); again != test.want[:n] {
			t.Errorf("%s: by two %s, want the first of %s", name, again, test.want)
		}
		if w.sorted != 1 {
			t.Errorf("%s: the order was found %d times", name, w.sorted)
		}
	}
}

func (w *pendingJobs) startJobs(names ...string) {
	for _, name := range names {
		w.jobs[name] = frameworktest.JobInStates(name, 1, job.Running)
	}
}

// TestQueuePagesContinueOnAnotherScheduler: a scheduler that does not have the order cached
// continues after the same job in its own order, and starts again if that job is gone.
func TestQueuePagesContinueOnAnotherScheduler(t *testing.T) {
	w := newPendingJobs("a", "b", "c", "d")
	_, next := w.pageText(t, api.PageRequest{Limit: 2})
	other := newPendingJobs("b", "c", "a", "d")
	if got, _ := other.pageText(t, api.PageRequest{Limit: 3, After: next}); got != "2c,3a,4d" {
		t.Errorf("a different order continues with %s", got)
	}
	other = newPendingJobs("a", "c", "d")
	if got, _ := other.pageText(t, api.PageRequest{After: next}); got != "1a,2c,3d" {
		t.Errorf("without the job the next page is %s", got)
	}
}

// TestQueueOrdersExpire: cached orders expire after their lifetime or when there are too
// many, but not while a client reads them.
func TestQueueOrdersExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newPendingJobs("a", "b", "c")
		_, next := w.pageText(t, api.PageRequest{Limit: 1})
		for range 3 {
			time.Sleep(queueOrderLifetime)
			w.pageText(t, api.PageRequest{Limit: 1, After: next})
		}
		for range 3 * maxQueueOrders {
			w.pageText(t, api.PageRequest{Limit: 1})
			w.pageText(t, api.PageRequest{Limit: 1, After: next})
		}
		if want := 1 + 3*maxQueueOrders; w.sorted != want || len(w.orders) != maxQueueOrders {
			t.Errorf("the order was computed %d times, want %d; %d are cached, want %d", w.sorted, want, len(w.orders), maxQueueOrders)
		}
		time.Sleep(queueOrderLifetime + time.Second)
		if got, _ := w.pageText(t, api.PageRequest{Limit: 1, After: next}); got != "2b" || len(w.orders) != 1 {
			t.Errorf("after the lifetime: %s, %d cached", got, len(w.orders))
		}
	})
}

// TestQueuePagesHideOtherRoles: pages and cursors do not contain jobs that the client may not see.
func TestQueuePagesHideOtherRoles(t *testing.T) {
	w := newPendingJobs("a", "b", "c", "d")
	for name, j := range w.jobs {
		j.Spec.Role = map[bool]string{true: "research", false: "prod"}[name == "b" || name == "d"]
	}
	p := &access.AccessPolicy{Rules: []access.PermissionRule{{Permission: access.View, Roles: []string{"research"}, Users: []string{"ann"}}}}
	g := p.GrantFor(access.Identity{Name: "ann"})
	list, err := w.readPage(api.PageRequest{Limit: 1}, g)
	if err != nil || len(list.Jobs) != 1 || list.Jobs[0].Name != "b" || list.Next == "" {
		t.Fatalf("got %+v, %v", list, err)
	}
	key, err := request.DecodeCursor(api.PageRequest{After: list.Next}, queueList, 3)
	if err != nil || key[2] != "b@1" {
		t.Errorf("the cursor has %q, %v", key, err)
	}
	if list, err = w.readPage(api.PageRequest{Limit: 1, After: list.Next}, g); err != nil || len(list.Jobs) != 1 || list.Jobs[0].Name != "d" || list.Next != "" {
		t.Errorf("got %+v, %v", list, err)
	}
}

// TestInvalidQueueCursorsAreRejected: the status is 400.
func TestInvalidQueueCursorsAreRejected(t *testing.T) {
	w := newPendingJobs("a", "b")
	_, next := w.pageText(t, api.PageRequest{Limit: 1})
	key, err := request.DecodeCursor(api.PageRequest{After: next}, queueList, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []string{
		"x", request.EncodeCursor("gpus", key), request.EncodeCursor(queueList, key[:2]),
		request.EncodeCursor(queueList, request.SortKey{key[0], "3", "b"}),
		request.EncodeCursor(queueList, request.SortKey{key[0], "-1", "b"}),
		request.EncodeCursor(queueList, request.SortKey{key[0], "x", "b"}),
	} {
		var p *api.Problem
		if _, err := w.readPage(api.PageRequest{After: after}, nil); !errors.As(err, &p) || p.Status != http.StatusBadRequest ||
			!strings.Contains(p.Detail, "is not a place in the list") {
			t.Errorf("%q: %v", after, err)
		}
	}
}

// TestFirstPagesOfALongQueueShareAnOrder checks that clients that list a long queue again and again
// have its order computed once in a while, and that a short queue is always current.
func TestFirstPagesOfALongQueueShareAnOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := make([]string, sharedQueueOrder)
		for i := range names {
			names[i] = fmt.Sprintf("job-%04d", i)
		}
		long := newPendingJobs(names...)
		first := func(w *pendingJobs, wantSorted int) {
			t.Helper()
			if w.pageText(t, api.PageRequest{Limit: 1}); w.sorted != wantSorted {
				t.Errorf("the order of %d jobs was computed %d times, want %d", len(w.order), w.sorted, wantSorted)
			}
		}
		first(long, 1)
		time.Sleep(sharedQueueOrder * shareTimePerJob)
		first(long, 1)
		time.Sleep(time.Nanosecond)
		first(long, 2)
		short := newPendingJobs(names[1:]...)
		first(short, 1)
		first(short, 2)
	})
}

// TestQueueCountsWantedTasks: tasks by which a service was scaled down are not counted.
func TestQueueCountsWantedTasks(t *testing.T) {
	w := newPendingJobs("web")
	w.jobs["web"] = frameworktest.JobInStates("web", 1, job.Killed, job.Running, job.Waiting)
	w.jobs["web"].Tasks[0].KillReason = job.KillByScaling
	list, err := w.readPage(api.PageRequest{}, nil)
	if err != nil || len(list.Jobs) != 1 || list.Jobs[0].Tasks != 2 || list.Jobs[0].Waiting != 1 {
		t.Errorf("got %+v, %v, want 1 of 2 tasks that waits", list.Jobs, err)
	}
}
