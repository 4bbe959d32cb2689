package cli

import (
	"testing"
	"time"

	"mesos-gpu/framework/api"
)

// TestStartEstimateTexts: estimates are times from now, and a start that is overdue is expected now.
func TestStartEstimateTexts(t *testing.T) {
	now := time.Now()
	e := &api.StartEstimate{
		Expected: now.Add(2 * time.Hour),
		Within50: api.TimeRange{From: now.Add(time.Hour), To: now.Add(3 * time.Hour)},
		Within90: api.TimeRange{From: now.Add(-time.Hour), To: now.Add(5 * time.Hour)},
	}
	if got, want := FormatStartEstimate(e, now), "in 2h00m (0s to 5h00m)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := FormatStartEstimate(&api.StartEstimate{Expected: now.Add(-time.Minute)}, now); got != "now (0s to 0s)" {
		t.Errorf("an overdue start is %q", got)
	}
	if got := FormatStartEstimate(nil, now); got != "-" {
		t.Errorf("without an estimate got %q", got)
	}
}
