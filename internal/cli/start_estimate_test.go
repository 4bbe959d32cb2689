package cli

import (
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/term"
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
	for hosts, want := range map[string]string{
		"": ":", "n1": ", on n1:", "n1 n2": ", on n1 and n2:", "n1 n2 n3 n4": ", on n1, n2, n3 and n4:", "n1 n2 n3 n4 n5": ", on n1, n2, n3 and 2 more:",
	} {
		e.Agents = strings.Fields(hosts)
		want = "probably in 2h00m, at " + term.FormatTime(e.Expected) + want + " 50 % after 1h00m to 3h00m, 90 % after 0s to 5h00m"
		if got := DescribeStartEstimate(e, now); got != want {
			t.Errorf("on %q got %q, want %q", hosts, got, want)
		}
	}
	if got := FormatStartEstimate(nil, now); got != "-" {
		t.Errorf("without an estimate got %q", got)
	}
}
