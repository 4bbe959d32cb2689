package sched

import (
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// queueCache keeps data about the queue between cycles. It does not affect plans. A new policy empties it, since demands contain
// the policy's overhead.
type queueCache struct {
	// cached are the jobs of the queue when it was last read, in its order.
	cached []cachedJob
	// numbers are the numbers of all demand keys since the cache was last emptied.
	numbers queue.DemandNumbers
	// buffers is memory that cycles reuse.
	buffers inputBuffers
}

// inputBuffers is the memory of a placement.PlanInput.
type inputBuffers struct {
	// The slices of the last PlanInput; tasks has the ready tasks of all waiting jobs.
	waiting []queue.WaitingJob
	tasks   []queue.WaitingTask
	running []queue.RunningTask
}

// cachedJob is a job of the queue.
type cachedJob struct {
	*job.Job
	// demandNumber is the number of the job's demand key, 0 if that was not needed yet. Scaling a service does not change
	// it, because the demand is for one task.
	demandNumber int32
	// predicted is the predicted run time, 0 if none exists; isPredicted is set once it is computed.
	predicted   time.Duration
	isPredicted bool
}

// maxDemandNumbers limits the numbers kept for demands of jobs that have ended.
const maxDemandNumbers = 1 << 16

// evictStale empties the cache if it has too many numbers. It must be called between cycles, since numbers are compared
// within one.
func (c *queueCache) evictStale() {
	if len(c.numbers) > maxDemandNumbers {
		*c = queueCache{}
	}
}

// queuedJobs returns the jobs of the queue, in its order; the result is valid until the next call. Jobs are appended to
// the queue and removed anywhere, so walking the old and the new list together finds the kept jobs. That is faster than
// looking up thousands of names.
func (c *queueCache) queuedJobs(t *jobTable) []cachedJob {
	before, list, at := c.cached, c.cached[:0], 0
	for j := range t.queue.all() {
		for at < len(before) && before[at].Job != j {
			at++
		}
		if at < len(before) {
			list = append(list, before[at])
			at++
		} else {
			list = append(list, cachedJob{Job: j})
		}
	}
	if len(list) < len(before) {
		clear(before[len(list):])
	}
	c.cached = list
	return list
}

// forgetSpec forgets what was computed of a job's specification, after it has changed.
func (c *queueCache) forgetSpec(j *job.Job) {
	at, ok := slices.BinarySearchFunc(c.cached, j, func(one cachedJob, j *job.Job) int { return compareSubmission(one.Job, j) })
	if ok && c.cached[at].Job == j {
		c.cached[at] = cachedJob{Job: j}
	}
}

// demandNumberOf returns the number of the job's demand key, which is computed once.
func (c *queueCache) demandNumberOf(j *cachedJob, overhead fit.Amount) int32 {
	if j.demandNumber == 0 {
		if c.numbers == nil {
			c.numbers = queue.DemandNumbers{}
		}
		d := (&queue.WaitingJob{Spec: j.Spec}).TaskDemand(overhead, nil)
		j.demandNumber = c.numbers.NumberOf(queue.DemandKey(&d, j.Spec))
	}
	return j.demandNumber
}

// predictedRunTimeOf returns the predicted run time of the job's tasks, 0 if none exists. It is computed once.
func (c *queueCache) predictedRunTimeOf(j *cachedJob, r *runTimes) time.Duration {
	if !j.isPredicted && r != nil {
		j.isPredicted = true
		if p, ok := r.predictJob(j.Job); ok {
			j.predicted = p.RunTime
		}
	}
	return j.predicted
}
