package leader

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/metrics"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/frameworktest"
)

// documentJournal keeps the documents that are committed.
type documentJournal struct {
	orderedJournal
	mu        sync.Mutex
	documents map[string][]byte
}

func (d *documentJournal) Commit(ctx context.Context, c journal.Change) error {
	d.mu.Lock()
	maps.Copy(d.documents, c.Documents)
	d.mu.Unlock()
	return d.orderedJournal.Commit(ctx, c)
}

// TestUsageHistoryContinuesAfterFailover checks that a leader records the use of the cluster in the
// journal and that the next leader reports it.
func TestUsageHistoryContinuesAfterFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &documentJournal{documents: map[string][]byte{}}
		lead := func(minutes time.Duration) (v api.ClusterHistory) {
			ctx, cancel := context.WithCancel(t.Context())
			l := NewLoop(testLoopConfig(), journal.JournalContents{Documents: maps.Clone(d.documents)}, d, d.postOperation)
			b := New(l, Config{Stopped: ctx.Done()})
			b.gpuCounts.SetCounts(map[string]metrics.GPUCount{"A100": {All: 8, Free: 8}})
			go func() { _ = l.Run(ctx) }()
			go func() { _ = b.UsageHistory.RecordUsageHistory(ctx) }()
			time.Sleep(minutes*time.Minute + time.Second)
			v, err := b.UsageHistory.ClusterUsage(ctx, 2)
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			synctest.Wait()
			return v
		}
		before := lead(31)
		after := lead(0)
		if len(before.Times) < 6 || len(after.Times) < 6 || len(after.Types) != 1 || after.Types[0].GPUs[0] != 8 || before.Times[0] != after.Times[0] {
			t.Errorf("the first leader reports %+v, the second %+v", before, after)
		}
	})
}

// TestValidateJobRecordsNothing checks that a valid job, one without permission to its resources and
// one that no agent can run are answered as a submission would, without being submitted.
func TestValidateJobRecordsNothing(t *testing.T) {
	l := newTestLoop(&orderedJournal{})
	ctx, cancel := context.WithCancel(t.Context())
	b := New(l, Config{Stopped: ctx.Done()})
	ended := make(chan error, 1)
	go func() { ended <- l.Run(ctx) }()
	agents := []sched.Agent{{ID: "a", Hostname: "a", Total: sched.Amount{CPUs: 8, MemMiB: 1 << 16}, GPUs: 1, Types: []string{"V100"}}}
	err := b.runInLoop(ctx, func(apply func(sched.Event)) { apply(sched.AgentsListed{Agents: agents}) }, func(*sched.State) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	good := frameworktest.JobSpec("train", 1, 1)
	good.SetDefaults()
	large, unknown, nightly := good, good, frameworktest.ScheduledSpec("nightly", "0 3 * * *")
	large.Request.GPUs, unknown.Role = 4, "unknown"
	if v, err := b.Jobs.ValidateJob(ctx, nil, good); err != nil || len(v.Warnings) > 0 || v.Spec.Role == "" {
		t.Errorf("a valid job: %+v, %v", v, err)
	}
	if v, err := b.Jobs.ValidateJob(ctx, nil, large); err != nil || len(v.Warnings) != 1 ||
		v.Warnings[0] != "the job cannot start with the present agents: it needs 4 GPUs on one agent; 1 agent has GPUs, the largest has 1" {
		t.Errorf("a large job: %+v, %v", v.Warnings, err)
	}
	manyCPUs := good
	manyCPUs.Name, manyCPUs.Request.GPUs, manyCPUs.CPUs = "cpus", 0, 17
	if v, _, err := b.Jobs.SubmitJob(ctx, nil, manyCPUs); err != nil || len(v.Warnings) != 1 ||
		v.Warnings[0] != "the job cannot start with the present agents: it needs 17.1 CPUs (including 0.1 for the executor) on one agent; 1 agent is known, the largest has 8" {
		t.Errorf("a job with more CPUs than any agent: %+v, %v", v.Warnings, err)
	}
	var p *api.Problem
	if _, err := b.Jobs.ValidateJob(ctx, nil, unknown); !errors.As(err, &p) || p.Status != http.StatusUnprocessableEntity {
		t.Errorf("an unknown role: %v", err)
	}
	if _, err := b.Jobs.ValidateJob(ctx, nil, nightly); err != nil {
		t.Errorf("a schedule: %v", err)
	}
	if _, _, err := b.Jobs.SubmitJob(ctx, nil, good); err != nil {
		t.Errorf("the valid job is not accepted: %v", err)
	}
	if _, err := b.Jobs.ValidateJob(ctx, nil, good); !errors.As(err, &p) || p.Status != http.StatusConflict {
		t.Errorf("a name that is taken: %v", err)
	}
	if n := b.Model.JobCount(); n != 2 {
		t.Errorf("there are %d jobs, want the submitted ones", n)
	}
	web := frameworktest.ServiceSpec("web", 2)
	if _, _, err := b.Jobs.SubmitJob(ctx, nil, web); err != nil {
		t.Fatal(err)
	}
	web.Env = map[string]string{"VERSION": "2"}
	if v, err := b.Jobs.ValidateUpdate(ctx, request.Change{}, "web", web); err != nil || v.Spec.Env["VERSION"] != "2" {
		t.Errorf("a valid update: %+v, %v", v, err)
	}
	if view, err := b.Model.JobView("web"); err != nil || view.Version != 0 || view.Spec.Env["VERSION"] != "" {
		t.Errorf("the validation has changed the service: %+v, %v", view, err)
	}
	if _, err := b.Jobs.ValidateUpdate(ctx, request.Change{}, good.Name, good); !errors.As(err, &p) ||
		p.Status != http.StatusUnprocessableEntity || !strings.Contains(p.Detail, "is not a service") {
		t.Errorf("an update of a job that is no service: %v", err)
	}
	if list, err := b.Schedules.ListSchedules(ctx); err != nil || len(list) != 0 {
		t.Errorf("there are schedules: %+v, %v", list, err)
	}
	cancel()
	<-ended
}
