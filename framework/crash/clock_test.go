package crash

import (
	"path/filepath"
	"testing"
	"time"

	"mesos-gpu/internal/testing/testneeds"
)

// TestClockJumps sets a scheduler's clock back and forth while jobs are submitted, and starts
// it again in the past: each task runs once, and no two tasks hold one device.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	rounds, jobs := 1, 3
	if testneeds.IsLongRun() {
		rounds, jobs = 5, 40
	}
	c := newCluster(t)
	p := newTaskEvidence(t, c.binary)
	books := startAuditor(c)
	s := processSettings{Master: c.url, API: newAddress(t), Journal: filepath.Join(testneeds.MemoryDir(t), "journal"), Executor: c.binary, Logs: c.logs}
	crowd := startUsers(t, p, s.API)
	began := time.Now()
	running := startProcess(t, s)
	crowd.awaitMore(jobs)
	for range rounds {
		for _, ahead := range []time.Duration{-23 * time.Hour, 110 * time.Hour, 0} {
			running.setClock(ahead)
			crowd.awaitMore(jobs)
		}
		for _, ahead := range []time.Duration{110 * time.Hour, -77 * time.Hour} {
			running.stop()
			s.ClockOffset = ahead
			running = startProcess(t, s)
			crowd.awaitMore(jobs)
		}
	}
	ended := crowd.finishAll()
	p.checkAll(c, crowd.c, ended)
	running.stop()
	books.stopAuditor()
	t.Logf("%d jobs ended, %d of %d GPUs held at most in %d looks, %s in all",
		len(ended), books.most, agents*gpusPerAgent, books.looks, time.Since(began).Round(time.Millisecond))
}
