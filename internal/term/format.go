package term

import (
	"fmt"
	"strings"
	"time"
)

func FormatTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format(time.RFC3339)
}

func DashIfEmpty(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

const day = 24 * time.Hour

// FormatAge formats the time since t in one unit.
func FormatAge(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	switch d := time.Since(t); {
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", int(d.Minutes()))
	case d < day:
		return fmt.Sprintf("%dh ago", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd ago", int(d.Hours()/24))
	}
}

// FormatDuration formats a duration in its two largest units, such as "3m05s", and below
// 10 s with one decimal.
func FormatDuration(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 9950*time.Millisecond:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < day:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%dh", int(d.Hours()/24), int(d.Hours())%24)
	}
}

// FormatBytes returns a size in the largest unit that fits, such as "12 bytes" or "1.5 MiB".
func FormatBytes(bytes int64) string {
	if bytes < 1<<10 {
		return fmt.Sprintf("%d bytes", bytes)
	}
	size, unit := float64(bytes)/(1<<10), 0
	for ; size >= 1023.95 && unit < 3; unit++ { // printed as 1024
		size /= 1 << 10
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", size), ".0") + [...]string{" KiB", " MiB", " GiB", " TiB"}[unit]
}

func FormatMiB(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
