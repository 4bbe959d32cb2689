package crash

import (
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"mesos-gpu/internal/testing/testneeds"
)

// TestKilledScheduler kills the only scheduler repeatedly, at every crash point, each time
// as soon as the next process reaches the point.
func TestKilledScheduler(t *testing.T) {
	t.Parallel()
	deaths := 35 // each point once
	if testneeds.IsLongRun() {
		deaths = 200
	}
	c := newCluster(t)
	p := newTaskEvidence(t, c.binary)
	books := startAuditor(c)
	s := processSettings{Master: c.url, API: newAddress(t), Journal: filepath.Join(testneeds.MemoryDir(t), "journal"), Executor: c.binary, Logs: c.logs}
	crowd := startUsers(t, p, s.API)
	began, hits := time.Now(), crashCounts{}
	for _, at := range planCrashes(deaths, rand.New(rand.NewPCG(1, 2))) {
		s.Die = at
		for died := ""; died != at.String(); hits[died]++ {
			died = startProcess(t, s).awaitDeath(at)
		}
	}
	killing := time.Since(began)
	s.Die = crashPoint{}
	last := startProcess(t, s)
	jobs := crowd.finishAll()
	p.checkAll(c, crowd.c, jobs)
	last.stop()
	books.stopAuditor()
	for _, at := range append(newJournalCrashPoints(), allCrashPoints()...) {
		if hits[at.String()] == 0 {
			t.Errorf("no scheduler died %s", at)
		}
	}
	n := 0
	for _, count := range hits {
		n += count
	}
	if n < deaths {
		t.Errorf("%d deaths, want %d", n, deaths)
	}
	t.Logf("%d schedulers killed in %s, %d jobs ended, %d of %d GPUs held at most in %d looks, %s in all\n%s",
		n, killing.Round(time.Millisecond), len(jobs), books.most, agents*gpusPerAgent, books.looks, time.Since(began).Round(time.Millisecond), hits.formatTable())
}
