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
func (v *Model) MetricsSnapshot(counters *metrics.SchedulerCounters, now time.Time) metrics.Snapshot {
	s := counters.NewSnapshot(now)
	v.mu.RLock()
	s.Cordoned = len(sched.ParseCordons(v.ownDocuments))
	holds := sched.ParseHolds(v.ownDocuments)
	s.GPUSeconds, _ = metrics.ReadGPUSeconds(v.ownDocuments[sched.CountersKey]) // the leader logs a damaged document
	all := slices.Clone(v.bySubmission)
	v.mu.RUnlock()
	for some := range slices.Chunk(all, jobsPerCount) {
		v.countJobs(&s, some, holds)
	}
	return s
}

// countJobs adds some jobs to a snapshot.
func (v *Model) countJobs(s *metrics.Snapshot, some []*jobEntry, holds sched.Holds) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, e := range some {
		if !e.removed && !e.superseded {
			s.CountJob(&e.Job, holds.IsHeld(&e.Job))
		}
	}
}
