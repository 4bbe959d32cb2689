package sched

import (
	"testing"
	"time"
)

// BenchmarkUnmetDemand measures what users and autoscalers request of a scheduler with ten thousand agents and ten thousand
// waiting jobs.
func BenchmarkUnmetDemand(b *testing.B) {
	st, now := stateAfterOfferStorm(b, 10_000), time.Unix(1_700_000_000, 0)
	st.Step(now, OffersReceived{Offers: benchmarkOffers(10_000)})
	st.Step(now.Add(settleTime), Cycle{})
	b.Run("lineup", func(b *testing.B) {
		for b.Loop() {
			if n := len(st.QueueOrder()); n != 10_000 {
				b.Fatalf("%d jobs in line", n)
			}
		}
	})
	b.Run("lacking", func(b *testing.B) {
		for b.Loop() {
			if lacks, ok := st.UnmetDemand(); !ok || len(lacks) != 21 {
				b.Fatalf("%d groups with unmet demand, %t", len(lacks), ok)
			}
		}
	})
	b.Run("standings", func(b *testing.B) {
		for b.Loop() {
			st.RoleUsages()
		}
	})
}
