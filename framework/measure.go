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

// recordEvery is how often it is recorded for how long GPUs have been held.
const recordEvery = 30 * time.Second

// meter counts what a loop does.
type meter struct {
	counters *metrics.Counters
	gpuTime  *metrics.GPUTime
	recorded time.Time
}

func newMeter(cfg *Config, past journal.Contents) meter {
	now := cfg.Clock()
	gpuTime, err := cfg.counters.GPUTime(sched.Past(past), now)
	if err != nil {
		cfg.Log.WithError(err).Warn("GPU hours are counted from 0")
	}
	return meter{counters: cfg.counters, gpuTime: gpuTime, recorded: now}
}

// acted counts what is recorded and about to be done.
func (m *meter) acted(now time.Time, ops []sched.Op, moves []sched.Move, held int) {
	m.counters.Acted(now, ops, moves, held)
	m.gpuTime.Acted(now, ops, moves)
}

// record has the next write to the journal say for how long GPUs have been
// held, now and then.
func (l *loop) record() {
	now := l.clock()
	if now.Sub(l.recorded) < recordEvery {
		return
	}
	l.recorded = now
	if document := l.gpuTime.Record(now); document != nil {
		l.apply(sched.Counted{Value: document})
	}
}

// counted is of how many jobs a scrape counts at a time: what is recorded
// meanwhile waits for so many, not for all.
const counted = 1000

// metrics counts all jobs, each as it was at some moment of the scrape.
func (v *view) metrics(counters *metrics.Counters, now time.Time) metrics.Snapshot {
	s := counters.Snapshot(now)
	v.mu.RLock()
	s.Cordoned = len(sched.Cordons(v.own))
	s.GPUSeconds, _ = metrics.ReadGPUSeconds(v.own[sched.CountedKey]) // who leads has said what is wrong with it
	all := slices.Clone(v.order)
	v.mu.RUnlock()
	for some := range slices.Chunk(all, counted) {
		v.countSome(&s, some)
	}
	return s
}

func (v *view) countSome(s *metrics.Snapshot, some []*entry) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, e := range some {
		if !e.gone {
			s.Count(&e.Job)
		}
	}
}

// gpus are those that the agents have which the master listed last.
type gpus struct {
	byType atomic.Pointer[map[string]metrics.GPUs]
}

func (g *gpus) now() map[string]metrics.GPUs {
	if byType := g.byType.Load(); byType != nil {
		return *byType
	}
	return nil
}

// count learns how many GPUs there are, on agents that take tasks.
func (b *leader) count(agents []master.Agent) {
	all, cordons := map[string]metrics.GPUs{}, b.view.cordons()
	for i := range agents {
		a := &agents[i]
		if _, cordoned := sched.CordonedBy(cordons, a.Hostname, a.ID); !a.Active || a.Draining || cordoned {
			continue
		}
		for kind, n := range countGPUs(a) {
			sum := all[kind]
			all[kind] = metrics.GPUs{All: sum.All + n.All, Free: sum.Free + n.Free}
		}
	}
	all = b.loop.counters.Models(all)
	b.gpus.byType.Store(&all)
}

// countGPUs counts an agent's whole GPUs by type, as a task's are: those that
// it does not name are "A|B" where it has several types.
func countGPUs(a *master.Agent) map[string]metrics.GPUs {
	types := slices.Clone(typesOf(a))
	for i := range types {
		types[i] = gpu.TypeOf(types[i])
	}
	slices.Sort(types)
	mixed := strings.Join(slices.Compact(types), "|")
	count := map[string]metrics.GPUs{}
	if a.GPUs != len(a.DeviceIDs) {
		if a.GPUs > 0 {
			count[mixed] = metrics.GPUs{All: a.GPUs, Free: a.GPUsFree}
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
