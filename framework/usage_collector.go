package framework

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/master"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

const (
	// sampleLifetime is how long what an agent told is told again, maxSampleAge the age
	// from which on figures say nothing of now.
	sampleLifetime = 5 * time.Second
	maxSampleAge   = 30 * time.Second
	// maxConcurrentReads ask agents at a time, and each waits usageReadTimeout for its
	// answer; usageCollectTimeout bounds all of a round.
	maxConcurrentReads  = 32
	usageReadTimeout    = 3 * time.Second
	usageCollectTimeout = 15 * time.Second
)

// usageCollector keep what agents told of their tasks' GPUs, so that many people who
// look cost the agents no more than one.
type usageCollector struct {
	once       sync.Once
	collecting chan struct{} // one round at a time
	last       map[string]usageSample
	history    usageHistory
}

// usageSample is what an agent said of a task.
type usageSample struct {
	at    time.Time
	usage gpu.TaskUsage
	err   error
}

// gpuTask is a running task with GPUs.
type gpuTask struct {
	job.Task
	role      string
	gpus      int
	submitted time.Time
}

// ListUsage reads the files in the tasks' sandboxes, but of those that the requester
// may see, and of a page's alone.
func (b *leaderBackend) ListUsage(ctx context.Context, q api.UsageQuery) (page api.UsageList, err error) {
	users, err := b.view.runningGPUTasks(q)
	if err != nil {
		return page, err
	}
	grant := api.GrantOf(ctx)
	seen := users[:0]
	for _, u := range users {
		if grant.HasPermission(access.View, u.role) {
			seen = append(seen, u)
		}
	}
	if seen, page.Next, err = api.CutPage("usage", 4, seen, q.PageRequest, gpuTaskKey); err != nil {
		return page, err
	}
	all, err := b.usage.collectUsage(ctx, seen, b.readUsage)
	if err != nil {
		return page, err
	}
	list, now := make([]api.TaskUsage, len(seen)), time.Now()
	for i := range seen {
		list[i] = usageView(&seen[i], all[i], now)
		if q.Minutes > 0 {
			list[i].History = b.usage.history.pastOf(seen[i].ID, now.Add(-time.Duration(q.Minutes)*time.Minute), now)
		}
	}
	page.Tasks = list
	return page, nil
}

// gpuTaskKey has numbers such that their texts are in their order.
func gpuTaskKey(users []gpuTask, at int) api.SortKey {
	u := &users[at]
	return api.SortKey{fmt.Sprintf("%016x", uint64(u.submitted.UnixNano())^1<<63), u.Job, fmt.Sprintf("%09d", u.Index), ""}
}

// readUsage reads a task's file. A task may have put anything there.
func (r *clusterReader) readUsage(ctx context.Context, t *job.Task) (gpu.TaskUsage, error) {
	ctx, cancel := context.WithTimeout(ctx, usageReadTimeout)
	defer cancel()
	path := master.SandboxFilePath(r.view.currentFrameworkID(), t.ID, gpu.UsageFile)
	text, _, err := r.client.ReadFile(ctx, t.AgentURL, path, 0, gpu.MaxUsageBytes+1)
	if err != nil {
		return gpu.TaskUsage{}, err
	}
	return gpu.ParseUsage(text, t.DeviceIDs)
}

// collectUsage asks for the tasks whose answers are not fresh. Who comes during a round
// waits for its end, and has its answers.
func (s *usageCollector) collectUsage(ctx context.Context, users []gpuTask, read func(context.Context, *job.Task) (gpu.TaskUsage, error)) ([]usageSample, error) {
	s.once.Do(func() { s.collecting, s.last = make(chan struct{}, 1), map[string]usageSample{} })
	select {
	case s.collecting <- struct{}{}:
		defer func() { <-s.collecting }()
	case <-ctx.Done():
		return nil, api.NewUnavailable("the request ended before the agents were asked: %v", context.Cause(ctx))
	}
	now := time.Now()
	for id, t := range s.last {
		if now.Sub(t.at) >= sampleLifetime {
			delete(s.last, id)
		}
	}
	all := make([]usageSample, len(users))
	var ask []int
	for i := range users {
		if kept, ok := s.last[users[i].ID]; ok {
			all[i] = kept
		} else {
			ask = append(ask, i)
		}
	}
	s.readConcurrently(ctx, ask, func(ctx context.Context, i int) {
		u, err := read(ctx, &users[i].Task)
		all[i] = usageSample{time.Now(), u, err}
	})
	if ctx.Err() != nil { // its errors are not the agents'
		return nil, api.NewUnavailable("the request ended before the agents had answered: %v", context.Cause(ctx))
	}
	for _, i := range ask {
		s.last[users[i].ID] = all[i]
		s.history.addSample(&users[i], all[i])
	}
	return all, nil
}

// readConcurrently does something for each of those, several at a time.
func (s *usageCollector) readConcurrently(ctx context.Context, all []int, do func(context.Context, int)) {
	ctx, cancel := context.WithTimeout(ctx, usageCollectTimeout)
	defer cancel()
	next := make(chan int)
	var readers sync.WaitGroup
	for range min(maxConcurrentReads, len(all)) {
		readers.Go(func() {
			for i := range next {
				do(ctx, i)
			}
		})
	}
	for _, i := range all {
		next <- i
	}
	close(next)
	readers.Wait()
}

// usageView shows what an agent told of a task.
func usageView(u *gpuTask, t usageSample, now time.Time) api.TaskUsage {
	v := api.TaskUsage{Task: u.ID, Job: u.Job, Index: u.Index, Role: u.role, Hostname: u.Hostname, Devices: t.usage.Devices, Simulated: t.usage.Simulated}
	switch {
	case errors.Is(t.err, master.ErrNoFile):
		v.Note = "its agent tells nothing of its GPUs: mesos-gpu agent does not run there, or has not measured yet"
	case t.err != nil:
		v.Note = t.err.Error()
	default:
		age := now.Sub(t.usage.Time)
		seconds := max(age, 0).Seconds()
		v.AgeSeconds, v.Note = &seconds, staleNote(age)
	}
	if len(v.Devices) == 0 {
		v.Devices = make([]gpu.DeviceUsage, len(u.DeviceIDs))
		for i, id := range u.DeviceIDs {
			v.Devices[i].UUID = id
		}
	}
	return v
}

// staleNote says why figures of that age say nothing of now, "" where they do.
func staleNote(age time.Duration) string {
	switch {
	case age > maxSampleAge:
		return "stale: its agent tells nothing new"
	case age < -maxSampleAge:
		return "stale: its agent's clock is ahead"
	}
	return ""
}

// runningGPUTasks are the running tasks with GPUs that a query asks for.
func (v *readModel) runningGPUTasks(q api.UsageQuery) (list []gpuTask, err error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	entries := v.bySubmission
	if q.Job != "" {
		e := v.jobs[q.Job]
		if e == nil {
			return nil, api.UnknownJob(q.Job)
		}
		entries = []*jobEntry{e}
	}
	for _, e := range entries {
		if e.removed || e.liveTasks == 0 || e.Spec.Request.GPUs == 0 || q.Role != "" && e.Spec.Role != q.Role {
			continue
		}
		for i := range e.Tasks {
			if t := &e.Tasks[i]; t.State == job.Running && (q.Task == "" || q.Task == t.ID) && (q.Agent == "" || q.Agent == t.AgentID) {
				list = append(list, gpuTask{*t, e.Spec.Role, e.Spec.Request.GPUs, e.Submitted})
			}
		}
	}
	return list, nil
}
