package starts

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// startTimes collects how long the starts of one launcher took.
type startTimes struct {
	name string
	mu   sync.Mutex
	all  []time.Duration
}

func (t *startTimes) add(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, d)
}

// percentile returns the given percentile of the times.
func (t *startTimes) percentile(percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(t.all))
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}

// reportComparison logs the percentiles of all launchers. For each of the others it also logs
// the ratio of first's time to its time, and the difference.
func reportComparison(b *testing.B, title string, first *startTimes, others ...*startTimes) {
	b.Helper()
	var out strings.Builder
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		b.Fatal(err)
	}
	fmt.Fprintf(&out, "%s, %d starts each, on %d CPUs under a load of %s:\n", title, len(first.all), runtime.NumCPU(), strings.Fields(string(load))[0])
	for _, t := range append([]*startTimes{first}, others...) {
		fmt.Fprintf(&out, "  %-34s p50 %7.1f ms  p99 %7.1f ms", t.name, milliseconds(t.percentile(50)), milliseconds(t.percentile(99)))
		if t != first {
			fmt.Fprintf(&out, "   ratio %.2f, %.2f   over it %+.1f ms, %+.1f ms", ratioAtPercentile(first, t, 50),
				ratioAtPercentile(first, t, 99), milliseconds(first.percentile(50)-t.percentile(50)),
				milliseconds(first.percentile(99)-t.percentile(99)))
		}
		out.WriteByte('\n')
	}
	b.Log(out.String())
}

func ratioAtPercentile(first, other *startTimes, percent int) float64 {
	return float64(first.percentile(percent)) / float64(other.percentile(percent))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// requireWithin fails the benchmark if first takes longer than other by more than p50 at the
// median or p99 at the 99th percentile.
func requireWithin(b *testing.B, first, other *startTimes, p50, p99 time.Duration) {
	b.Helper()
	for _, limit := range []struct {
		percent int
		most    time.Duration
	}{{50, p50}, {99, p99}} {
		over := first.percentile(limit.percent) - other.percentile(limit.percent)
		b.ReportMetric(milliseconds(over), fmt.Sprintf("ms-over-p%d", limit.percent))
		if over > limit.most {
			b.Errorf("p%d: %s takes %s longer than %s, want at most %s", limit.percent, first.name, over, other.name, limit.most)
		}
	}
}
