package isolator

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

func BenchmarkIsolateV1(b *testing.B) { benchmarkIsolate(b, "v1") }
func BenchmarkIsolateV2(b *testing.B) { benchmarkIsolate(b, "v2") }

// benchmarkIsolate isolates a container's cgroup with one GPU and then grows and shrinks
// it. Each step is verified by reading it back; p99 is over all steps.
func benchmarkIsolate(b *testing.B, version string) {
	requireMounted(b, version)
	h := fourGPUHost(b)
	i, err := New(HostConfig{Host: h, CgroupVersion: version})
	if err != nil {
		b.Fatal(err)
	}
	root := fmt.Sprintf("mesos-gpu-isolator-bench-%d", os.Getpid())
	b.Cleanup(func() {
		if err := i.cgroups.RemoveCgroup(root); err != nil {
			b.Error(err)
		}
	})
	one, two := []string{h.Devices[1].UUID}, []string{h.Devices[1].UUID, h.Devices[3].UUID}
	var first, change []time.Duration
	for b.Loop() {
		path := root + "/c"
		for n, ids := range [][]string{one, two, one} {
			start := time.Now()
			if err := i.ConfineToDevices(path, ids); err != nil {
				b.Fatal(err)
			}
			if n == 0 {
				first = append(first, time.Since(start))
			} else {
				change = append(change, time.Since(start))
			}
		}
		if err := i.ReleaseCgroup(path); err != nil {
			b.Fatal(err)
		}
	}
	for name, times := range map[string][]time.Duration{"first": first, "change": change} {
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Microseconds()), name+"-p50-µs")
		b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), name+"-p99-µs")
	}
}
