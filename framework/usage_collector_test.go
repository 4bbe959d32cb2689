package framework

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/mesostest"
	"mesos-gpu/framework/master"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// TestUsage: the leader reads what lies in the sandboxes of running tasks, and
// says of each what is wrong with it.
func TestUsage(t *testing.T) {
	c := mesostest.NewCluster(t, 4)
	in := startWithJournal(t, c, filepath.Join(t.TempDir(), "journal.db"))
	ctx := testTimeout(t)
	for _, s := range []job.Spec{testSpec("train", 3, 1), testSpec("plain", 1, 0)} {
		if _, err := in.SubmitJob(ctx, s); err != nil {
			t.Fatal(err)
		}
		awaitState(t, in, s.Name, job.Running)
	}
	view, err := in.GetJob(ctx, "train")
	if err != nil {
		t.Fatal(err)
	}
	put := func(index int, text string) {
		t.Helper()
		c.SetFile(master.SandboxFilePath(in.Scheduler.currentBackend().Leader.(*leaderBackend).view.currentFrameworkID(), view.Tasks[index].ID, gpu.UsageFile), text)
	}
	device := view.Tasks[0].DeviceIDs[0]
	put(0, fmt.Sprintf(`{"time":%q,"simulated":true,"devices":[{"uuid":%q,"duty":0.75}]}`, time.Now().Add(-2*time.Second).Format(time.RFC3339Nano), device))
	put(1, strings.Repeat("x", gpu.MaxUsageBytes+100)) // what the task has put there

	list, err := in.ListUsage(ctx, "")
	if err != nil || len(list) != 3 {
		t.Fatalf("got %+v, %v", list, err)
	}
	first := list[0]
	if age := first.AgeSeconds; age == nil || *age < 2 || *age > 80 {
		t.Errorf("the age is %v, want some more than 2", age)
	}
	first.AgeSeconds = nil
	duty := 0.75
	want := api.TaskUsage{
		Task: view.Tasks[0].ID, Job: "train", Role: view.Spec.Role, Hostname: "host-1", Simulated: true,
		Devices: []gpu.DeviceUsage{{UUID: device, Duty: &duty}},
	}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("the first task (-want +got):\n%s", diff)
	}
	for i, note := range []string{1: "more than 65536 bytes", 2: "mesos-gpu agent does not run there"} {
		if got := list[i]; !strings.Contains(got.Note, note) || i > 0 && (got.AgeSeconds != nil || len(got.Devices) != 1 || got.Devices[0].UUID != view.Tasks[i].DeviceIDs[0]) {
			t.Errorf("task %d: %+v, want the note %q", i, got, note)
		}
	}
	if one, err := in.ListUsage(ctx, "plain"); err != nil || len(one) != 0 {
		t.Errorf("of a job without GPUs: %+v, %v", one, err)
	}
	_, err = in.ListUsage(ctx, "gone")
	wantProblem(t, err, http.StatusNotFound, `no job "gone"`)

	// Who may see nothing has no agent asked.
	nothing := api.WithGrant(ctx, (&access.AccessPolicy{}).GrantFor(access.Identity{Name: "stranger"}))
	if list, err := in.Scheduler.currentBackend().Leader.ListUsage(nothing, api.UsageQuery{}); err != nil || len(list.Tasks) != 0 {
		t.Errorf("a stranger got %+v, %v", list, err)
	}
	if list, err := in.Scheduler.currentBackend().Leader.ListUsage(ctx, api.UsageQuery{Role: "nobody"}); err != nil || len(list.Tasks) != 0 {
		t.Errorf("of a role without jobs: %+v, %v", list, err)
	}
}

// TestStaleUsageIsMarked: old figures say so, and those of a clock that is ahead.
func TestStaleUsageIsMarked(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, test := range map[string]struct {
		at   time.Time
		err  error
		age  float64
		note string
	}{
		"fresh":              {now.Add(-2100 * time.Millisecond), nil, 2.1, ""},
		"a little ahead":     {now.Add(3 * time.Second), nil, 0, ""},
		"old":                {now.Add(-31 * time.Second), nil, 31, "stale: its agent tells nothing new"},
		"ahead":              {now.Add(time.Hour), nil, 0, "stale: its agent's clock is ahead"},
		"far ahead":          {time.Date(99999, 1, 1, 0, 0, 0, 0, time.UTC), nil, 0, "stale: its agent's clock is ahead"},
		"nothing of a time":  {time.Time{}, nil, time.Duration(1<<63 - 1).Seconds(), "stale: its agent tells nothing new"},
		"the agent is gone":  {time.Time{}, errors.New("connection refused"), -1, "connection refused"},
		"the agent has none": {time.Time{}, fmt.Errorf("read x: %w", master.ErrNoFile), -1, "its agent tells nothing of its GPUs: mesos-gpu agent does not run there, or has not measured yet"},
	} {
		got := usageView(&gpuTask{}, usageSample{usage: gpu.TaskUsage{Time: test.at}, err: test.err}, now)
		age := -1.
		if got.AgeSeconds != nil {
			age = *got.AgeSeconds
		}
		if got.Note != test.note || age != test.age {
			t.Errorf("%s: %g s, %q, want %g s, %q", name, age, got.Note, test.age, test.note)
		}
	}
}

// TestUsageReadsAreLimited: no task's file is read twice within 5 s, however
// many look, nor more than 32 at a time.
func TestUsageReadsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s usageCollector
		var users []gpuTask
		for i := range 100 {
			users = append(users, gpuTask{Task: job.Task{ID: fmt.Sprint(i)}})
		}
		var asked, at, most atomic.Int32
		read := func(_ context.Context, t *job.Task) (gpu.TaskUsage, error) {
			asked.Add(1)
			most.Store(max(most.Load(), at.Add(1)))
			defer at.Add(-1)
			time.Sleep(10 * time.Millisecond)
			return gpu.TaskUsage{Devices: []gpu.DeviceUsage{{UUID: t.ID}}}, nil
		}
		var people sync.WaitGroup
		for i := range 20 {
			people.Go(func() {
				time.Sleep(time.Duration(i) * 100 * time.Millisecond)
				all, err := s.collectUsage(t.Context(), users[:50+i], read)
				if err != nil || len(all) != 50+i {
					t.Errorf("got %d answers, %v", len(all), err)
				}
				for i := range all {
					if all[i].usage.Devices[0].UUID != users[i].ID {
						t.Errorf("task %s got the answer of %s", users[i].ID, all[i].usage.Devices[0].UUID)
					}
				}
			})
		}
		people.Wait()
		if got := asked.Load(); got != 69 || most.Load() > maxConcurrentReads {
			t.Errorf("%d files were read, %d at a time; want 69 and at most %d", got, most.Load(), maxConcurrentReads)
		}
		time.Sleep(sampleLifetime)
		if _, err := s.collectUsage(t.Context(), users[:1], read); err != nil || asked.Load() != 70 || len(s.last) != 1 {
			t.Errorf("later: %d files were read, %d answers are kept, %v; want 70 and 1", asked.Load(), len(s.last), err)
		}
	})
}

// TestCancelledUsageRequestDoesNotAffectOthers: nobody else gets what a request's end has spoilt, and
// who waits for a round may go.
func TestCancelledUsageRequestDoesNotAffectOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s usageCollector
		users := []gpuTask{{Task: job.Task{ID: "1"}}}
		hangs := func(ctx context.Context, _ *job.Task) (gpu.TaskUsage, error) {
			<-ctx.Done()
			return gpu.TaskUsage{}, context.Cause(ctx)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var people sync.WaitGroup
		for range 2 { // one asks, one waits
			people.Go(func() {
				if _, err := s.collectUsage(ctx, users, hangs); err == nil {
					t.Error("got an answer of an agent that gave none")
				}
			})
		}
		synctest.Wait()
		cancel()
		people.Wait()
		all, err := s.collectUsage(t.Context(), users, hangs)
		if err != nil || all[0].err == nil {
			t.Errorf("an agent that does not answer: %+v, %v", all, err)
		}
		fine := func(context.Context, *job.Task) (gpu.TaskUsage, error) { return gpu.TaskUsage{}, nil }
		time.Sleep(sampleLifetime)
		if all, err := s.collectUsage(t.Context(), users, fine); err != nil || all[0].err != nil {
			t.Errorf("later: %+v, %v", all, err)
		}
	})
}

// TestUsageIsUnavailableWithoutLeader: no agent is read before this scheduler leads.
func TestUsageIsUnavailableWithoutLeader(t *testing.T) {
	w := httptest.NewRecorder()
	api.NewHandler(func() api.Backend { return api.NewUnavailableBackend("the scheduler is starting") }, discardLog()).
		ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/usage", nil))
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("got %d: %s", w.Code, w.Body)
	}
}
