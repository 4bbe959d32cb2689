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

// Agent is one of the cluster. Its GPUs are of one model.
type Agent struct {
	ID    string
	Has   sched.Amount
	GPUs  int
	Model string
}

// Work is a job of a record.
type Work struct {
	// Spec is what was asked for. Its name is nobody else's.
	Spec job.Spec
	// Arrives is when it was submitted, from the begin of the record.
	Arrives time.Duration
	// Runs is how long each task runs, or all where there is one. A task that
	// is preempted runs anew.
	Runs []time.Duration
	// Like names those that it is like: how long it runs is predicted from
	// how long they did. "" is its role and its GPUs.
	Like string
}

// runs is how long the task of that index does.
func (w *Work) runs(index int) time.Duration { return w.Runs[min(index, len(w.Runs)-1)] }

// longest is how long the job runs if all its tasks start together.
func (w *Work) longest() time.Duration {
	var most time.Duration
	for i := range w.Runs {
		most = max(most, w.Runs[i])
	}
	return most
}

func (w *Work) gpus() int { return w.Spec.Tasks * w.Spec.Request.GPUs }

func (w *Work) like() string {
	if w.Like != "" {
		return w.Like
	}
	return fmt.Sprint(w.Spec.Role, " ", w.gpus())
}

// NewSpec is a job of so many GPUs that no single agent of most GPUs need
// have: a gang of as few equal tasks as can be. Each task has the CPUs and
// memory that go with its GPUs.
func NewSpec(name string, gpus, most int, per sched.Amount) (job.Spec, error) {
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

// mask is a set of an agent's GPUs, by index.
type mask uint64

func full(gpus int) mask { return mask(1)<<gpus - 1 }

func (m mask) count() int { return bits.OnesCount64(uint64(m)) }
