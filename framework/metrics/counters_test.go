package metrics

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// done is what a loop does with a cluster in which everything happens once.
func done(c *Counters) {
	now := time.Unix(1_700_000_000, 0)
	spec := func(request gpu.Request) *job.Spec { return &job.Spec{Role: "research", Request: request} }
	v100 := spec(gpu.Request{GPUs: 2, Types: gpu.Types{Include: []string{"v100"}}})
	follows := spec(v100.Request)
	follows.After = []job.Dependency{{Job: "a", Met: true}}
	c.Event(sched.Offers{Offers: make([]sched.Offer, 5)})
	c.Event(sched.Rescind{})
	c.Event(sched.AcceptFailed{TaskIDs: []string{"a", "b"}})
	c.Event(sched.Tick{})
	c.Planned(2 * time.Millisecond)
	c.Acted(now, []sched.Op{
		sched.Accept{OfferIDs: []string{"o1", "o2"}, Offered: now.Add(-300 * time.Millisecond), Launches: []sched.Launch{
			{Spec: v100, GPUTypes: map[string]int{"V100": 2}, Waited: 20 * time.Second},
			{Spec: v100, GPUTypes: map[string]int{"A100": 1, "V100": 1}, Waited: 2 * time.Minute},
			{Spec: follows, GPUTypes: map[string]int{"V100": 2}, Waited: time.Hour},
			{Spec: spec(gpu.Request{GPUs: 1}), Parts: []gpu.Part{{Type: "T4", Milli: 500}}, Waited: time.Second},
			{Spec: spec(gpu.Request{}), Waited: 0},
		}},
		sched.Decline{Offers: []sched.Declined{{Why: sched.Idle}, {Why: sched.Held}}},
		sched.Decline{Offers: []sched.Declined{{Why: sched.Idle}}},
		sched.Revive{},
	}, []sched.Move{
		{Role: "research", State: job.Running}, {Role: "research", State: job.Finished},
		{Role: "research", State: job.Failed, Cause: sched.ByExit}, {Role: "research", State: job.Failed, Cause: sched.ByExit},
		{Role: "*", State: job.Failed, Cause: "container_limitation_memory"}, {Role: "*", State: job.Killed},
	}, 3)
	c.Called("ACCEPT", "ok", 4*time.Millisecond)
	c.Called("SUBSCRIBE", "unanswered", 5*time.Second)
	c.Subscribed()
	c.Heard(now.Add(1500 * time.Millisecond))
}

// TestCounters compares all there is with testdata/counters.txt, as it is
// scraped, and has Prometheus's own rules of names hold.
func TestCounters(t *testing.T) {
	c := NewCounters()
	done(c)
	c.commit.Observe(0.003)
	c.journalErrors.WithLabelValues("fenced").Inc()
	c.journalSize.Set(65536)
	want, err := os.Open("testdata/counters.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	if err := testutil.GatherAndCompare(c.registry, want); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(c.registry); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// TestCountersAreShown: beside a Snapshot that they began.
func TestCountersAreShown(t *testing.T) {
	c := NewCounters()
	done(c)
	c.Rest()
	w := httptest.NewRecorder()
	if err := NewPages().Serve(w, httptest.NewRequest("GET", "/metrics", nil), view{Snapshot: c.Snapshot(time.Time{})}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"mesos_gpu_scheduler_offers_received_total 5", "mesos_gpu_scheduler_offers_held 0", "mesos_gpu_scheduler_leads 0"} {
		if !strings.Contains(w.Body.String(), "\n"+line+"\n") {
			t.Errorf("lacks %s", line)
		}
	}
}

// fickle is a journal that fails as it is told.
type fickle struct {
	journal.Journal
	err  error
	size int64
}

func (f *fickle) Commit(context.Context, journal.Change) error { f.size += 100; return f.err }
func (f *fickle) Size() int64                                  { return f.size }

// TestJournalIsCounted: each commit takes time, a failed one is an error by its
// reason, and the size is that after the last good one.
func TestJournalIsCounted(t *testing.T) {
	c, f := NewCounters(), &fickle{size: 1}
	j := c.Journal(f)
	if got := testutil.ToFloat64(c.journalSize); got != 1 {
		t.Errorf("size %v at the begin, want 1", got)
	}
	for i, err := range []error{nil, fmt.Errorf("x: %w", journal.ErrFenced), journal.ErrUnknown, context.Canceled, errors.New("no space left on device")} {
		f.err = err
		if got := j.Commit(t.Context(), journal.Change{}); !errors.Is(got, err) {
			t.Errorf("commit %d: %v, want %v", i, got, err)
		}
	}
	for _, reason := range []string{"fenced", "unknown", "canceled", "failed"} {
		if got := testutil.ToFloat64(c.journalErrors.WithLabelValues(reason)); got != 1 {
			t.Errorf("%v errors %s, want 1", got, reason)
		}
	}
	if got := testutil.ToFloat64(c.journalSize); got != 101 {
		t.Errorf("size %v, want 101", got)
	}
	families, err := c.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range families {
		if n := m.GetMetric()[0].GetHistogram().GetSampleCount(); m.GetName() == "mesos_gpu_scheduler_journal_commit_seconds" && n != 5 {
			t.Errorf("%d commits took time, want 5", n)
		}
	}
}

// TestNames: a wish is named as the agents name what it means, there is an end
// to names, and what has one keeps it.
func TestNames(t *testing.T) {
	n := newNames()
	wish := func(types ...string) string {
		return n.wish(&gpu.Request{GPUs: 1, Types: gpu.Types{Include: types}})
	}
	for _, c := range []struct{ got, want string }{
		{wish("rtx 3090 ti"), "RTX 3090 TI"}, // nobody has it
		{n.device("RTX 3090 Ti"), "RTX 3090 Ti"},
		{wish("rtx 3090 ti"), "RTX 3090 Ti"},
		{wish("GeForce RTX3090 Ti"), "RTX 3090 Ti"},
		{wish("h100", "RTX 3090 Ti", "H100"), "H100|RTX 3090 Ti"},
		{n.device("Prototype"), "Prototype"}, // which only an agent knows
		{wish("prototype"), "Prototype"},
		{wish("prototype 8"), "Prototype"},
		{n.device("A100|V100"), "A100|V100"},
		{n.device(""), ""},
		{wish(), "any"},
		{n.wish(&gpu.Request{}), "none"},
		{n.launched(&gpu.Request{}, nil, nil), "none"},
		{n.launched(&gpu.Request{GPUs: 2}, map[string]int{"V100": 1, "A100": 1}, nil), "A100|V100"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	for i := range 2 * maxNames {
		n.of(fmt.Sprint("strange ", i))
		wish(fmt.Sprint("strange ", i))
	}
	if got := n.device("T4"); got != otherType {
		t.Errorf("after too many others T4 is %q", got)
	}
	if got := n.device("Prototype"); got != "Prototype" || len(n.known) > maxNames {
		t.Errorf("a type has become %q; %d names", got, len(n.known))
	}
}
