package replay

import (
	"math"
	"time"

	"mesos-gpu/framework/sched/forecast"
	"mesos-gpu/job"
)

// RunTimeSource is where the run times come from that the scheduler sees.
type RunTimeSource string

const (
	// RunTimeGiven uses the run time that the job declares: the default.
	RunTimeGiven RunTimeSource = "given"
	// RunTimePredicted uses the declared run time, or the scheduler's prediction from similar jobs that have ended.
	RunTimePredicted RunTimeSource = "predicted"
	// RunTimeExact uses the real run time, which no scheduler knows.
	RunTimeExact RunTimeSource = "exact"
)

// declareRunTime returns the run time to add to a job's Spec, 0 for none. It records the error of a prediction.
func (r *jobReplay) declareRunTime(l *liveJob) time.Duration {
	switch {
	case r.cfg.RunTimes == RunTimeExact:
		return max(l.runTimes.longest(), time.Second)
	case r.cfg.RunTimes == RunTimePredicted && l.spec.RunTime == 0:
		p, real := r.state.PredictRunTime(l.spec), l.runTimes.longest()
		if l.predicted = p; p > 0 && real > 0 {
			r.result.predictionErrors = append(r.result.predictionErrors, float32(math.Abs(math.Log2(float64(p)/float64(real)))))
		}
	}
	return 0
}

// estimateStart estimates when a waiting job starts, for every nth such job.
func (r *jobReplay) estimateStart(l *liveJob) {
	if r.cfg.EstimateEvery == 0 || l.started || r.jobs[l.spec.Name] == nil {
		return
	}
	if r.estimateNext++; r.estimateNext%r.cfg.EstimateEvery != 0 {
		return
	}
	if in, ok := r.state.ForecastInput(); ok {
		run := job.RunID{Name: l.spec.Name, Run: 1}
		if e, ok := in.Starts()[run]; ok {
			l.estimate = &startEstimate{r.now, e}
			r.state.KeepEstimates(epoch().Add(r.now), map[job.RunID]forecast.Start{run: e})
		}
	}
}
