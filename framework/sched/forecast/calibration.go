package forecast

import (
	"math"
	"slices"
	"time"
)

// Calibration has how far earlier estimates were off. The playback knows neither the jobs that are submitted later nor
// other errors of its model, so its own bounds are too narrow: once enough estimates were compared with the real starts,
// the bounds follow from these.
type Calibration struct {
	// ratios are the logarithms of real waits divided by expected ones, the oldest first.
	ratios []float64
}

const (
	// maxRatios is the number of errors that are kept, minRatios that from which they are used.
	maxRatios, minRatios = 200, 20
	// shortWait is added to both waits, so that seconds do not count where the wait is short.
	shortWait = time.Minute
)

// AddStart adds the real wait of a job and the one that was expected.
func (c *Calibration) AddStart(expected, real time.Duration) {
	if len(c.ratios) == maxRatios {
		c.ratios = slices.Delete(c.ratios, 0, 1)
	}
	c.ratios = append(c.ratios, math.Log(float64(max(real, 0)+shortWait)/float64(expected+shortWait)))
}

// Clone returns a copy.
func (c *Calibration) Clone() *Calibration { return &Calibration{ratios: slices.Clone(c.ratios)} }

// widen returns the estimate with bounds that would have held for the earlier ones. They contain the expected wait.
func (c *Calibration) widen(s Start) Start {
	if c == nil || len(c.ratios) < minRatios {
		return s
	}
	sorted := slices.Sorted(slices.Values(c.ratios))
	bound := func(quantile float64) time.Duration {
		ratio := math.Exp(sorted[int(quantile*float64(len(sorted)-1)+0.5)])
		wait := math.Min(ratio*float64(s.Expected+shortWait), float64(math.MaxInt64/4))
		return max(time.Duration(wait)-shortWait, 0).Round(time.Second)
	}
	s.Low50, s.High50 = min(bound(0.25), s.Expected), max(bound(0.75), s.Expected)
	s.Low90, s.High90 = min(bound(0.05), s.Low50), max(bound(0.95), s.High50)
	return s
}
