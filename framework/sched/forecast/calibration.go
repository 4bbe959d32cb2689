package forecast

import (
	"math"
	"slices"
	"time"
)

// Calibration has how far earlier estimates were off. Bounds follow from these errors, not from the spread of the
// playbacks: jobs that are submitted later and other errors of the model are in none of them.
type Calibration struct {
	// ratios are the logarithms of real waits divided by expected ones, the oldest first.
	ratios []float64
}

const (
	// maxRatios is the number of errors that are kept. Below minRatios, assumed ones are added.
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
func (c *Calibration) Clone() Calibration { return Calibration{ratios: slices.Clone(c.ratios)} }

// sortedRatios returns the ratios in order, and assumed ones as long as there are few: a wait is at least f times longer, or
// shorter, than expected with the probability 1/f. On the record of Philly the bounds would be about these.
func (c *Calibration) sortedRatios() []float64 {
	ratios := slices.Clone(c.ratios)
	n := max(minRatios-len(ratios), 0)
	for i := range n {
		p := (float64(i) + 0.5) / float64(n)
		ratios = append(ratios, math.Copysign(-math.Log(1-math.Abs(2*p-1)), p-0.5))
	}
	slices.Sort(ratios)
	return ratios
}

// boundStart returns an expected wait with bounds that would have held for earlier jobs. ratios is the result of
// sortedRatios. The bounds contain the expected wait.
func boundStart(expected time.Duration, ratios []float64) Start {
	bound := func(quantile float64) time.Duration {
		ratio := math.Exp(ratios[int(quantile*float64(len(ratios)-1)+0.5)])
		wait := math.Min(ratio*float64(expected+shortWait), float64(math.MaxInt64/4))
		return max(time.Duration(wait)-shortWait, 0).Round(time.Second)
	}
	s := Start{Expected: expected, Low50: min(bound(0.25), expected), High50: max(bound(0.75), expected)}
	s.Low90, s.High90 = min(bound(0.05), s.Low50), max(bound(0.95), s.High50)
	return s
}
