package cli

import (
	"fmt"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/term"
)

// FormatStartEstimate returns, for example, "in 2h (1h to 5h)", with the bounds of 90 %, or "-" without an estimate.
func FormatStartEstimate(e *api.StartEstimate, now time.Time) string {
	if e == nil {
		return "-"
	}
	return fmt.Sprintf("%s (%s)", formatTimeUntil(e.Expected, now), formatRange(e.Within90, now))
}

// NeverStarts replaces the estimate of a job that cannot start on the present agents.
const NeverStarts = "not with the present agents"

// DescribeStartEstimate returns an estimate as a sentence, with both bounds.
func DescribeStartEstimate(e *api.StartEstimate, now time.Time) string {
	return fmt.Sprintf("probably %s, at %s: 50 %% after %s, 90 %% after %s", formatTimeUntil(e.Expected, now),
		term.FormatTime(e.Expected), formatRange(e.Within50, now), formatRange(e.Within90, now))
}

func formatTimeUntil(t, now time.Time) string {
	if d := t.Sub(now); d >= time.Second {
		return "in " + term.FormatDuration(d)
	}
	return "now"
}

func formatRange(r api.TimeRange, now time.Time) string {
	format := func(t time.Time) string {
		if d := t.Sub(now); d >= time.Second {
			return term.FormatDuration(d)
		}
		return "0s"
	}
	return fmt.Sprintf("%s to %s", format(r.From), format(r.To))
}
