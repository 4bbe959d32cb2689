package metrics

import (
	"time"

	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// Snapshot is what there was to count at one moment. The zero value has
// counted nothing.
type Snapshot struct {
	// Leads: this scheduler schedules. Connected: it has a subscription to a
	// master, which a standby never has.
	Leads, Connected bool
	// Cordoned counts the hosts whose agents get no tasks by an operator's word.
	Cordoned int
	// Now is when it was taken: without it nobody knows how long tasks wait.
	Now time.Time
	// GPUs are those of the agents that take tasks, by type. A standby has none.
	GPUs map[string]GPUs
	// GPUSeconds are those recorded last.
	GPUSeconds []GPUSeconds
	// Gauges are an extension's.
	Gauges []Gauge

	counters *Counters
	types    *names
	jobs     map[job.State]int
	roles    map[string]*role
}

// Snapshot begins one, which is shown together with what has been counted.
func (c *Counters) Snapshot(now time.Time) Snapshot {
	return Snapshot{Now: now, counters: c, types: c.types}
}

// GPUs counts devices: all of them, and those that no framework's task holds.
type GPUs struct{ All, Free int }

// role is what is counted of the jobs of one role.
type role struct {
	tasks    map[job.State]int
	held     map[string]int // thousandths of GPUs, by type
	queue    map[string]*queue
	deferred map[sched.Deferral]int
}

// queue is what waits for places with one type.
type queue struct {
	tasks int
	gpus  int
	since time.Time // the oldest; zero: nobody knows
}

// Gauge is a number that an extension counts.
type Gauge struct {
	// Name is without the prefix mesos_gpu_ that all have. Gauges of one name
	// have the same Help and the same keys in Labels.
	Name, Help string
	// Labels have few values: each combination is a series that Prometheus
	// keeps.
	Labels map[string]string
	Value  float64
}

// Count adds a job with its tasks.
func (s *Snapshot) Count(j *job.Job) {
	if s.jobs == nil {
		s.jobs, s.roles = map[job.State]int{}, map[string]*role{}
	}
	if s.types == nil {
		s.types = newNames()
	}
	s.jobs[j.State()]++
	r := s.role(j.Spec.Role)
	waits := false
	for i := range j.Tasks {
		t := &j.Tasks[i]
		r.tasks[t.State]++
		switch {
		case t.State == job.Waiting:
			waits = true
		case t.State.Placed():
			for kind, n := range t.GPUTypes {
				r.held[s.types.device(kind)] += n * wholeGPU
			}
			for _, p := range t.Parts {
				r.held[s.types.device(p.Type)] += p.Milli
			}
		}
	}
	if waits {
		s.wait(r, j)
	}
}

func (s *Snapshot) role(name string) *role {
	name = label(name)
	r := s.roles[name]
	if r == nil {
		r = &role{map[job.State]int{}, map[string]int{}, map[string]*queue{}, map[sched.Deferral]int{}}
		s.roles[name] = r
	}
	return r
}

// wait adds the tasks of a job that wait: for a place, or for something else
// first.
func (s *Snapshot) wait(r *role, j *job.Job) {
	ready, since := sched.Queued(s.Now, j, func(why sched.Deferral, tasks int) { r.deferred[why] += tasks })
	if ready == 0 {
		return
	}
	kind := s.types.wish(&j.Spec.Request)
	q := r.queue[kind]
	if q == nil {
		q = &queue{}
		r.queue[kind] = q
	}
	q.tasks += ready
	q.gpus += ready * j.Spec.Request.GPUs
	if !since.IsZero() && (q.since.IsZero() || since.Before(q.since)) {
		q.since = since
	}
}

// wholeGPU is one GPU in thousandths, by which shares of one are counted.
const wholeGPU = 1000
