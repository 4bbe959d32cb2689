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
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// recordSamples counts one of each event.
func recordSamples(c *SchedulerCounters) {
	now := time.Unix(1_700_000_000, 0)
	spec := func(request gpu.Request) *job.Spec { return &job.Spec{Role: "research", Request: request} }
	v100 := spec(gpu.Request{GPUs: 2, Types: gpu.TypeSelector{Include: []string{"v100"}}})
	follows := spec(v100.Request)
	follows.After = []job.Dependency{{Job: "a", Met: true}}
	c.CountEvent(sched.OffersReceived{Offers: make([]sched.Offer, 5)})
	c.CountEvent(sched.OfferRescinded{})
	c.CountEvent(sched.AcceptFailed{TaskIDs: []string{"a", "b"}})
	c.CountEvent(sched.Tick{})
	c.CountPlan(2 * time.Millisecond)
	c.CountActions(now, []sched.Operation{
		sched.AcceptOffers{OfferIDs: []string{"o1", "o2"}, LastOfferAt: now.Add(-300 * time.Millisecond), Launches: []sched.TaskLaunch{
			{Spec: v100, GPUTypes: map[string]int{"V100": 2}, Waited: 20 * time.Second},
			{Spec: v100, GPUTypes: map[string]int{"A100": 1, "V100": 1}, Waited: 2 * time.Minute},
			{Spec: follows, GPUTypes: map[string]int{"V100": 2}, Waited: time.Hour},
			{Spec: spec(gpu.Request{GPUs: 1}), Shares: []gpu.DeviceShare{{Type: "T4", MilliDevices: 500}}, Waited: time.Second},
			{Spec: spec(gpu.Request{}), Waited: 0},
		}},
		sched.DeclineOffers{Offers: []sched.DeclinedOffer{{Category: placement.DeclineIdle}, {Category: placement.DeclineHeld}}},
		sched.DeclineOffers{Offers: []sched.DeclinedOffer{{Category: placement.DeclineIdle}}},
		sched.ReviveOffers{},
	}, []sched.StateTransition{
		{Role: "research", State: job.Running}, {Role: "research", State: job.Finished},
		{Role: "research", State: job.Failed, Cause: sched.CauseExitCode}, {Role: "research", State: job.Failed, Cause: sched.CauseExitCode},
		{Role: "*", State: job.Failed, Cause: "container_limitation_memory"}, {Role: "*", State: job.Killed},
	}, 3)
	c.CallFinished("ACCEPT", "ok", 4*time.Millisecond)
	c.CallFinished("SUBSCRIBE", "unanswered", 5*time.Second)
	c.SubscriptionAccepted()
	c.EventReceived(now.Add(1500 * time.Millisecond))
}

// TestCounters compares the scrape of all counters with testdata/counters.txt and checks
// Prometheus's naming rules.
func TestCounters(t *testing.T) {
	c := NewSchedulerCounters()
	recordSamples(c)
	c.commitTime.Observe(0.003)
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

// TestCountersAreExported checks that they are exported with a Snapshot that they created.
func TestCountersAreExported(t *testing.T) {
	c := NewSchedulerCounters()
	recordSamples(c)
	c.ResetOffers()
	w := httptest.NewRecorder()
	if err := NewMetricsHandler().ServeScrape(w, httptest.NewRequest("GET", "/metrics", nil), fakeSource{Snapshot: c.NewSnapshot(time.Time{})}); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"mesos_gpu_scheduler_offers_received_total 5", "mesos_gpu_scheduler_offers_held 0", "mesos_gpu_scheduler_leads 0"} {
		if !strings.Contains(w.Body.String(), "\n"+line+"\n") {
			t.Errorf("lacks %s", line)
		}
	}
}

// failingJournal is a journal whose commits return a given error.
type failingJournal struct {
	journal.Journal
	err  error
	size int64
}

func (f *failingJournal) Commit(context.Context, journal.Change) error { f.size += 100; return f.err }
func (f *failingJournal) Size() int64                                  { return f.size }

// TestJournalMetrics checks the commit time, the reason of failures, and the size after the
// last successful commit.
func TestJournalMetrics(t *testing.T) {
	c, f := NewSchedulerCounters(), &failingJournal{size: 1}
	j := c.WrapJournal(f)
	if got := testutil.ToFloat64(c.journalSize); got != 1 {
		t.Errorf("size %v at the start, want 1", got)
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

// TestTypeLabels checks that requests use the spelling of the agents, that the number of labels
// is limited, and that labels do not change.
func TestTypeLabels(t *testing.T) {
	n := newLabelValues()
	wish := func(types ...string) string {
		return n.requestLabel(&gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: types}})
	}
	for _, c := range []struct{ got, want string }{
		{wish("rtx 3090 ti"), "RTX 3090 Ti"}, // no agent has it
		{n.deviceLabel("RTX 3090 Ti"), "RTX 3090 Ti"},
		{wish("rtx 3090 ti"), "RTX 3090 Ti"},
		{wish("GeForce RTX3090 Ti"), "RTX 3090 Ti"},
		{wish("h100", "RTX 3090 Ti", "H100"), "H100|RTX 3090 Ti"},
		{n.deviceLabel("Prototype"), "Prototype"}, // a type that only an agent reports
		{wish("prototype"), "Prototype"},
		{wish("prototype 8"), "Prototype"},
		{n.deviceLabel("A100|V100"), "A100|V100"},
		{n.deviceLabel(""), ""},
		{wish(), "any"},
		{n.requestLabel(&gpu.Request{}), "none"},
		{n.launchedLabel(&gpu.Request{}, nil, nil), "none"},
		{n.launchedLabel(&gpu.Request{GPUs: 2}, map[string]int{"V100": 1, "A100": 1}, nil), "A100|V100"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	for i := range 2 * maxLabelValues {
		n.bounded(fmt.Sprint("strange ", i))
		wish(fmt.Sprint("strange ", i))
	}
	if got := n.deviceLabel("T4"); got != labelOther {
		t.Errorf("after too many types T4 has the label %q", got)
	}
	if got := n.deviceLabel("Prototype"); got != "Prototype" || len(n.known) > maxLabelValues {
		t.Errorf("a type's label changed to %q; %d labels", got, len(n.known))
	}
}
