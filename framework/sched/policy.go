package sched

import (
	"cmp"
	"time"
)

// Candidate is an agent on which a task fits, as comparators see it.
type Candidate struct {
	AgentID string
	// HasGPUs tells an agent with GPUs, free or not, from one without.
	HasGPUs  bool
	FreeGPUs int
	FreeCPUs float64
}

// Comparator orders two candidates; negative means a is the better.
type Comparator func(a, b Candidate) int

// Policy says where tasks go. Place ranks the agents once a job and fills
// them in that order, so a comparator must not rank an agent lower for having
// taken a task.
type Policy struct {
	// GPU and CPU rank agents for tasks with and without GPUs. The first
	// comparator that tells two agents apart decides; the agent id comes last.
	GPU, CPU []Comparator
	// Overhead is what each task's executor needs beside the task.
	Overhead Amount
	// RefuseSoon keeps an offer away that a waiting job might use once more
	// is free on its agent; RefuseLong one that nothing waiting can use.
	RefuseSoon, RefuseLong time.Duration
}

// FewestGPUs prefers the agent with the fewest free GPUs: what is left free
// elsewhere then stays together for tasks that want many.
func FewestGPUs(a, b Candidate) int { return cmp.Compare(a.FreeGPUs, b.FreeGPUs) }

// FewestCPUs prefers the agent with the fewest free CPUs.
func FewestCPUs(a, b Candidate) int { return cmp.Compare(a.FreeCPUs, b.FreeCPUs) }

// WithoutGPUs prefers agents that have no GPUs at all.
func WithoutGPUs(a, b Candidate) int {
	switch {
	case a.HasGPUs == b.HasGPUs:
		return 0
	case b.HasGPUs:
		return -1
	default:
		return 1
	}
}

// BestFit is the default policy.
func BestFit() Policy {
	return Policy{
		GPU:        []Comparator{FewestGPUs, FewestCPUs},
		CPU:        []Comparator{WithoutGPUs, FewestGPUs, FewestCPUs},
		Overhead:   Amount{CPUs: 0.1, MemMiB: 32},
		RefuseSoon: 5 * time.Second,
		RefuseLong: time.Hour,
	}
}

func (p *Policy) compare(gpus bool, a, b *agent) int {
	table := p.CPU
	if gpus {
		table = p.GPU
	}
	x, y := a.candidate(), b.candidate()
	for _, c := range table {
		if d := c(x, y); d != 0 {
			return d
		}
	}
	return cmp.Compare(a.id, b.id)
}

func (a *agent) candidate() Candidate {
	return Candidate{AgentID: a.id, HasGPUs: a.hasGPUs(), FreeGPUs: a.freeGPUs(), FreeCPUs: float64(a.free.cpus) / 1000}
}
