package forecast

import (
	"testing"
	"time"
)

// TestBoundsFollowFromEarlierEstimates: without earlier estimates a wait may be half or twice as long as expected; once jobs have
// started half as late to three times as late as expected, the bounds say so.
func TestBoundsFollowFromEarlierEstimates(t *testing.T) {
	var c Calibration
	requireBounds := func(low90, low50, high50, high90 int) {
		t.Helper()
		got := boundStart(time.Hour, c.sortedRatios())
		isNear := func(d time.Duration, minutes int) bool {
			return (d - time.Duration(minutes)*time.Minute).Abs() < 5*time.Minute
		}
		if got.Expected != time.Hour || !isNear(got.Low90, low90) || !isNear(got.Low50, low50) || !isNear(got.High50, high50) || !isNear(got.High90, high90) {
			t.Errorf("with %d earlier estimates got %+v", len(c.ratios), got)
		}
	}
	requireBounds(8, 32, 110, 405)
	for range minRatios / 2 {
		c.AddStart(time.Hour, time.Hour)
	}
	requireBounds(17, 60, 60, 202)
	for i := range 2 * maxRatios {
		c.AddStart(time.Hour, 30*time.Minute+time.Duration(i%101)*90*time.Second)
	}
	requireBounds(37, 60, 142, 172)
	if len(c.ratios) != maxRatios {
		t.Errorf("%d errors are kept", len(c.ratios))
	}
}
