package framework

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/mesostest"
	"mesos-gpu/job"
)

// waiters are jobs that wait, in an order that a test says.
type waiters struct {
	lineups
	order  []string
	jobs   map[string]*job.Job
	sorted int // how often the order was asked for
}

func newWaiters(names ...string) *waiters {
	w := &waiters{order: names, jobs: map[string]*job.Job{}}
	for _, name := range names {
		w.jobs[name] = viewedJob(name, 1, job.Waiting)
	}
	return w
}

func (w *waiters) read(p api.Page, g *access.Grant) (api.QueueList, error) {
	order := func() ([]string, error) { w.sorted++; return slices.Clone(w.order), nil }
	return w.page(p, g, order, func(name string) (*job.Job, bool) { j, ok := w.jobs[name]; return j, ok })
}

// part reads "1a,2b", places and names.
func (w *waiters) part(t *testing.T, p api.Page) (text, next string) {
	t.Helper()
	list, err := w.read(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, q := range list.Jobs {
		all = append(all, fmt.Sprint(q.Position, q.Name))
	}
	return strings.Join(all, ","), list.Next
}

// TestQueuePages: whatever happens to the order between two pages, who still
// waits comes once; who went takes nobody along.
func TestQueuePages(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *waiters)
		want   string
	}{
		"nothing":             {func(*waiters) {}, "4d,5e,6f"},
		"the order turns":     {func(w *waiters) { slices.Reverse(w.order) }, "4d,5e,6f"},
		"the first starts":    {func(w *waiters) { w.start("a") }, "4d,5e,6f"},
		"the last goes":       {func(w *waiters) { delete(w.jobs, "c") }, "4d,5e,6f"},
		"the whole page goes": {func(w *waiters) { w.start("a", "b", "c") }, "4d,5e,6f"},
		"one to come goes":    {func(w *waiters) { w.start("d") }, "5e,6f"},
		"all go":              {func(w *waiters) { clear(w.jobs) }, ""},
		"one comes":           {func(w *waiters) { w.order = append([]string{"new"}, w.order...) }, "4d,5e,6f"},
	} {
		w := newWaiters("a", "b", "c", "d", "e", "f")
		got, next := w.part(t, api.Page{Limit: 3})
		if got != "1a,2b,3c" || next == "" {
			t.Fatalf("first page %s, next %q", got, next)
		}
		test.change(w)
		again, _ := w.part(t, api.Page{Limit: 2, After: next})
		if got, next = w.part(t, api.Page{Limit: 10, After: next}); got != test.want || next != "" {
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

func (w *waiters) start(names ...string) {
	for _, name := range names {
		w.jobs[name] = viewedJob(name, 1, job.Running)
	}
}

// TestQueuePagesElsewhere: another scheduler, or one that has forgotten, goes on
// after the same job by its own order, and begins again where that is gone.
func TestQueuePagesElsewhere(t *testing.T) {
	w := newWaiters("a", "b", "c", "d")
	_, next := w.part(t, api.Page{Limit: 2})
	other := newWaiters("b", "c", "a", "d")
	if got, _ := other.part(t, api.Page{Limit: 3, After: next}); got != "2c,3a,4d" {
		t.Errorf("another order goes on with %s", got)
	}
	other = newWaiters("a", "c", "d")
	if got, _ := other.part(t, api.Page{After: next}); got != "1a,2c,3d" {
		t.Errorf("without the job it goes on with %s", got)
	}
}

// TestLineupsAreForgotten after a while, and when they are many; who goes on
// reading is not.
func TestLineupsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWaiters("a", "b", "c")
		_, next := w.part(t, api.Page{Limit: 1})
		for range 3 {
			time.Sleep(lineupKept)
			w.part(t, api.Page{Limit: 1, After: next})
		}
		for range 3 * maxLineups {
			w.part(t, api.Page{Limit: 1})
			w.part(t, api.Page{Limit: 1, After: next})
		}
		if want := 1 + 3*maxLineups; w.sorted != want || len(w.kept) != maxLineups {
			t.Errorf("the order was found %d times, want %d; %d are kept, want %d", w.sorted, want, len(w.kept), maxLineups)
		}
		time.Sleep(lineupKept + time.Second)
		if got, _ := w.part(t, api.Page{Limit: 1, After: next}); got != "2b" || len(w.kept) != 1 {
			t.Errorf("after a while: %s, %d kept", got, len(w.kept))
		}
	})
}

// TestQueuePagesHide what their reader may not see, also in the cursor.
func TestQueuePagesHide(t *testing.T) {
	w := newWaiters("a", "b", "c", "d")
	for name, j := range w.jobs {
		j.Spec.Role = map[bool]string{true: "research", false: "prod"}[name == "b" || name == "d"]
	}
	p := &access.Policy{Rules: []access.Rule{{May: access.View, Roles: []string{"research"}, Users: []string{"ann"}}}}
	g := p.For(access.Identity{Name: "ann"})
	list, err := w.read(api.Page{Limit: 1}, g)
	if err != nil || len(list.Jobs) != 1 || list.Jobs[0].Name != "b" || list.Next == "" {
		t.Fatalf("got %+v, %v", list, err)
	}
	key, err := api.Page{After: list.Next}.Place(queueList, 3)
	if err != nil || key[2] != "b" {
		t.Errorf("the cursor has %q, %v", key, err)
	}
	if list, err = w.read(api.Page{Limit: 1, After: list.Next}, g); err != nil || len(list.Jobs) != 1 || list.Jobs[0].Name != "d" || list.Next != "" {
		t.Errorf("got %+v, %v", list, err)
	}
}

// TestBadQueuePages are 400.
func TestBadQueuePages(t *testing.T) {
	w := newWaiters("a", "b")
	_, next := w.part(t, api.Page{Limit: 1})
	key, err := api.Page{After: next}.Place(queueList, 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, after := range []string{"x", api.Cursor("gpus", key), api.Cursor(queueList, key[:2]), api.Cursor(queueList, api.Key{key[0], "3", "b"}), api.Cursor(queueList, api.Key{key[0], "-1", "b"}), api.Cursor(queueList, api.Key{key[0], "x", "b"})} {
		var p *api.Problem
		if _, err := w.read(api.Page{After: after}, nil); !errors.As(err, &p) || p.Status != http.StatusBadRequest || !strings.Contains(p.Detail, "is no place in the list") {
			t.Errorf("%q: %v", after, err)
		}
	}
}

// TestListsByPages: a running scheduler's pages of queue, GPUs and use, put
// together, are the whole lists, and the client reads them all.
func TestListsByPages(t *testing.T) {
	const running, waiting = 3, 7
	c := mesostest.NewCluster(t, running)
	in := run(t, c, filepath.Join(t.TempDir(), "journal.db"))
	atRest(t, c)
	ctx := within(t)
	if _, err := in.Submit(ctx, spec("runs", running, 1)); err != nil {
		t.Fatal(err)
	}
	awaitState(t, in, "runs", job.Running)
	for i := range waiting {
		if _, err := in.Submit(ctx, spec(fmt.Sprintf("waits-%d", i), 1, 1)); err != nil {
			t.Fatal(err)
		}
	}
	b := in.backend()
	whole, err := b.Queue(ctx, api.Page{})
	if err != nil || len(whole.Jobs) != waiting || whole.Next != "" {
		t.Fatalf("got %d, next %q, %v", len(whole.Jobs), whole.Next, err)
	}
	paged := api.QueueList{}
	for p := (api.Page{Limit: 3}); ; {
		page, err := b.Queue(ctx, p)
		if err != nil || len(page.Jobs) > p.Limit {
			t.Fatalf("got %d, %v", len(page.Jobs), err)
		}
		paged.Jobs = append(paged.Jobs, page.Jobs...)
		if p.After = page.Next; p.After == "" {
			break
		}
	}
	if diff := cmp.Diff(whole, paged); diff != "" || whole.Jobs[0].Reason == "" {
		t.Errorf("queue (-whole +pages):\n%s", diff)
	}
	wantUse(t, ctx, b, running)
	if gpus, err := in.GPUs(ctx); err != nil || len(gpus) != running {
		t.Errorf("the client reads %d GPUs, %v", len(gpus), err)
	}
	if queue, err := in.Queue(ctx); err != nil || !cmp.Equal(whole.Jobs, queue) {
		t.Errorf("the client reads the queue %+v, %v", queue, err)
	}
}

// wantUse reads what GPUs do by two tasks at a time.
func wantUse(t *testing.T, ctx context.Context, b api.Backend, tasks int) {
	t.Helper()
	seen := map[string]int{}
	for q := (api.UsageQuery{Page: api.Page{Limit: 2}}); ; {
		list, err := b.Usage(ctx, q)
		if err != nil || len(list.Tasks) > 2 {
			t.Fatalf("got %+v, %v", list, err)
		}
		for _, u := range list.Tasks {
			if u.Index != len(seen) {
				t.Errorf("index %d comes after %d others", u.Index, len(seen))
			}
			seen[u.Task]++
		}
		if q.After = list.Next; q.After == "" {
			break
		}
	}
	if len(seen) != tasks || slices.Max(slices.Collect(maps.Values(seen))) != 1 {
		t.Errorf("saw %v, want %d tasks once", seen, tasks)
	}
}
