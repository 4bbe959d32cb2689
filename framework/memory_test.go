package framework

import (
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/mesostest"
	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/testneeds"
)

// liveMemory limits the live heap of a scheduler that remembers 100,000 ended and 100,000 pending jobs of one task. It is
// half more than was measured, so that a machine may differ and a second copy of the jobs may not.
const liveMemory = 850 << 20

// TestMemoryOfManyJobs measures the live heap, which does not depend on the load of the machine. It includes the ballast of
// the loop, which takes no memory.
func TestMemoryOfManyJobs(t *testing.T) {
	if !testneeds.IsLongRun() {
		t.Skip("make test-long runs this test: it takes a minute and a gigabyte")
	}
	path := filepath.Join(t.TempDir(), "journal.db")
	fillJournal(t, path, 2*listedJobs, listedJobs)
	in := startInstance(t, mesostest.NewCluster(t, 0), SchedulerConfig{JournalPath: path, Accounting: NoAccounting, Sched: sched.SchedulerSettings{MaxLiveTasks: 2 * listedJobs}})
	defer in.stopAndWait(t)
	for { // until it leads
		list, err := in.ListJobsPage(t.Context(), api.JobQuery{PageRequest: api.PageRequest{Limit: 1}})
		if err == nil && len(list.Jobs) == 1 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	runtime.GC()
	runtime.GC() // memory that finalizers have released
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%d MiB are live, in %d objects", m.HeapAlloc>>20, m.HeapObjects)
	if m.HeapAlloc > liveMemory {
		t.Errorf("%d MiB are live, want at most %d MiB", m.HeapAlloc>>20, liveMemory>>20)
	}
}
