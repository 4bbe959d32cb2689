package metrics

import (
	"strings"

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
	// Gauges are an extension's.
	Gauges []Gauge

	jobs  map[job.State]int
	roles map[string]*role
}

// role is what is counted of the jobs of one role.
type role struct {
	tasks map[job.State]int
	held  map[string]int // thousandths of GPUs, by type
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
	s.jobs[j.State()]++
	name := label(j.Spec.Role)
	r := s.roles[name]
	if r == nil {
		r = &role{map[job.State]int{}, map[string]int{}}
		s.roles[name] = r
	}
	for i := range j.Tasks {
		t := &j.Tasks[i]
		r.tasks[t.State]++
		if t.State.Placed() {
			for kind, n := range t.GPUTypes {
				r.held[label(kind)] += n * wholeGPU
			}
			for _, p := range t.Parts {
				r.held[label(p.Type)] += p.Milli
			}
		}
	}
}

// wholeGPU is one GPU in thousandths, by which shares of one are counted.
const wholeGPU = 1000

// maxLabel bounds a label's value, in bytes: agents tell the types.
const maxLabel = 256

// label makes a text fit to be a label's value: one that is not UTF-8 would
// fail the whole scrape.
func label(s string) string {
	if len(s) > maxLabel {
		s = s[:maxLabel]
	}
	return strings.ToValidUTF8(s, "?")
}
