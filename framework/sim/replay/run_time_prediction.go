package replay

import (
	"math"
	"slices"
	"time"
)

// RunTimeSource is where the run times come from that the scheduler sees.
type RunTimeSource string

const (
	// RunTimeGiven is what the job declares: the default.
	RunTimeGiven RunTimeSource = "given"
	// RunTimePredicted is what the job declares, else a prediction from similar jobs that have ended.
	RunTimePredicted RunTimeSource = "predicted"
	// RunTimeExact is the real run time, which no scheduler knows.
	RunTimeExact RunTimeSource = "exact"
)

// historyLength is how many ended similar jobs a prediction is the median of. A short history works best, because users
// submit similar jobs in a row.
const historyLength = 5

// runTimeHistory is the run times of the last jobs of each kind. Only the replay predicts; the scheduler does not.
type runTimeHistory struct {
	// last are the latest run times of jobs that are alike, the oldest first.
	last map[string][]time.Duration
	// errors are |log2(predicted/real)| of the predicted jobs.
	errors []float32
}

func newRunTimeHistory() *runTimeHistory { return &runTimeHistory{last: map[string][]time.Duration{}} }

func (h *runTimeHistory) addRunTime(like string, ran time.Duration) {
	list := append(h.last[like], ran)
	if len(list) > historyLength {
		list = slices.Delete(list, 0, 1)
	}
	h.last[like] = list
}

// predictRunTime returns the median of the last run times, or 0 without any.
func (h *runTimeHistory) predictRunTime(like string) time.Duration {
	list := slices.Sorted(slices.Values(h.last[like]))
	if len(list) == 0 {
		return 0
	}
	return max(list[len(list)/2], time.Second).Round(time.Second)
}

// predictRunTime returns the run time to add to a job's Spec, 0 for none.
func (r *jobReplay) predictRunTime(l *liveJob) time.Duration {
	switch {
	case r.cfg.RunTimes == RunTimeExact:
		return max(l.longestRun(), time.Second)
	case r.cfg.RunTimes != RunTimePredicted || l.Spec.RunTime > 0:
		return 0
	}
	p := r.history.predictRunTime(l.similarityKey())
	if real := l.longestRun(); p > 0 && real > 0 {
		r.history.errors = append(r.history.errors, float32(math.Abs(math.Log2(float64(p)/float64(real)))))
	}
	return p
}
