package forecast

import (
	"testing"
	"time"
)

// TestCalibrationWidensBounds: once jobs have started half as late to three times as late as expected, the bounds say so.
func TestCalibrationWidensBounds(t *testing.T) {
	var c Calibration
	s := Start{Expected: time.Hour, Low50: time.Hour, High50: time.Hour, Low90: time.Hour, High90: time.Hour}
	for i := range 2 * maxRatios {
		if i == minRatios-1 && c.widen(s) != s {
			t.Errorf("with %d earlier estimates got %+v", i, c.widen(s))
		}
		c.AddStart(time.Hour, 30*time.Minute+time.Duration(i%101)*90*time.Second)
	}
	got := c.widen(s)
	isNear := func(d, want time.Duration) bool { return (d - want).Abs() < 5*time.Minute }
	if !isNear(got.Low50, time.Hour) || !isNear(got.High50, 142*time.Minute) || !isNear(got.Low90, 37*time.Minute) || !isNear(got.High90, 172*time.Minute) {
		t.Errorf("got %+v", got)
	}
	if len(c.ratios) != maxRatios {
		t.Errorf("%d errors are kept", len(c.ratios))
	}
	if got := (*Calibration)(nil).widen(s); got != s {
		t.Errorf("without calibration got %+v", got)
	}
}
