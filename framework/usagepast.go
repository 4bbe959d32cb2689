package framework

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

const (
	// pastEvery is the time between two looks at all tasks, pastPace that between
	// two batches of usageReaders tasks: 200 files a second at most. Where there
	// are more than 3,000 tasks with GPUs a look takes longer, and the next
	// begins at once.
	pastEvery = 15 * time.Second
	pastPace  = usageReaders * time.Second / 200
	// pastApart is the least time between two values that are kept, pastPoints
	// the most of them.
	pastKept   = api.MaxUsageMinutes * time.Minute
	pastApart  = 14 * time.Second
	pastPoints = int(pastKept / pastApart)
)

// pasts keep what the GPUs of running tasks did, since who looks does so once
// something is odd. They are in memory alone: who leads next begins anew.
type pasts struct {
	mu     sync.Mutex
	began  time.Time
	byTask map[string]*taskPast
}

// taskPast is that of a task: 16 bytes a value where it has one GPU.
type taskPast struct {
	devices []string
	at      []time.Duration // since pasts.began, oldest first
	// told has for each time the duty and the used MiB of each device in turn;
	// NaN is not told.
	told []float32
}

// keepUsage looks at all tasks at once, and then again and again until ctx ends.
func (b *leader) keepUsage(ctx context.Context) error {
	tick := time.NewTicker(pastEvery)
	defer tick.Stop()
	for {
		users, err := b.view.users(api.UsageQuery{})
		if err != nil {
			return err
		}
		b.usages.past.forget(users)
		b.usages.sample(ctx, users, b.readUsage)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// sample has the agents tell of those tasks, few at a time: people who look
// meanwhile wait for a batch and not for all.
func (s *usages) sample(ctx context.Context, users []user, read func(context.Context, *job.Task) (gpu.Usage, error)) {
	pace := time.NewTicker(pastPace)
	defer pace.Stop()
	for batch := range slices.Chunk(users, usageReaders) {
		if _, err := s.of(ctx, batch, read); err != nil {
			return // ctx has ended; what agents do not tell is no such error
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
			return
		}
	}
}

// forget leaves the tasks that run still.
func (p *pasts) forget(running []user) {
	p.mu.Lock()
	defer p.mu.Unlock()
	runs := make(map[string]bool, len(running))
	for i := range running {
		runs[running[i].ID] = true
	}
	for id := range p.byTask {
		if !runs[id] {
			delete(p.byTask, id)
		}
	}
}

// note keeps what was told of a task, of no more devices than it has GPUs: a
// task may make devices up where nobody knows which it has.
func (p *pasts) note(u *user, t told) {
	if t.err != nil || stale(t.at.Sub(t.usage.Time)) != "" {
		return
	}
	devices := t.usage.Devices[:min(len(t.usage.Devices), u.gpus)]
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byTask == nil {
		p.began, p.byTask = t.at, map[string]*taskPast{}
	}
	one := p.byTask[u.ID]
	if one == nil || !one.of(devices) {
		one = &taskPast{}
		for _, d := range devices {
			one.devices = append(one.devices, d.UUID)
		}
		p.byTask[u.ID] = one
	}
	one.add(t.at.Sub(p.began), devices)
}

func (p *taskPast) of(devices []gpu.DeviceUsage) bool {
	return slices.EqualFunc(p.devices, devices, func(id string, d gpu.DeviceUsage) bool { return id == d.UUID })
}

func (p *taskPast) add(at time.Duration, devices []gpu.DeviceUsage) {
	if n := len(p.at); n > 0 && at-p.at[n-1] < pastApart {
		return
	}
	p.drop(max(p.old(at-pastKept), len(p.at)-pastPoints+1))
	p.at = append(p.at, at)
	for i := range devices {
		p.told = append(p.told, single(devices[i].Duty), single(devices[i].MemUsedMiB))
	}
}

// old is how many values were taken before a time.
func (p *taskPast) old(before time.Duration) int {
	n, _ := slices.BinarySearch(p.at, before)
	return n
}

func (p *taskPast) drop(n int) {
	if n > 0 {
		p.at, p.told = slices.Delete(p.at, 0, n), slices.Delete(p.told, 0, n*2*len(p.devices))
	}
}

func single(v *float64) float32 {
	if v == nil {
		return float32(math.NaN())
	}
	return float32(*v)
}

// last is the past of a task since that time, nil where there is none.
func (p *pasts) last(task string, since, now time.Time) *api.UsagePast {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.byTask[task]
	if one == nil {
		return nil
	}
	first := one.old(since.Sub(p.began))
	v := &api.UsagePast{AgesSeconds: make([]float64, 0, len(one.at)-first), Devices: make([]api.DevicePast, len(one.devices))}
	for _, at := range one.at[first:] {
		v.AgesSeconds = append(v.AgesSeconds, math.Round(10*(now.Sub(p.began)-at).Seconds())/10)
	}
	for i, id := range one.devices {
		v.Devices[i] = api.DevicePast{UUID: id, Duty: one.series(2*i, first, 1000), MemUsedMiB: one.series(2*i+1, first, 1)}
	}
	return v
}

// series is every value of one kind, rounded to that part of a unit.
func (p *taskPast) series(kind, first int, part float64) []*float64 {
	width := 2 * len(p.devices)
	values, all := make([]float64, len(p.at)-first), make([]*float64, len(p.at)-first)
	for i := range all {
		if v := float64(p.told[(first+i)*width+kind]); !math.IsNaN(v) {
			values[i] = math.Round(v*part) / part
			all[i] = &values[i]
		}
	}
	return all
}
