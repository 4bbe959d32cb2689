package journal

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// BenchmarkCommit durably commits submitted jobs with one task each, in batches of the sizes
// that the scheduler's loop produces. The disk is that of TMPDIR.
func BenchmarkCommit(b *testing.B) {
	for name, at := range map[string]func(testing.TB) journalStore{"bolt": boltStore, "zookeeper": zkStore} {
		for _, batch := range []int{1, 256} {
			b.Run(fmt.Sprintf("%s/batch=%d", name, batch), func(b *testing.B) {
				j := at(b).open(b)
				jobs := 0
				b.ReportAllocs()
				began := time.Now()
				for b.Loop() {
					var c Change
					for range batch {
						one := testJob(fmt.Sprintf("job-%d", jobs), 1)
						c.Jobs, c.Tasks = append(c.Jobs, one), append(c.Tasks, one.Tasks...)
						jobs++
					}
					if err := j.Commit(context.Background(), c); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(jobs)/time.Since(began).Seconds(), "jobs/s")
				closeJournal(b, j)
			})
		}
	}
}
