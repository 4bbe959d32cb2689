package metrics

import (
	"time"

	"mesos-gpu/framework/sched/pending"
	"mesos-gpu/job"
)

// Snapshot is what there was to count at one moment. The zero value has
// counted nothing.
type Snapshot struct {
	// IsLeader: this scheduler schedules. Connected: it has a subscription to a
	// master, which a standby never has.
	IsLeader, Connected bool
	// Cordoned counts the hosts whose agents get no tasks by an operator's word.
	Cordoned int
	// Now is when it was taken. Without it the waiting times are unknown.
	Now time.Time
	// GPUs are those of the agents that take tasks, by type. A standby has none.
	GPUs map[string]GPUCount
	// GPUSeconds are those recorded last.
	GPUSeconds []GPUSeconds
	// Gauges are an extension's.
	Gauges []ExtensionGauge

	counters *SchedulerCounters
	types    *labelValues
	jobs     map[job.State]int
	roles    map[string]*roleCounts
}

// NewSnapshot begins one, which is shown together with what has been counted.
func (c *SchedulerCounters) NewSnapshot(now time.Time) Snapshot {
	return Snapshot{Now: now, counters: c, types: c.types}
}

// GPUCount counts devices: all of them, and those that no framework's task holds.
type GPUCount struct{ All, Free int }

// roleCounts is what is counted of the jobs of one role.
type roleCounts struct {
	tasks     map[job.State]int
	allocated map[string]int // thousandths of GPUs, by type
	queue     map[string]*queueCounts
	deferred  map[pending.DeferralReason]int
}

// queueCounts is what waits for places with one type.
type queueCounts struct {
	tasks int
	gpus  int
	since time.Time // the oldest; zero if unknown
}

// ExtensionGauge is a number that an extension counts.
type ExtensionGauge struct {
	// Name is without the prefix mesos_gpu_ that all have. Gauges of one name
	// have the same Help and the same keys in Labels.
	Name, Help string
	// Labels have few values: each combination is a series that Prometheus
	// keeps.
	Labels map[string]string
	Value  float64
}

// CountJob adds a job with its tasks.
func (s *Snapshot) CountJob(j *job.Job) {
	if s.jobs == nil {
		s.jobs, s.roles = map[job.State]int{}, map[string]*roleCounts{}
	}
	if s.types == nil {
		s.types = newLabelValues()
	}
	s.jobs[j.State()]++
	r := s.roleCountsFor(j.Spec.Role)
	waits := false
	for i := range j.Tasks {
		t := &j.Tasks[i]
		r.tasks[t.State]++
		switch {
		case t.State == job.Waiting:
			waits = true
		case t.State.IsPlaced():
			for kind, n := range t.GPUTypes {
				r.allocated[s.types.deviceLabel(kind)] += n * milliPerGPU
			}
			for _, p := range t.Shares {
				r.allocated[s.types.deviceLabel(p.Type)] += p.MilliDevices
			}
		}
	}
	if waits {
		s.countWaiting(r, j)
	}
}

func (s *Snapshot) roleCountsFor(name string) *roleCounts {
	name = sanitizeLabel(name)
	r := s.roles[name]
	if r == nil {
		r = &roleCounts{map[job.State]int{}, map[string]int{}, map[string]*queueCounts{}, map[pending.DeferralReason]int{}}
		s.roles[name] = r
	}
	return r
}

// countWaiting adds the tasks of a job that wait: for a place, or for something else
// first.
func (s *Snapshot) countWaiting(r *roleCounts, j *job.Job) {
	ready, since := pending.CountReady(s.Now, j, func(why pending.DeferralReason, tasks int) { r.deferred[why] += tasks })
	if ready == 0 {
		return
	}
	kind := s.types.requestLabel(&j.Spec.Request)
	q := r.queue[kind]
	if q == nil {
		q = &queueCounts{}
		r.queue[kind] = q
	}
	q.tasks += ready
	q.gpus += ready * j.Spec.Request.GPUs
	if !since.IsZero() && (q.since.IsZero() || since.Before(q.since)) {
		q.since = since
	}
}

// milliPerGPU is one GPU in thousandths, by which shares of one are counted.
const milliPerGPU = 1000
