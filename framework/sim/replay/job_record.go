package replay

import (
	"fmt"
	"math/bits"
	"time"

	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// maxGPUs bounds the GPUs of one agent.
const maxGPUs = 64

// ReplayAgent is one of the cluster. Its GPUs are of one model.
type ReplayAgent struct {
	ID    string
	Has   sched.Amount
	GPUs  int
	Model string
}

// JobRecord is a job of a record.
type JobRecord struct {
	// Spec is what was asked for. Its name is nobody else's.
	Spec job.Spec
	// ArrivesAt is when it was submitted, from the begin of the record.
	ArrivesAt time.Duration
	// RunTimeSource is how long each task runs, or all where there is one. A task that
	// is preempted runs anew.
	RunTimes []time.Duration
	// SimilarTo names those that it is like: how long it runs is predicted from
	// how long they did. "" is its role and its GPUs.
	SimilarTo string
}

// runTimeOf is how long the task of that index does.
func (w *JobRecord) runTimeOf(index int) time.Duration {
	return w.RunTimes[min(index, len(w.RunTimes)-1)]
}

// longestRun is how long the job runs if all its tasks start together.
func (w *JobRecord) longestRun() time.Duration {
	var most time.Duration
	for i := range w.RunTimes {
		most = max(most, w.RunTimes[i])
	}
	return most
}

func (w *JobRecord) countGPUs() int { return w.Spec.Tasks * w.Spec.Request.GPUs }

func (w *JobRecord) similarityKey() string {
	if w.SimilarTo != "" {
		return w.SimilarTo
	}
	return fmt.Sprint(w.Spec.Role, " ", w.countGPUs())
}

// NewGangSpec is a job of so many GPUs that no single agent of most GPUs need
// have: a gang of as few equal tasks as can be. Each task has the CPUs and
// memory that go with its GPUs.
func NewGangSpec(name string, gpus, most int, per sched.Amount) (job.Spec, error) {
	tasks := 1
	for gpus > 0 && (gpus%tasks != 0 || gpus/tasks > most) {
		if tasks++; tasks > gpus {
			return job.Spec{}, fmt.Errorf("job %s wants %d GPUs, agents have none", name, gpus)
		}
	}
	each := gpus / tasks
	share := float64(max(each, 1))
	s := job.Spec{
		Name: name, Tasks: tasks, Request: gpu.Request{GPUs: each}, Command: []string{"true"},
		CPUs: per.CPUs * share, MemMiB: per.MemMiB * share, Gang: tasks > 1,
	}
	s.SetDefaults()
	return s, nil
}

// deviceMask is a set of an agent's GPUs, by index.
type deviceMask uint64

func fullMask(gpus int) deviceMask { return deviceMask(1)<<gpus - 1 }

func (m deviceMask) countDevices() int { return bits.OnesCount64(uint64(m)) }
