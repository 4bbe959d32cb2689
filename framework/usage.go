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
	// usageKept is how long what an agent told is told again, usageStale the age
	// from which on figures say nothing of now.
	usageKept  = 5 * time.Second
	usageStale = 30 * time.Second
	// usageReaders ask agents at a time, and each waits usagePatience for its
	// answer; usageRound bounds all of a round.
	usageReaders  = 32
	usagePatience = 3 * time.Second
	usageRound    = 15 * time.Second
)

// usages keep what agents told of their tasks' GPUs, so that many people who
// look cost the agents no more than one.
type usages struct {
	once sync.Once
	busy chan struct{} // one round at a time
	last map[string]told
	past pasts
}

// told is what an agent said of a task.
type told struct {
	at    time.Time
	usage gpu.Usage
	err   error
}

// user is a running task with GPUs.
type user struct {
	job.Task
	role      string
	gpus      int
	submitted time.Time
}

// Usage reads the files in the tasks' sandboxes, but of those that the requester
// may see, and of a page's alone.
func (b *leader) Usage(ctx context.Context, q api.UsageQuery) (page api.UsageList, err error) {
	users, err := b.view.users(q)
	if err != nil {
		return page, err
	}
	grant := api.GrantOf(ctx)
	seen := users[:0]
	for _, u := range users {
		if grant.May(access.View, u.role) {
			seen = append(seen, u)
		}
	}
	if seen, page.Next, err = api.PageOf("usage", 4, seen, q.Page, userKey); err != nil {
		return page, err
	}
	all, err := b.usages.of(ctx, seen, b.readUsage)
	if err != nil {
		return page, err
	}
	list, now := make([]api.TaskUsage, len(seen)), time.Now()
	for i := range seen {
		list[i] = usageOf(&seen[i], all[i], now)
		if q.Minutes > 0 {
			list[i].Past = b.usages.past.last(seen[i].ID, now.Add(-time.Duration(q.Minutes)*time.Minute), now)
		}
	}
	page.Tasks = list
	return page, nil
}

// userKey has numbers such that their texts are in their order.
func userKey(users []user, at int) api.Key {
	u := &users[at]
	return api.Key{fmt.Sprintf("%016x", uint64(u.submitted.UnixNano())^1<<63), u.Job, fmt.Sprintf("%09d", u.Index), ""}
}

// readUsage reads a task's file. A task may have put anything there.
func (r *reader) readUsage(ctx context.Context, t *job.Task) (gpu.Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, usagePatience)
	defer cancel()
	path := master.SandboxFile(r.view.framework(), t.ID, gpu.UsageFile)
	text, _, err := r.client.ReadFile(ctx, t.AgentURL, path, 0, gpu.MaxUsage+1)
	if err != nil {
		return gpu.Usage{}, err
	}
	return gpu.ParseUsage(text, t.DeviceIDs)
}

// of asks for the tasks whose answers are not fresh. Who comes during a round
// waits for its end, and has its answers.
func (s *usages) of(ctx context.Context, users []user, read func(context.Context, *job.Task) (gpu.Usage, error)) ([]told, error) {
	s.once.Do(func() { s.busy, s.last = make(chan struct{}, 1), map[string]told{} })
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return nil, api.NotYet("the request ended before the agents were asked: %v", context.Cause(ctx))
	}
	now := time.Now()
	for id, t := range s.last {
		if now.Sub(t.at) >= usageKept {
			delete(s.last, id)
		}
	}
	all := make([]told, len(users))
	var ask []int
	for i := range users {
		if kept, ok := s.last[users[i].ID]; ok {
			all[i] = kept
		} else {
			ask = append(ask, i)
		}
	}
	s.round(ctx, ask, func(ctx context.Context, i int) {
		u, err := read(ctx, &users[i].Task)
		all[i] = told{time.Now(), u, err}
	})
	if ctx.Err() != nil { // its errors are not the agents'
		return nil, api.NotYet("the request ended before the agents had answered: %v", context.Cause(ctx))
	}
	for _, i := range ask {
		s.last[users[i].ID] = all[i]
		s.past.note(&users[i], all[i])
	}
	return all, nil
}

// round does something for each of those, several at a time.
func (s *usages) round(ctx context.Context, all []int, do func(context.Context, int)) {
	ctx, cancel := context.WithTimeout(ctx, usageRound)
	defer cancel()
	next := make(chan int)
	var readers sync.WaitGroup
	for range min(usageReaders, len(all)) {
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

// usageOf shows what an agent told of a task.
func usageOf(u *user, t told, now time.Time) api.TaskUsage {
	v := api.TaskUsage{Task: u.ID, Job: u.Job, Index: u.Index, Role: u.role, Hostname: u.Hostname, Devices: t.usage.Devices, Simulated: t.usage.Simulated}
	switch {
	case errors.Is(t.err, master.ErrNoFile):
		v.Note = "its agent tells nothing of its GPUs: mesos-gpu agent does not run there, or has not measured yet"
	case t.err != nil:
		v.Note = t.err.Error()
	default:
		age := now.Sub(t.usage.Time)
		seconds := max(age, 0).Seconds()
		v.AgeSeconds, v.Note = &seconds, stale(age)
	}
	if len(v.Devices) == 0 {
		v.Devices = make([]gpu.DeviceUsage, len(u.DeviceIDs))
		for i, id := range u.DeviceIDs {
			v.Devices[i].UUID = id
		}
	}
	return v
}

// stale says why figures of that age say nothing of now, "" where they do.
func stale(age time.Duration) string {
	switch {
	case age > usageStale:
		return "stale: its agent tells nothing new"
	case age < -usageStale:
		return "stale: its agent's clock is ahead"
	}
	return ""
}

// users are the running tasks with GPUs that a query asks for.
func (v *view) users(q api.UsageQuery) (list []user, err error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	entries := v.order
	if q.Job != "" {
		e := v.jobs[q.Job]
		if e == nil {
			return nil, api.UnknownJob(q.Job)
		}
		entries = []*entry{e}
	}
	for _, e := range entries {
		if e.gone || e.live == 0 || e.Spec.Request.GPUs == 0 || q.Role != "" && e.Spec.Role != q.Role {
			continue
		}
		for i := range e.Tasks {
			if t := &e.Tasks[i]; t.State == job.Running && (q.Task == "" || q.Task == t.ID) && (q.Agent == "" || q.Agent == t.AgentID) {
				list = append(list, user{*t, e.Spec.Role, e.Spec.Request.GPUs, e.Submitted})
			}
		}
	}
	return list, nil
}

// Usage is the leader's to tell, so that agents are asked once.
func (b *standby) Usage(ctx context.Context, _ api.UsageQuery) (l api.UsageList, err error) {
	return l, b.Elsewhere(ctx)
}

func (n nobody) Usage(context.Context, api.UsageQuery) (l api.UsageList, err error) {
	return l, n.problem()
}
