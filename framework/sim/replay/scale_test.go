package replay

import (
	"flag"
	"fmt"
	"iter"
	"math/rand"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/cputime"
)

var whole = flag.Bool("whole", false, "BenchmarkScale up to 100,000 agents and a million tasks")

// BenchmarkScale replays ten tasks for each agent of eight GPUs, on a cluster that they just fill. Jobs arrive every
// minute and end every ten seconds.
func BenchmarkScale(b *testing.B) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(MemoryLimit))
	sizes := []int{100, 1000}
	if *whole {
		sizes = []int{1000, 10_000, 100_000}
	}
	for _, n := range sizes {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			cluster, begun := agents(n), cputime.Read(b).Seconds()
			for b.Loop() {
				r, err := RunReplay(ReplaySettings{Agents: cluster}, scaleRecords(10*n))
				if err != nil {
					b.Fatal(err)
				}
				if r.Jobs != 10*n {
					b.Fatalf("%d of %d jobs ended", r.Jobs, 10*n)
				}
				b.ReportMetric(float64(r.Cycles), "cycles")
				b.ReportMetric(r.Allocation, "%GPUs")
			}
			b.ReportMetric(float64(10*n*b.N)/b.Elapsed().Seconds(), "decisions/s")
			// Processor time does not depend on other programs.
			b.ReportMetric(float64(10*n*b.N)/(cputime.Read(b).Seconds()-begun), "decisions/cpu-s")
			b.ReportMetric(peakMiB(b), "peak-MiB")
		})
	}
}

// scaleRecords generates records as they are read.
func scaleRecords(n int) iter.Seq[JobRecord] {
	return func(yield func(JobRecord) bool) {
		rnd := rand.New(rand.NewSource(1))
		for i := range n {
			spec, err := NewGangSpec(fmt.Sprint("j", i), []int{1, 1, 2, 4, 8}[rnd.Intn(5)], 8, sched.Amount{CPUs: 4, MemMiB: 8192})
			if err != nil {
				panic(err) // agents have GPUs
			}
			runs := time.Duration(18+rnd.Intn(24)) * 10 * time.Second
			if !yield(JobRecord{Spec: spec, ArrivesAt: time.Duration(i*20/n) * time.Minute, RunTimes: []time.Duration{runs}}) {
				return
			}
		}
	}
}

// peakMiB returns the peak memory use of the process.
func peakMiB(b *testing.B) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("needs Linux's /proc")
	}
	for line := range strings.Lines(string(text)) {
		var kib float64
		if _, err := fmt.Sscanf(line, "VmHWM: %g kB", &kib); err == nil {
			return kib / 1024
		}
	}
	b.Fatal("/proc/self/status has no VmHWM")
	return 0
}
