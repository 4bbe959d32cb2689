package sched

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"mesos-gpu/job"
)

// KeptAttempts bounds the ended attempts that are remembered of a job whose
// tasks are fewer, allAttempts those of all jobs: a service that fails for days
// has thousands.
const KeptAttempts, allAttempts = 100, 10_000

// attemptPrefix and its id is the key of the document of an attempt.
const attemptPrefix = "attempt/"

// formerAttempts are those in whose place others were started: what they wrote is on
// their agents still, and says why they ended. A document each, so that one that
// is told of anew is no other record of its task.
type formerAttempts struct {
	byJob map[string][]string // ids, oldest first
	order []formerAttempt     // oldest first; some may be forgotten
	kept  int
}

type formerAttempt struct{ job, id string }

// AttemptIn reads an ended attempt in one of the scheduler's documents. Its task
// is zero where the document is empty, or cannot be read.
func AttemptIn(key string, value []byte) (id string, t job.Task, ok bool) {
	id, ok = strings.CutPrefix(key, attemptPrefix)
	if ok && json.Unmarshal(value, &t) != nil {
		t = job.Task{}
	}
	return id, t, ok
}

// supersede remembers an attempt that was sent to an agent and has ended.
func (s *State) supersede(t job.Task) {
	if t.AgentURL == "" {
		return
	}
	s.record(attemptPrefix+t.ID, t)
	s.former.add(formerAttempt{t.Job, t.ID})
	if most := max(KeptAttempts, 2*len(s.jobs[t.Job].Tasks)); len(s.former.byJob[t.Job]) > most {
		s.dropAttempt(t.Job)
	}
	for s.former.kept > allAttempts {
		oldest := s.former.order[0]
		s.former.order = s.former.order[1:]
		if s.Document(attemptPrefix+oldest.id) != nil {
			s.dropAttempt(oldest.job)
		}
	}
	if len(s.former.order) > 2*allAttempts {
		s.former.order = slices.DeleteFunc(s.former.order, func(a formerAttempt) bool { return s.Document(attemptPrefix+a.id) == nil })
	}
}

func (a *formerAttempts) add(one formerAttempt) {
	a.byJob[one.job] = append(a.byJob[one.job], one.id)
	a.order = append(a.order, one)
	a.kept++
}

// dropAttempt forgets a job's oldest.
func (s *State) dropAttempt(name string) {
	ids := s.former.byJob[name]
	s.write(attemptPrefix+ids[0], nil)
	s.former.byJob[name] = ids[1:]
	s.former.kept--
}

// dropAttempts forgets all of a job's.
func (s *State) dropAttempts(name string) {
	for len(s.former.byJob[name]) > 0 {
		s.dropAttempt(name)
	}
	delete(s.former.byJob, name)
}

// late takes in how an attempt that was given up has ended after all.
func (s *State) late(u Update) {
	key := attemptPrefix + u.TaskID
	text := s.Document(key)
	if text == nil || u.State == "" || u.State == job.Lost || u.State.Live() {
		return
	}
	if _, t, _ := AttemptIn(key, text); t.State == job.Lost {
		t.State, t.Message, t.Reason, t.ExitCode = u.State, u.Message, u.Reason, u.ExitCode
		s.record(key, t)
		s.changes.Late = append(s.changes.Late, t)
	}
}

// recoverAttempts takes in those that the documents tell of, and forgets what
// belongs to no job.
func (s *State) recoverAttempts() {
	var all []job.Task
	var strange []string
	for key, text := range s.DocumentsIn(attemptPrefix) {
		_, t, _ := AttemptIn(key, text)
		if s.jobs[t.Job] == nil || key != attemptPrefix+t.ID {
			strange = append(strange, key)
			continue
		}
		all = append(all, t)
	}
	for _, key := range strange {
		s.write(key, nil)
	}
	slices.SortFunc(all, EarlierAttempt)
	for _, t := range all {
		s.former.add(formerAttempt{t.Job, t.ID})
	}
}

// EarlierAttempt orders attempts by when they ended.
func EarlierAttempt(a, b job.Task) int {
	return cmp.Or(a.Changed.Compare(b.Changed), cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Index, b.Index))
}
