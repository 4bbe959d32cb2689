package leader

import (
	"context"
	"sync/atomic"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/forecast"
	"mesos-gpu/job"
)

// startEstimateLifetime is how long estimates of the queue are reused. They are computed outside the loop, from what the
// loop copies; a long queue takes a second.
const startEstimateLifetime = 10 * time.Second

// startEstimateCache keeps the estimates of the queue.
type startEstimateCache struct {
	// computing has an element while estimates are computed, so that concurrent requests compute them once.
	computing chan struct{}
	// last are the latest estimates, nil before the first.
	last atomic.Pointer[startEstimates]
	// changed is when a request last changed what the estimates depend on, in nanoseconds since 1970.
	changed atomic.Int64
}

func newStartEstimateCache() *startEstimateCache {
	return &startEstimateCache{computing: make(chan struct{}, 1)}
}

// forget notes that a request changes the jobs or the agents at a time: estimates that were made before are computed again,
// so that an edited job does not show the estimate of its earlier specification. A submission is noticed by its time.
func (c *startEstimateCache) forget(now time.Time, e sched.Event) {
	switch e.(type) {
	case sched.SubmitJob, sched.PutDocument:
	default:
		c.changed.Store(now.UnixNano())
	}
}

// latest returns the latest estimates, and whether they are recent, contain a job that was submitted at newest, and were
// made after the last change.
func (c *startEstimateCache) latest(now, newest time.Time) (e startEstimates, current bool) {
	if last := c.last.Load(); last != nil {
		e = *last
	}
	return e, now.Sub(e.made).Abs() <= startEstimateLifetime && newest.Before(e.made) && c.changed.Load() < e.made.UnixNano()
}

// startEstimates are estimates made at a time, by run; those of jobs that are not submitted have the number 0. They are replaced, never modified.
type startEstimates struct {
	// made is the time of the State from which they were computed. The times in jobs count from it.
	made time.Time
	jobs map[job.RunID]forecast.Start
}

// of returns the estimate of a run, nil if it has none.
func (e startEstimates) of(run job.RunID) *api.StartEstimate {
	s, ok := e.jobs[run]
	if !ok {
		return nil
	}
	between := func(low, high time.Duration) api.TimeRange {
		return api.TimeRange{From: e.made.Add(low).UTC(), To: e.made.Add(high).UTC()}
	}
	return &api.StartEstimate{
		Expected: e.made.Add(s.Expected).UTC(),
		Within50: between(s.Low50, s.High50),
		Within90: between(s.Low90, s.High90),
		Agents:   s.Agents,
	}
}

// estimateStarts returns the estimates of all waiting jobs, of which the newest was submitted at a time: estimates that
// were made before it lack that job and are computed again. It returns earlier ones if ctx ends or the loop does not
// answer: a list without estimates is better than an error.
func (l *Leader) estimateStarts(ctx context.Context, newest time.Time) startEstimates {
	c := l.startEstimates
	last, current := c.latest(l.loop.clock(), newest)
	if current {
		return last
	}
	select {
	case c.computing <- struct{}{}:
		defer func() { <-c.computing }()
	case <-ctx.Done():
		return last
	}
	if last, current = c.latest(l.loop.clock(), newest); current {
		return last // another request has computed them meanwhile
	}
	e, err := l.computeStarts(ctx)
	if err != nil {
		return last
	}
	c.last.Store(&e)
	// Only the bounds of later estimates depend on it.
	_ = l.runInLoop(ctx, nil, func(st *sched.State) error {
		st.KeepEstimates(e.made, e.jobs)
		return nil
	})
	return e
}

// computeStarts computes estimates of the queue with more jobs in it, as if they were submitted now. The loop only copies
// what is needed; the computation runs in the caller's goroutine.
func (l *Leader) computeStarts(ctx context.Context, more ...*job.Spec) (e startEstimates, err error) {
	var in forecast.Input
	err = l.runInLoop(ctx, nil, func(st *sched.State) error {
		in, _ = st.ForecastInput(more...)
		e.made = l.loop.clock()
		return nil
	})
	if err == nil {
		e.jobs = in.Starts()
	}
	return e, err
}

// EstimateStart estimates when a job would start if it were submitted now; nil if no estimate is possible.
func (l *Leader) EstimateStart(ctx context.Context, spec *job.Spec) (*api.StartEstimate, error) {
	e, err := l.computeStarts(ctx, spec)
	if err != nil {
		return nil, err
	}
	return e.of(job.RunID{Name: spec.Name}), nil
}
