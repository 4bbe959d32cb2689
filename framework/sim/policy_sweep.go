package sim

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// PolicySweep runs a trace under each policy with each seed.
type PolicySweep struct {
	Trace    *ClusterTrace
	Policies []string
	Seeds    []int64
	// Queue is how many tasks may wait; below 2 none waits.
	Queue int
	// SkipBounds leaves the bounds out of the results.
	SkipBounds bool
	// Workers is how many runs proceed at once; below 1 means one.
	Workers int
	// StepDone, if not nil, is called after each step, by one goroutine at a time.
	StepDone func()
}

// CountSteps returns the number of runs and bounds to compute.
func (s *PolicySweep) CountSteps() int {
	n := len(s.Policies) * len(s.Seeds)
	if s.hasBounds() {
		n += len(s.Seeds)
	}
	return n
}

// hasBounds reports whether bounds are computed. With a queue the policy decides which tasks have arrived, so that each
// would have its own bound.
func (s *PolicySweep) hasBounds() bool { return s.Queue < 2 && !s.SkipBounds }

// Run runs everything and returns one result for each policy, in their order. It stops between runs when ctx ends, with
// its error.
func (s *PolicySweep) Run(ctx context.Context) ([]PolicyResult, error) {
	for _, policy := range s.Policies {
		if err := ValidatePolicyName(policy); err != nil {
			return nil, err
		}
	}
	if len(s.Seeds) == 0 {
		return nil, errors.New("no seeds to run")
	}
	typical := s.Trace.TypicalTasks()
	n := s.CountSteps()
	runs, took := make([]*SeedRun, len(s.Policies)*len(s.Seeds)), make([]time.Duration, len(s.Policies)*len(s.Seeds))
	bounds := make([]map[int]float64, n-len(runs))
	step := func(i int) {
		seed := s.Seeds[i%len(s.Seeds)]
		if i >= len(runs) {
			bounds[i-len(runs)] = s.Trace.AllocationBounds(seed)
			return
		}
		begin := time.Now()
		runs[i] = s.Trace.RunSeed(s.Policies[i/len(s.Seeds)], typical, seed, s.Queue)
		took[i] = time.Since(begin)
	}
	var (
		group sync.WaitGroup
		begun atomic.Int64 // steps
		mu    sync.Mutex
	)
	for range max(1, min(s.Workers, n)) {
		group.Go(func() {
			for ctx.Err() == nil {
				i := int(begun.Add(1)) - 1
				if i >= n {
					return
				}
				step(i)
				if s.StepDone != nil {
					mu.Lock()
					s.StepDone()
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return s.collectResults(runs, took, bounds), nil
}

// collectResults summarizes the runs, which are in the order of policies and then of seeds. took is the time of each run.
func (s *PolicySweep) collectResults(runs []*SeedRun, took []time.Duration, bounds []map[int]float64) []PolicyResult {
	bound := meanByArrival(bounds)
	var list []PolicyResult
	for p, policy := range s.Policies {
		from, to := p*len(s.Seeds), (p+1)*len(s.Seeds)
		r := summarizeRuns(s.Trace, policy, runs[from:to])
		r.Queue, r.Bound = s.Queue, bound
		all := time.Duration(0)
		for _, d := range took[from:to] {
			all += d
		}
		r.DecisionsPerSecond = float64(r.Decisions) / max(all, 1).Seconds()
		list = append(list, r)
	}
	return list
}
