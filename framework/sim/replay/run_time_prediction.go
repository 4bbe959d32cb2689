package replay

import (
	"math"
	"slices"
	"time"
)

// RunTimeSource says how long the scheduler is told that a job runs.
type RunTimeSource string

const (
	// RunTimeGiven is what the job itself says: the default.
	RunTimeGiven RunTimeSource = "given"
	// RunTimePredicted is what the job says, else what is made of those like it that
	// have ended.
	RunTimePredicted RunTimeSource = "predicted"
	// RunTimeExact is how long it will run: what nobody knows.
	RunTimeExact RunTimeSource = "exact"
)

// historyLength is how many ended jobs of a kind a prediction is made of: their
// median. Few are best where people submit alike jobs in a row.
const historyLength = 5

// runTimeHistory is how long the last jobs of each kind ran. It is the replay's, the
// scheduler predicts nothing.
type runTimeHistory struct {
	last map[string][]time.Duration
	// errors are |log2(predicted/real)| of the jobs that were predicted.
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

// predictRunTime is the median of the last; 0 where there is none.
func (h *runTimeHistory) predictRunTime(like string) time.Duration {
	list := slices.Sorted(slices.Values(h.last[like]))
	if len(list) == 0 {
		return 0
	}
	return max(list[len(list)/2], time.Second).Round(time.Second)
}

// predictRunTime is what the scheduler is told of a job; 0 is nothing more than
// what its Spec says.
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
