package sched

import "mesos-gpu/job"

// line is what is kept of the queue from cycle to cycle, and memory for it.
type line struct {
	jobs    []queued
	wishes  wishes
	waiting []Job
	tasks   []Waiting
	running []Running
}

// queued is a job that has not ended, and the number of its wish; 0 is that
// nobody has asked yet.
type queued struct {
	*job.Job
	wish int32
}

// wishes numbers what wishOf says from 1 on, so that it need not be compared
// letter by letter.
type wishes map[string]int32

func (w wishes) number(wish string) int32 {
	n, ok := w[wish]
	if !ok {
		n = int32(len(w) + 1)
		w[wish] = n
	}
	return n
}

// maxWishes bounds how many are remembered of jobs that have ended.
const maxWishes = 1 << 16

// trim forgets the wishes where they are too many. Numbers that are in use are
// of no use then, so it is for the begin of a cycle.
func (l *line) trim() {
	if len(l.wishes) > maxWishes {
		*l = line{}
	}
}

// queued are the jobs of the queue, in its order. Jobs come at its end and
// leave from anywhere, so those of the last time are found by going along both
// lists: looking up thousands of names takes longer. The list is good until
// the next call.
func (s *State) queued() []queued {
	l := &s.fleet.line
	was, list, at := l.jobs, l.jobs[:0], 0
	for _, name := range s.queue {
		for at < len(was) && !was[at].is(name) {
			at++
		}
		if at < len(was) {
			list = append(list, was[at])
			at++
		} else {
			list = append(list, queued{Job: s.jobs[name]})
		}
	}
	if len(list) < len(was) {
		clear(was[len(list):])
	}
	l.jobs = list
	return list
}

// is reports whether it is the job of that name that has not ended: of those
// that have, there may be another by now.
func (q *queued) is(name string) bool { return q.Spec.Name == name && !q.Terminal() }

// wishOf finds out once what a job's demand is, and its number.
func (s *State) wishOf(q *queued) int32 {
	if q.wish == 0 {
		l := &s.fleet.line
		if l.wishes == nil {
			l.wishes = wishes{}
		}
		wish, known := s.wishes[q.Spec.Name]
		if !known {
			d := (&Job{Spec: &q.Spec}).demand(&s.cfg.Policy, nil)
			wish = wishOf(&d, &q.Spec)
			s.wishes[q.Spec.Name] = wish
		}
		q.wish = l.wishes.number(wish)
	}
	return q.wish
}
