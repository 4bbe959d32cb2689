package sched

import (
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// queueCache is what cycles keep of the queue, and memory that they reuse.
type queueCache struct {
	jobs    []cachedJob
	numbers queue.DemandNumbers
	waiting []queue.WaitingJob
	tasks   []queue.WaitingTask
	running []queue.RunningTask
}

// cachedJob is a job that has not ended, and the number of its demand key; 0 if that was not needed yet.
type cachedJob struct {
	*job.Job
	demandNumber int32
}

// maxDemandNumbers limits the numbers kept for demands of jobs that have ended.
const maxDemandNumbers = 1 << 16

// evictStale drops all numbers if there are too many. It must be called between cycles, since numbers are compared
// within one.
func (c *queueCache) evictStale() {
	if len(c.numbers) > maxDemandNumbers {
		*c = queueCache{}
	}
}

// queuedJobs returns the jobs of the queue, in its order; the result is valid until the next call. Jobs are appended to
// the queue and removed anywhere, so walking the old and the new list together finds the kept jobs. That is faster than
// looking up thousands of names.
func (s *State) queuedJobs() []cachedJob {
	c := &s.cache.queue
	before, list, at := c.jobs, c.jobs[:0], 0
	for _, name := range s.queue {
		for at < len(before) && !before[at].isLiveJob(name) {
			at++
		}
		if at < len(before) {
			list = append(list, before[at])
			at++
		} else {
			list = append(list, cachedJob{Job: s.jobs[name]})
		}
	}
	if len(list) < len(before) {
		clear(before[len(list):])
	}
	c.jobs = list
	return list
}

// isLiveJob reports whether c is the job of that name. A job that has ended may have been replaced by another one.
func (c *cachedJob) isLiveJob(name string) bool { return c.Spec.Name == name && !c.IsTerminal() }

// demandNumberOf returns the number of the job's demand key, which is computed once for each job and policy.
func (s *State) demandNumberOf(c *cachedJob) int32 {
	if c.demandNumber == 0 {
		if s.cache.queue.numbers == nil {
			s.cache.queue.numbers = queue.DemandNumbers{}
		}
		key, known := s.demandKeys[c.Spec.Name]
		if !known {
			d := (&queue.WaitingJob{Spec: &c.Spec}).TaskDemand(s.cfg.Policy.Overhead, nil)
			key = queue.DemandKey(&d, &c.Spec)
			s.demandKeys[c.Spec.Name] = key
		}
		c.demandNumber = s.cache.queue.numbers.NumberOf(key)
	}
	return c.demandNumber
}
