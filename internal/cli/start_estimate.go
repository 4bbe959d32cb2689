package cli

import (
	"fmt"
	"strings"
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

// DescribeStartEstimate returns an estimate as a sentence, with both bounds and the agents.
func DescribeStartEstimate(e *api.StartEstimate, now time.Time) string {
	return fmt.Sprintf("probably %s, at %s%s: 50 %% after %s, 90 %% after %s", formatTimeUntil(e.Expected, now),
		term.FormatTime(e.Expected), describeHosts(e.Agents), formatRange(e.Within50, now), formatRange(e.Within90, now))
}

// maxNamedHosts is the number of hosts that an estimate names.
const maxNamedHosts = 4

// describeHosts returns ", on a, b and 3 more", or "" without hosts.
func describeHosts(hosts []string) string {
	switch n := len(hosts); {
	case n == 0:
		return ""
	case n == 1:
		return ", on " + hosts[0]
	case n <= maxNamedHosts:
		return ", on " + strings.Join(hosts[:n-1], ", ") + " and " + hosts[n-1]
	default:
		return fmt.Sprintf(", on %s and %d more", strings.Join(hosts[:maxNamedHosts-1], ", "), n-maxNamedHosts+1)
	}
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
