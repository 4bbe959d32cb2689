package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
)

// whole is one GPU in thousandths.
const whole = 1000

// Agent is one of a recorded cluster. Its GPUs are of one model.
type Agent struct {
	Name     string
	CPUMilli int64
	MemMiB   int64
	GPUs     int
	Model    string
}

// Task is a recorded one.
type Task struct {
	Name     string
	CPUMilli int64
	MemMiB   int64
	GPUs     int
	// GPUMilli are the thousandths it takes of each GPU: 1,000, or less of
	// one that it shares; 0 without GPUs.
	GPUMilli int
	// Models are those it may run on; none means any.
	Models []string
	// Arrives and Leaves count from the trace's begin. Both are 0 where the
	// trace tells no times.
	Arrives, Leaves time.Duration
}

// Trace is a cluster and the tasks that it is to run.
type Trace struct {
	Agents []Agent // by name
	Tasks  []Task  // by name
}

// NewTrace sorts both lists. It refuses names that come twice, and a cluster
// without GPUs.
func NewTrace(agents []Agent, tasks []Task) (*Trace, error) {
	t := &Trace{Agents: slices.Clone(agents), Tasks: slices.Clone(tasks)}
	slices.SortStableFunc(t.Agents, func(a, b Agent) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortStableFunc(t.Tasks, func(a, b Task) int { return cmp.Compare(a.Name, b.Name) })
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
	case t.GPUs() == 0:
		return nil, fmt.Errorf("the %d agents have no GPUs", len(agents))
	case !slices.ContainsFunc(tasks, func(t Task) bool { return t.milli() > 0 }):
		return nil, fmt.Errorf("none of the %d tasks wants a GPU", len(tasks))
	}
	return t, nil
}

// GPUs counts those of all agents.
func (t *Trace) GPUs() int {
	n := 0
	for i := range t.Agents {
		n += t.Agents[i].GPUs
	}
	return n
}

// milli are the GPU thousandths that a task takes in all.
func (t *Task) milli() int64 { return int64(t.GPUs) * int64(t.GPUMilli) }

// demand is the task in the scheduler's terms.
func (t *Task) demand() fit.Demand {
	d := fit.Demand{
		Job:     t.Name,
		Amount:  fit.Amount{CPUs: float64(t.CPUMilli) / 1000, MemMiB: float64(t.MemMiB)},
		Request: gpu.Request{GPUs: t.GPUs, Types: gpu.Types{Include: t.Models}},
	}
	if t.GPUs == 1 && t.GPUMilli < whole {
		d.Request.Share = fit.Thousandths(t.GPUMilli)
	}
	return d
}

// offer is the agent in the scheduler's terms, all of it free.
func (a *Agent) offer() fit.Agent {
	f := fit.Agent{
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
