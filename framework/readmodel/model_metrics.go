package readmodel

import (
	"slices"
	"time"

	"mesos-gpu/framework/metrics"
	"mesos-gpu/framework/sched"
)

// jobsPerCount is how many jobs a scrape counts with one lock: changes wait for that
// many jobs instead of all.
const jobsPerCount = 1000

// MetricsSnapshot counts all jobs, each in its state at some time during the scrape.
func (m *Model) MetricsSnapshot(counters *metrics.SchedulerCounters, now time.Time) metrics.Snapshot {
	s := counters.NewSnapshot(now)
	m.mu.RLock()
	s.Cordoned = len(sched.ParseCordons(m.ownDocuments))
	holds := sched.ParseHolds(m.ownDocuments)
	s.GPUSeconds, _ = metrics.ReadGPUSeconds(m.ownDocuments[sched.CountersKey]) // the leader logs a damaged document
	all := slices.Clone(m.bySubmission)
	m.mu.RUnlock()
	for some := range slices.Chunk(all, jobsPerCount) {
		m.countJobs(&s, some, holds)
	}
	return s
}

// countJobs adds some jobs to a snapshot.
func (m *Model) countJobs(s *metrics.Snapshot, some []*jobEntry, holds sched.Holds) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, e := range some {
		if !e.removed && !e.superseded {
			s.CountJob(&e.Job, holds.IsHeld(&e.Job))
		}
	}
}
