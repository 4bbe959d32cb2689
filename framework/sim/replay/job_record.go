package replay

import (
	"fmt"
	"math/bits"
	"time"

	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// maxGPUs limits the GPUs of one agent.
const maxGPUs = 64

// ReplayAgent is an agent of the cluster. Its GPUs are of one model.
type ReplayAgent struct {
	ID string
	// Has is the total that the agent offers; GPUs counts its devices.
	Has   sched.Amount
	GPUs  int
	Model string
	// RDMA is 100 for each network card, of which tasks take percentages.
	RDMA float64
}

// JobRecord is a recorded job.
type JobRecord struct {
	// Spec is the recorded specification. Its name is unique in the record.
	Spec job.Spec
	// ArrivesAt is the time of submission since the start of the record.
	ArrivesAt time.Duration
	// RunTimes is how long each task runs; one entry is for all tasks. A preempted task starts over.
	RunTimes TaskRunTimes
}

// TaskRunTimes is how long each task of a job runs; later tasks run as long as the last entry.
type TaskRunTimes []time.Duration

func (r TaskRunTimes) forTask(index int) time.Duration { return r[min(index, len(r)-1)] }

// longest returns how long the job runs if all its tasks start together.
func (r TaskRunTimes) longest() time.Duration {
	var most time.Duration
	for _, d := range r {
		most = max(most, d)
	}
	return most
}

// countGPUs returns the GPUs of all tasks, by which jobs are grouped into sizes.
func countGPUs(s *job.Spec) int { return s.Tasks * s.Request.GPUs }

// NewGangSpec returns a job of gpus GPUs on agents with at most most each: a gang of as few equal tasks as possible.
// Each task has the CPUs and memory that belong to its GPUs.
func NewGangSpec(name string, gpus, most int, per sched.Amount) (job.Spec, error) {
	tasks := 1
	for gpus > 0 && (gpus%tasks != 0 || gpus/tasks > most) {
		if tasks++; tasks > gpus {
			return job.Spec{}, fmt.Errorf("job %s requests %d GPUs, agents have none", name, gpus)
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

// deviceMask is a set of an agent's GPUs by index.
type deviceMask uint64

// fullMask returns the set of all GPUs of an agent. For 64 GPUs the shift overflows to all bits, as intended.
func fullMask(gpus int) deviceMask { return deviceMask(1)<<gpus - 1 }

// countDevices returns the number of GPUs in the set.
func (m deviceMask) countDevices() int { return bits.OnesCount64(uint64(m)) }
