package replay

import (
	"slices"
	"time"

	"mesos-gpu/framework/sched/forecast"
)

// startEstimate is an estimate of the start of a job, made at a time.
type startEstimate struct {
	made time.Duration
	forecast.Start
}

// EstimateError is the error of estimated starts of jobs that waited, in seconds.
type EstimateError struct {
	Jobs int `json:"jobs"`
	// Median and P90 are the median and the 90th percentile of the difference between the estimated and the real start.
	// MedianWait is the median of the real waits.
	Median     float64 `json:"median"`
	P90        float64 `json:"p90"`
	MedianWait float64 `json:"median_wait"`
	// Within50 and Within90 are the percentages of jobs that started within the bounds of 50 and 90 %, Before90 that of
	// those which started before the upper bound of 90 %.
	Within50 float64 `json:"within_50"`
	Within90 float64 `json:"within_90"`
	Before90 float64 `json:"before_upper_90"`
}

// estimateErrors collects the errors of estimates.
type estimateErrors struct {
	// errors and waits are in seconds, one for each estimate whose job has started.
	errors, waits []float64
	// within50, within90 and before90 count the starts within the bounds of the estimate.
	within50, within90, before90 int
}

// countEstimate compares a job's estimated start with the real one.
func (r *ReplayResult) countEstimate(l *liveJob) {
	if l.estimate == nil {
		return
	}
	wait := l.start - l.estimate.made
	e := &r.estimates
	e.errors = append(e.errors, (l.estimate.Expected - wait).Abs().Seconds())
	e.waits = append(e.waits, wait.Seconds())
	isBetween := func(low, high time.Duration) bool { return low <= wait && wait <= high }
	if isBetween(l.estimate.Low50, l.estimate.High50) {
		e.within50++
	}
	if isBetween(l.estimate.Low90, l.estimate.High90) {
		e.within90++
	}
	if wait <= l.estimate.High90 {
		e.before90++
	}
}

// merge adds the errors of another cluster.
func (e *estimateErrors) merge(o *estimateErrors) {
	e.errors, e.waits = append(e.errors, o.errors...), append(e.waits, o.waits...)
	e.within50, e.within90, e.before90 = e.within50+o.within50, e.within90+o.within90, e.before90+o.before90
}

// summarize returns nil if no start was estimated. It sorts the lists.
func (e *estimateErrors) summarize() *EstimateError {
	n := len(e.errors)
	if n == 0 {
		return nil
	}
	slices.Sort(e.errors)
	slices.Sort(e.waits)
	percent := func(count int) float64 { return 100 * float64(count) / float64(n) }
	return &EstimateError{
		Jobs: n, Median: e.errors[n/2], P90: e.errors[n*9/10], MedianWait: e.waits[n/2],
		Within50: percent(e.within50), Within90: percent(e.within90), Before90: percent(e.before90),
	}
}
