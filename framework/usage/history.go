package usage

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/request"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

const (
	// historyInterval is the time between two passes over all tasks,
	// historyBatchInterval that between two batches of maxConcurrentReads tasks: at
	// most 200 reads a second. With more than 3,000 GPU tasks a pass takes longer
	// than the interval, and the next one starts immediately.
	historyInterval      = 15 * time.Second
	historyBatchInterval = maxConcurrentReads * time.Second / 200
	// minSampleDistance is the minimum time between two stored samples,
	// maxSamplesPerTask the maximum number of them.
	historyLength     = api.MaxUsageMinutes * time.Minute
	minSampleDistance = 14 * time.Second
	maxSamplesPerTask = int(historyLength / minSampleDistance)
)

// historyStore stores the GPU usage of running tasks, because users look at it only after a
// problem has occurred. It is in memory only: a new leader starts with an empty one.
type historyStore struct {
	// mu protects byTask and what it points to.
	mu sync.Mutex
	// start is when the first sample was stored. It does not change.
	start time.Time
	// byTask are the histories of running tasks by id. RecordHistory removes those of
	// ended tasks.
	byTask map[string]*taskHistory
}

// taskHistory is the history of one task. A sample of one GPU takes 16 bytes.
type taskHistory struct {
	// devices are the UUIDs of the task's GPUs, in the order of the values.
	devices []string
	times   []time.Duration // since historyStore.start, oldest first
	// memMiB is the memory of the largest device, 0 if it is unknown.
	memMiB float64
	// values holds, for each time, the utilization and the used MiB of each device
	// in turn; NaN if unknown.
	values []float32
}

// sampleTasks collects the usage of the tasks in small batches, so that clients wait for
// one batch instead of all.
func (c *Collector) sampleTasks(ctx context.Context, users []readmodel.GPUTask, read func(context.Context, *job.Task) (gpu.TaskUsage, error)) {
	pace := time.NewTicker(historyBatchInterval)
	defer pace.Stop()
	for batch := range slices.Chunk(users, maxConcurrentReads) {
		if _, err := c.collectUsage(ctx, batch, read); err != nil {
			return // ctx has ended; failed reads are part of the samples
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
			return
		}
	}
}

// dropEndedTasks deletes the history of tasks that are not in running.
func (s *historyStore) dropEndedTasks(running []readmodel.GPUTask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	runs := make(map[string]bool, len(running))
	for i := range running {
		runs[running[i].ID] = true
	}
	for id := range s.byTask {
		if !runs[id] {
			delete(s.byTask, id)
		}
	}
}

// addSample stores a sample, with at most as many devices as the task has GPUs: a task
// could otherwise invent devices if its devices are unknown.
func (s *historyStore) addSample(u *readmodel.GPUTask, t usageSample) {
	if t.err != nil || staleNote(t.at.Sub(t.usage.Time)) != "" {
		return
	}
	devices := t.usage.Devices[:min(len(t.usage.Devices), u.GPUs)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byTask == nil {
		s.start, s.byTask = t.at, map[string]*taskHistory{}
	}
	one := s.byTask[u.ID]
	if one == nil || !one.hasDevices(devices) {
		one = &taskHistory{}
		for _, d := range devices {
			one.devices = append(one.devices, d.UUID)
		}
		s.byTask[u.ID] = one
	}
	for _, d := range devices {
		if d.MemMiB != nil {
			one.memMiB = max(one.memMiB, *d.MemMiB)
		}
	}
	one.addSample(t.at.Sub(s.start), devices)
}

func (h *taskHistory) hasDevices(devices []gpu.DeviceUsage) bool {
	return slices.EqualFunc(h.devices, devices, func(id string, d gpu.DeviceUsage) bool { return id == d.UUID })
}

func (h *taskHistory) addSample(at time.Duration, devices []gpu.DeviceUsage) {
	if n := len(h.times); n > 0 && at-h.times[n-1] < minSampleDistance {
		return
	}
	h.dropOldest(max(h.countBefore(at-historyLength), len(h.times)-maxSamplesPerTask+1))
	h.times = append(h.times, at)
	for i := range devices {
		h.values = append(h.values, toFloat32(devices[i].Duty), toFloat32(devices[i].MemUsedMiB))
	}
}

// countBefore returns how many samples were taken before a time.
func (h *taskHistory) countBefore(before time.Duration) int {
	n, _ := slices.BinarySearch(h.times, before)
	return n
}

func (h *taskHistory) dropOldest(n int) {
	if n > 0 {
		h.times, h.values = slices.Delete(h.times, 0, n), slices.Delete(h.values, 0, n*2*len(h.devices))
	}
}

func toFloat32(v *float64) float32 {
	if v == nil {
		return float32(math.NaN())
	}
	return float32(*v)
}

// pastOf returns a task's samples since a time, nil if there are none.
func (s *historyStore) pastOf(task string, since, now time.Time) *api.UsageHistory {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.byTask[task]
	if one == nil {
		return nil
	}
	first := one.countBefore(since.Sub(s.start))
	v := &api.UsageHistory{AgesSeconds: make([]float64, 0, len(one.times)-first), Devices: make([]api.DeviceHistory, len(one.devices))}
	for _, at := range one.times[first:] {
		v.AgesSeconds = append(v.AgesSeconds, math.Round(10*(now.Sub(s.start)-at).Seconds())/10)
	}
	for i, id := range one.devices {
		v.Devices[i] = api.DeviceHistory{UUID: id, Duty: one.valueSeries(2*i, first, 1000), MemUsedMiB: one.valueSeries(2*i+1, first, 1)}
	}
	return v
}

// valueSeries returns all values at index kind from sample first on, rounded to
// 1/part; nil for an unknown value.
func (h *taskHistory) valueSeries(kind, first int, part float64) []*float64 {
	width := 2 * len(h.devices)
	values, all := make([]float64, len(h.times)-first), make([]*float64, len(h.times)-first)
	for i := range all {
		if v := float64(h.values[(first+i)*width+kind]); !math.IsNaN(v) {
			values[i] = math.Round(v*part) / part
			all[i] = &values[i]
		}
	}
	return all
}

// RecordHistory samples the usage of all running tasks immediately and then every
// historyInterval, until ctx ends. It drops the history of ended tasks.
func (c *Collector) RecordHistory(ctx context.Context) error {
	tick := time.NewTicker(historyInterval)
	defer tick.Stop()
	for {
		tasks, err := c.model.RunningGPUTasks(request.UsageQuery{})
		if err != nil {
			return err
		}
		c.history.dropEndedTasks(tasks)
		c.sampleTasks(ctx, tasks, c.read)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// HistorySize returns the number of tasks with samples.
func (c *Collector) HistorySize() int {
	c.history.mu.Lock()
	defer c.history.mu.Unlock()
	return len(c.history.byTask)
}

// dutyWindow is the time over which AverageDuty averages.
const dutyWindow = time.Minute

// AverageDuty returns the average utilization of a task's GPUs in the last minute, 0 to 1,
// false without samples. The task can falsify it: only the number of tasks of its own
// service may depend on it.
func (c *Collector) AverageDuty(task string) (float64, bool) {
	now := time.Now()
	past := c.history.pastOf(task, now.Add(-dutyWindow), now)
	if past == nil {
		return 0, false
	}
	sum, n := 0.0, 0
	for _, d := range past.Devices {
		for _, duty := range d.Duty {
			if duty != nil {
				sum, n = sum+*duty, n+1
			}
		}
	}
	if n == 0 {
		return 0, false
	}
	return sum / float64(n), true
}
