package sim

import (
	"context"
	"runtime"
	"testing"
)

// BenchmarkPolicies places the recorded tasks one by one on the recorded
// 1,213 agents until they have asked for 1.3 times the GPUs, by each policy.
// A decision is a task that is placed or refused; making the cluster is in it.
func BenchmarkPolicies(b *testing.B) {
	trace := openb(b, "testdata", "default")
	typical := trace.Typical()
	for _, policy := range Policies() {
		b.Run(policy+"/threads=one", func(b *testing.B) {
			decisions, seed := 0, int64(42)
			for b.Loop() {
				decisions += trace.Run(policy, typical, seed, 0).Decisions
				seed++
			}
			report(b, decisions)
		})
		b.Run(policy+"/threads=all", func(b *testing.B) {
			decisions, from := 0, int64(42)
			for b.Loop() {
				s := Sweep{Trace: trace, Policies: []string{policy}, Workers: runtime.GOMAXPROCS(0)}
				for i := range 2 * runtime.GOMAXPROCS(0) {
					s.Seeds = append(s.Seeds, from+int64(i))
				}
				results, err := s.Run(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				decisions += results[0].Decisions
			}
			report(b, decisions)
		})
	}
}

func report(b *testing.B, decisions int) {
	b.ReportMetric(float64(decisions)/b.Elapsed().Seconds(), "decisions/s")
	b.ReportMetric(0, "ns/op")
}
