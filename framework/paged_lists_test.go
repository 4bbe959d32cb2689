package framework

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/apiserver"
	"mesos-gpu/framework/request"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// TestPagedListsEqualWholeLists: the concatenated pages of queue, GPUs and usage equal the
// whole lists, and the client reads all of them.
func TestPagedListsEqualWholeLists(t *testing.T) {
	const running, waiting = 3, 7
	c := mesostest.NewCluster(t, running)
	in := startWithJournal(t, c, filepath.Join(t.TempDir(), "journal.db"))
	awaitDecline(t, c)
	ctx := frameworktest.Timeout(t)
	if _, err := in.SubmitJob(ctx, frameworktest.JobSpec("runs", running, 1)); err != nil {
		t.Fatal(err)
	}
	awaitState(t, in, "runs", job.Running)
	for i := range waiting {
		if _, err := in.SubmitJob(ctx, frameworktest.JobSpec(fmt.Sprintf("waits-%d", i), 1, 1)); err != nil {
			t.Fatal(err)
		}
	}
	b := in.currentBackend()
	whole, err := b.Reads.Queue.ListQueue(ctx, nil, api.PageRequest{})
	if err != nil || len(whole.Jobs) != waiting || whole.Next != "" {
		t.Fatalf("got %d, next %q, %v", len(whole.Jobs), whole.Next, err)
	}
	paged := api.QueueList{}
	for p := (api.PageRequest{Limit: 3}); ; {
		page, err := b.Reads.Queue.ListQueue(ctx, nil, p)
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
	wantUsagePages(t, ctx, b.Leader.Usage, running)
	if gpus, err := in.ListGPUs(ctx); err != nil || len(gpus) != running {
		t.Errorf("the client reads %d GPUs, %v", len(gpus), err)
	}
	if queue, err := in.ListQueue(ctx); err != nil || !cmp.Equal(whole.Jobs, queue) {
		t.Errorf("the client reads the queue %+v, %v", queue, err)
	}
}

// wantUsagePages reads the usage in pages of two tasks.
func wantUsagePages(t *testing.T, ctx context.Context, b apiserver.UsageReader, tasks int) {
	t.Helper()
	seen := map[string]int{}
	for q := (request.UsageQuery{PageRequest: api.PageRequest{Limit: 2}}); ; {
		list, err := b.ListUsage(ctx, nil, q)
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
