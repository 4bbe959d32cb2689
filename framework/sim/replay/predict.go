package replay

import (
	"math"
	"slices"
	"time"
)

// RunTimes says how long the scheduler is told that a job runs.
type RunTimes string

const (
	// AsGiven is what the job itself says: the default.
	AsGiven RunTimes = "given"
	// Predicted is what the job says, else what is made of those like it that
	// have ended.
	Predicted RunTimes = "predicted"
	// Exact is how long it will run: what nobody knows.
	Exact RunTimes = "exact"
)

// remembered is how many ended jobs of a kind a prediction is made of: their
// median. Few are best where people submit alike jobs in a row.
const remembered = 5

// history is how long the last jobs of each kind ran. It is the replay's, the
// scheduler predicts nothing.
type history struct {
	last map[string][]time.Duration
	// off are |log2(predicted/real)| of the jobs that were predicted.
	off []float32
}

func newHistory() *history { return &history{last: map[string][]time.Duration{}} }

func (h *history) learn(like string, ran time.Duration) {
	list := append(h.last[like], ran)
	if len(list) > remembered {
		list = slices.Delete(list, 0, 1)
	}
	h.last[like] = list
}

// predict is the median of the last; 0 where there is none.
func (h *history) predict(like string) time.Duration {
	list := slices.Sorted(slices.Values(h.last[like]))
	if len(list) == 0 {
		return 0
	}
	return max(list[len(list)/2], time.Second).Round(time.Second)
}

// foretell is what the scheduler is told of a job; 0 is nothing more than
// what its Spec says.
func (r *replay) foretell(l *live) time.Duration {
	switch {
	case r.cfg.RunTimes == Exact:
		return max(l.longest(), time.Second)
	case r.cfg.RunTimes != Predicted || l.Spec.RunTime > 0:
		return 0
	}
	p := r.history.predict(l.like())
	if real := l.longest(); p > 0 && real > 0 {
		r.history.off = append(r.history.off, float32(math.Abs(math.Log2(float64(p)/float64(real)))))
	}
	return p
}
