package sched

import "mesos-gpu/job"

// queueCache is what is kept of the queue from cycle to cycle, and memory for it.
type queueCache struct {
	jobs    []cachedJob
	numbers demandNumbers
	waiting []WaitingJob
	tasks   []WaitingTask
	running []RunningTask
}

// cachedJob is a job that has not ended, and the number of its wish; 0 is that
// nobody has asked yet.
type cachedJob struct {
	*job.Job
	demand int32
}

// demandNumbers numbers what demandNumberOf says from 1 on, so that it need not be compared
// letter by letter.
type demandNumbers map[string]int32

func (w demandNumbers) numberOf(wish string) int32 {
	n, ok := w[wish]
	if !ok {
		n = int32(len(w) + 1)
		w[wish] = n
	}
	return n
}

// maxDemandNumbers bounds how many are remembered of jobs that have ended.
const maxDemandNumbers = 1 << 16

// evictStale forgets the wishes where they are too many. Numbers that are in use are
// of no use then, so it is for the begin of a cycle.
func (l *queueCache) evictStale() {
	if len(l.numbers) > maxDemandNumbers {
		*l = queueCache{}
	}
}

// queuedJobs are the jobs of the queue, in its order. Jobs come at its end and
// leave from anywhere, so those of the last time are found by going along both
// lists: looking up thousands of names takes longer. The list is good until
// the next call.
func (s *State) queuedJobs() []cachedJob {
	l := &s.cache.queue
	was, list, at := l.jobs, l.jobs[:0], 0
	for _, name := range s.queue {
		for at < len(was) && !was[at].isLiveJob(name) {
			at++
		}
		if at < len(was) {
			list = append(list, was[at])
			at++
		} else {
			list = append(list, cachedJob{Job: s.jobs[name]})
		}
	}
	if len(list) < len(was) {
		clear(was[len(list):])
	}
	l.jobs = list
	return list
}

// isLiveJob reports whether it is the job of that name that has not ended: of those
// that have, there may be another by now.
func (q *cachedJob) isLiveJob(name string) bool { return q.Spec.Name == name && !q.IsTerminal() }

// demandNumberOf finds out once what a job's demand is, and its number.
func (s *State) demandNumberOf(q *cachedJob) int32 {
	if q.demand == 0 {
		l := &s.cache.queue
		if l.numbers == nil {
			l.numbers = demandNumbers{}
		}
		wish, known := s.demandKeys[q.Spec.Name]
		if !known {
			d := (&WaitingJob{Spec: &q.Spec}).taskDemand(&s.cfg.Policy, nil)
			wish = demandKeyOf(&d, &q.Spec)
			s.demandKeys[q.Spec.Name] = wish
		}
		q.demand = l.numbers.numberOf(wish)
	}
	return q.demand
}
