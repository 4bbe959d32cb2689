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

// times are those of one way to start a task.
type times struct {
	name string
	mu   sync.Mutex
	all  []time.Duration
}

func (t *times) add(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, d)
}

// at is a percentile.
func (t *times) at(percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(t.all))
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}

// compare prints the ways side by side, each with its ratio to the first: how
// many times as long as that the first takes.
func compare(b *testing.B, title string, first *times, others ...*times) {
	b.Helper()
	var out strings.Builder
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		b.Fatal(err)
	}
	fmt.Fprintf(&out, "%s, %d starts each, on %d CPUs under a load of %s:\n", title, len(first.all), runtime.NumCPU(), strings.Fields(string(load))[0])
	for _, t := range append([]*times{first}, others...) {
		fmt.Fprintf(&out, "  %-34s p50 %7.1f ms  p99 %7.1f ms", t.name, ms(t.at(50)), ms(t.at(99)))
		if t != first {
			fmt.Fprintf(&out, "   ratio %.2f, %.2f   over it %+.1f ms, %+.1f ms", ratio(first, t, 50), ratio(first, t, 99), ms(first.at(50)-t.at(50)), ms(first.at(99)-t.at(99)))
		}
		out.WriteByte('\n')
	}
	b.Log(out.String())
}

func ratio(first, other *times, percent int) float64 {
	return float64(first.at(percent)) / float64(other.at(percent))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// within fails where the first takes more than that beyond the other.
func within(b *testing.B, first, other *times, p50, p99 time.Duration) {
	b.Helper()
	for _, limit := range []struct {
		percent int
		most    time.Duration
	}{{50, p50}, {99, p99}} {
		over := first.at(limit.percent) - other.at(limit.percent)
		b.ReportMetric(ms(over), fmt.Sprintf("ms-over-p%d", limit.percent))
		if over > limit.most {
			b.Errorf("p%d: %s takes %s longer than %s, want at most %s", limit.percent, first.name, over, other.name, limit.most)
		}
	}
}
