package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
)

// milliPerGPU is one GPU in thousandths.
const milliPerGPU = 1000

// RecordedAgent is an agent of a recorded cluster. Its GPUs are of one model.
type RecordedAgent struct {
	Name string
	// CPUMilli are thousandths of CPUs. All amounts are in total.
	CPUMilli int64
	MemMiB   int64
	GPUs     int
	Model    string
	// RDMA is 100 for each network card, of which tasks take percentages.
	RDMA int64
}

// RecordedTask is a task of a trace.
type RecordedTask struct {
	Name string
	// CPUMilli are thousandths of CPUs; GPUs is the number of devices that it uses.
	CPUMilli int64
	MemMiB   int64
	GPUs     int
	// GPUMilli is the part of each GPU that the task takes, in thousandths: 1000, or less for a share of one GPU; 0 without
	// GPUs.
	GPUMilli int
	// Models are the GPU models on which it may run; none means any.
	Models []string
	// Arrives and Leaves count from the start of the trace. Both are 0 if the trace has no times.
	Arrives, Leaves time.Duration
}

// ClusterTrace is a cluster and the tasks to run on it. Runs only read it, so that several may use it at the same time.
type ClusterTrace struct {
	Agents []RecordedAgent // by name
	Tasks  []RecordedTask  // by name
}

// NewTrace sorts both lists by name. It rejects duplicate names and a cluster without GPUs.
func NewTrace(agents []RecordedAgent, tasks []RecordedTask) (*ClusterTrace, error) {
	t := &ClusterTrace{Agents: slices.Clone(agents), Tasks: slices.Clone(tasks)}
	slices.SortStableFunc(t.Agents, func(a, b RecordedAgent) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortStableFunc(t.Tasks, func(a, b RecordedTask) int { return cmp.Compare(a.Name, b.Name) })
	for i := 1; i < len(t.Agents); i++ {
		if t.Agents[i].Name == t.Agents[i-1].Name {
			return nil, fmt.Errorf("two agents are named %q", t.Agents[i].Name)
		}
	}
	for i := 1; i < len(t.Tasks); i++ {
		if t.Tasks[i].Name == t.Tasks[i-1].Name {
			return nil, fmt.Errorf("two tasks are named %q", t.Tasks[i].Name)
		}
	}
	switch {
	case t.CountGPUs() == 0:
		return nil, fmt.Errorf("the %d agents have no GPUs", len(agents))
	case !slices.ContainsFunc(tasks, func(t RecordedTask) bool { return t.totalMilli() > 0 }):
		return nil, fmt.Errorf("none of the %d tasks requests a GPU", len(tasks))
	}
	return t, nil
}

// CountGPUs returns the number of GPUs of all agents.
func (t *ClusterTrace) CountGPUs() int {
	n := 0
	for i := range t.Agents {
		n += t.Agents[i].GPUs
	}
	return n
}

// totalMilli returns the thousandths of GPUs that a task takes in all.
func (t *RecordedTask) totalMilli() int64 { return int64(t.GPUs) * int64(t.GPUMilli) }

// fitDemand converts the task to the scheduler's type.
func (t *RecordedTask) fitDemand() fit.Demand {
	d := fit.Demand{
		Job:     t.Name,
		Amount:  fit.Amount{CPUs: float64(t.CPUMilli) / 1000, MemMiB: float64(t.MemMiB)},
		Request: gpu.Request{GPUs: t.GPUs, Types: gpu.TypeSelector{Include: t.Models}},
	}
	if t.GPUs == 1 && t.GPUMilli < milliPerGPU {
		d.Request.Share = fit.MilliShare(t.GPUMilli)
	}
	return d
}

// fitAgent converts the agent, with all resources free, to the scheduler's type.
func (a *RecordedAgent) fitAgent() fit.AgentResources {
	f := fit.AgentResources{
		ID: a.Name, GPUs: a.GPUs, TotalGPUs: a.GPUs, Types: []string{a.Model}, Divisible: true,
		Free: fit.Amount{CPUs: float64(a.CPUMilli) / 1000, MemMiB: float64(a.MemMiB)},
	}
	for g := range a.GPUs {
		d := gpu.Device{UUID: fmt.Sprintf("GPU-%s-%d", a.Name, g), Model: a.Model, Minor: g, NUMA: -1}
		f.Inventory = append(f.Inventory, d)
		f.DeviceIDs = append(f.DeviceIDs, d.UUID)
	}
	return f
}
