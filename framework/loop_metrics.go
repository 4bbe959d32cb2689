package framework

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/metrics"
	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
)

// gpuTimeRecordInterval is how often it is recorded for how long GPUs have been held.
const gpuTimeRecordInterval = 30 * time.Second

// loopMetrics counts what a loop does.
type loopMetrics struct {
	counters *metrics.SchedulerCounters
	gpuTime  *metrics.GPUTimeTracker
	recorded time.Time
}

func newLoopMetrics(cfg *SchedulerConfig, past journal.JournalContents) loopMetrics {
	now := cfg.Clock()
	gpuTime, err := cfg.counters.RestoreGPUTime(sched.RecoveredState(past), now)
	if err != nil {
		cfg.Log.WithError(err).Warn("GPU hours are counted from 0")
	}
	return loopMetrics{counters: cfg.counters, gpuTime: gpuTime, recorded: now}
}

// countOperations counts what is recorded and about to be done.
func (m *loopMetrics) countOperations(now time.Time, ops []sched.Operation, moves []sched.StateTransition, held int) {
	m.counters.CountActions(now, ops, moves, held)
	m.gpuTime.ApplyActions(now, ops, moves)
}

// recordGPUTime has the next write to the journal say for how long GPUs have been
// held, now and then.
func (l *schedulerLoop) recordGPUTime() {
	now := l.clock()
	if now.Sub(l.recorded) < gpuTimeRecordInterval {
		return
	}
	l.recorded = now
	if document := l.gpuTime.EncodeRecord(now); document != nil {
		l.applyEvent(sched.CountersChanged{Value: document})
	}
}

// jobsPerCount is of how many jobs a scrape counts at a time: what is recorded
// meanwhile waits for so many, not for all.
const jobsPerCount = 1000

// metricsSnapshot counts all jobs, each as it was at some moment of the scrape.
func (v *readModel) metricsSnapshot(counters *metrics.SchedulerCounters, now time.Time) metrics.Snapshot {
	s := counters.NewSnapshot(now)
	v.mu.RLock()
	s.Cordoned = len(sched.ParseCordons(v.ownDocuments))
	s.GPUSeconds, _ = metrics.ReadGPUSeconds(v.ownDocuments[sched.CountersKey]) // who leads has said what is wrong with it
	all := slices.Clone(v.bySubmission)
	v.mu.RUnlock()
	for some := range slices.Chunk(all, jobsPerCount) {
		v.countJobs(&s, some)
	}
	return s
}

func (v *readModel) countJobs(s *metrics.Snapshot, some []*jobEntry) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, e := range some {
		if !e.removed {
			s.CountJob(&e.Job)
		}
	}
}

// gpuCountCache are those that the agents have which the master listed last.
type gpuCountCache struct {
	byType atomic.Pointer[map[string]metrics.GPUCount]
}

func (g *gpuCountCache) current() map[string]metrics.GPUCount {
	if byType := g.byType.Load(); byType != nil {
		return *byType
	}
	return nil
}

// countAgents learns how many GPUs there are, on agents that take tasks.
func (b *leaderBackend) countAgents(agents []master.ListedAgent) {
	all, cordons := map[string]metrics.GPUCount{}, b.view.cordonedHosts()
	for i := range agents {
		a := &agents[i]
		if _, cordoned := sched.FindCordon(cordons, a.Hostname, a.ID); !a.Active || a.Draining || cordoned {
			continue
		}
		for kind, n := range countGPUs(a) {
			sum := all[kind]
			all[kind] = metrics.GPUCount{All: sum.All + n.All, Free: sum.Free + n.Free}
		}
	}
	all = b.loop.counters.GPUsByLabel(all)
	b.gpuCounts.byType.Store(&all)
}

// countGPUs counts an agent's whole GPUs by type, as a task's are: those that
// it does not name are "A|B" where it has several types.
func countGPUs(a *master.ListedAgent) map[string]metrics.GPUCount {
	types := slices.Clone(gpuTypesOf(a))
	for i := range types {
		types[i] = gpu.TypeOf(types[i])
	}
	slices.Sort(types)
	mixed := strings.Join(slices.Compact(types), "|")
	count := map[string]metrics.GPUCount{}
	if a.GPUs != len(a.DeviceIDs) {
		if a.GPUs > 0 {
			count[mixed] = metrics.GPUCount{All: a.GPUs, Free: a.GPUsFree}
		}
		return count
	}
	for _, id := range a.DeviceIDs {
		kind := mixed
		if d := slices.IndexFunc(a.Host.Devices, func(d gpu.Device) bool { return d.UUID == id }); d >= 0 {
			kind = a.Host.Devices[d].Type()
		}
		n := count[kind]
		n.All++
		if !slices.Contains(a.DevicesHeld, id) {
			n.Free++
		}
		count[kind] = n
	}
	return count
}
