package framework

import (
	"math"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/internal/testing/testneeds"
)

// liveMemory limits the live heap of a scheduler that remembers 100,000 ended and 100,000 pending jobs of one task. It is
// an eighth more than was measured: a second copy of the specifications or of all tasks is more.
const liveMemory = 550 << 20

// TestMemoryOfManyJobs measures the live heap, which does not depend on the load of the machine. It includes the ballast of
// the loop, which takes no memory.
func TestMemoryOfManyJobs(t *testing.T) {
	if !testneeds.IsLongRun() {
		t.Skip("make test-long runs this test: it takes a minute and a gigabyte")
	}
	path := filepath.Join(t.TempDir(), "journal.db")
	fillJournal(t, path, 2*listedJobs, listedJobs)
	in := startInstance(t, mesostest.NewCluster(t, 0), SchedulerConfig{
		JournalPath: path,
		Accounting:  NoAccounting,
		Sched:       sched.SchedulerSettings{MaxLiveTasks: 2 * listedJobs},
	})
	defer in.stopAndWait(t)
	for { // until it leads
		list, err := in.ListJobsPage(t.Context(), api.JobQuery{PageRequest: api.PageRequest{Limit: 1}})
		if err == nil && len(list.Jobs) == 1 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	var m runtime.MemStats
	live := uint64(math.MaxUint64)
	for range 3 { // a collection leaves what becomes garbage while it runs
		runtime.GC()
		runtime.ReadMemStats(&m)
		live = min(live, m.HeapAlloc)
	}
	t.Logf("%d MiB are live, in %d objects", live>>20, m.HeapObjects)
	if live > liveMemory {
		t.Errorf("%d MiB are live, want at most %d MiB", live>>20, liveMemory>>20)
	}
}
