package usage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"mesos-gpu/framework/master"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// TestStaleUsageIsMarked: old values and values of a clock that is ahead are marked as stale.
func TestStaleUsageIsMarked(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, test := range map[string]struct {
		at   time.Time
		err  error
		age  float64
		note string
	}{
		"fresh":             {now.Add(-2100 * time.Millisecond), nil, 2.1, ""},
		"a little ahead":    {now.Add(3 * time.Second), nil, 0, ""},
		"old":               {now.Add(-31 * time.Second), nil, 31, "stale: the agent reports nothing new"},
		"ahead":             {now.Add(time.Hour), nil, 0, "stale: its agent's clock is ahead"},
		"far ahead":         {time.Date(99999, 1, 1, 0, 0, 0, 0, time.UTC), nil, 0, "stale: its agent's clock is ahead"},
		"nothing of a time": {time.Time{}, nil, time.Duration(1<<63 - 1).Seconds(), "stale: the agent reports nothing new"},
		"the agent is gone": {time.Time{}, errors.New("connection refused"), -1, "connection refused"},
		"the agent has none": {time.Time{}, fmt.Errorf("read x: %w", master.ErrNoFile), -1,
			"the agent reports no GPU usage: mesos-gpu agent does not run there, or has not measured yet"},
	} {
		got := usageView(&readmodel.GPUTask{}, usageSample{usage: gpu.TaskUsage{Time: test.at}, err: test.err}, now)
		age := -1.
		if got.AgeSeconds != nil {
			age = *got.AgeSeconds
		}
		if got.Note != test.note || age != test.age {
			t.Errorf("%s: %g s, %q, want %g s, %q", name, age, got.Note, test.age, test.note)
		}
	}
}

// TestUsageReadsAreLimited: a task's file is read at most once in 5 s, however many clients
// there are, and at most 32 files are read concurrently.
func TestUsageReadsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Collector
		var users []readmodel.GPUTask
		for i := range 100 {
			users = append(users, readmodel.GPUTask{Task: job.Task{ID: fmt.Sprint(i)}})
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
			t.Errorf("later: %d files were read, %d results are cached, %v; want 70 and 1", asked.Load(), len(s.last), err)
		}
	})
}

// TestCancelledUsageRequestDoesNotAffectOthers: errors of a cancelled request are not
// returned to others, and a client that waits for a collection can disconnect.
func TestCancelledUsageRequestDoesNotAffectOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Collector
		users := []readmodel.GPUTask{{Task: job.Task{ID: "1"}}}
		hangs := func(ctx context.Context, _ *job.Task) (gpu.TaskUsage, error) {
			<-ctx.Done()
			return gpu.TaskUsage{}, context.Cause(ctx)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var people sync.WaitGroup
		for range 2 { // one collects, one waits
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
