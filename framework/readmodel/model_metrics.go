package readmodel

import (
	"slices"
	"time"

	"mesos-gpu/framework/metrics"
	"mesos-gpu/framework/sched"
)

// jobsPerCount is of how many jobs a scrape counts at a time: what is recorded
// meanwhile waits for so many, not for all.
const jobsPerCount = 1000

// MetricsSnapshot counts all jobs, each as it was at some moment of the scrape.
func (v *Model) MetricsSnapshot(counters *metrics.SchedulerCounters, now time.Time) metrics.Snapshot {
	s := counters.NewSnapshot(now)
	v.mu.RLock()
	s.Cordoned = len(sched.ParseCordons(v.ownDocuments))
	s.GPUSeconds, _ = metrics.ReadGPUSeconds(v.ownDocuments[sched.CountersKey]) // who leads has said what is wrong with it
	all := slices.Clone(v.bySubmission)
	v.mu.RUnlock()
	for some := range slices.Chunk(all, jobsPerCount) {
		v.countJobs(&s, some)
	}
	return s
}

func (v *Model) countJobs(s *metrics.Snapshot, some []*jobEntry) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, e := range some {
		if !e.removed {
			s.CountJob(&e.Job)
		}
	}
}
