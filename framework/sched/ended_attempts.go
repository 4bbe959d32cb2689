package sched

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"mesos-gpu/job"
)

// MaxAttemptsPerJob limits the ended attempts kept for a job with fewer tasks; maxAttemptsOfAll limits those of all
// jobs. A service that fails for days has thousands.
const MaxAttemptsPerJob, maxAttemptsOfAll = 100, 10_000

// attemptPrefix, followed by its id, is the document key of an attempt.
const attemptPrefix = "attempt/"

// endedAttempts are attempts that were followed by another one. Their output is still on their agents and shows why
// they ended. Each is a document of its own, so that a late update changes no record of the task.
type endedAttempts struct {
	byJob map[string][]string // ids, oldest first
	order []endedAttempt      // oldest first, including some that are forgotten
	count int
}

type endedAttempt struct{ job, id string }

// ParseAttempt decodes an ended attempt from one of the scheduler's documents. The task is zero if the document is empty
// or unreadable.
func ParseAttempt(key string, value []byte) (id string, t job.Task, ok bool) {
	id, ok = strings.CutPrefix(key, attemptPrefix)
	if ok && json.Unmarshal(value, &t) != nil {
		t = job.Task{}
	}
	return id, t, ok
}

// keepEndedAttempt records an attempt that was launched and has ended.
func (s *State) keepEndedAttempt(t job.Task) {
	if t.AgentURL == "" {
		return
	}
	s.writeJSONDocument(attemptPrefix+t.ID, t)
	s.endedAttempts.addAttempt(endedAttempt{t.Job, t.ID})
	if most := max(MaxAttemptsPerJob, 2*len(s.jobs[t.Job].Tasks)); len(s.endedAttempts.byJob[t.Job]) > most {
		s.dropOldestAttempt(t.Job)
	}
	for s.endedAttempts.count > maxAttemptsOfAll {
		oldest := s.endedAttempts.order[0]
		s.endedAttempts.order = s.endedAttempts.order[1:]
		if s.Document(attemptPrefix+oldest.id) != nil {
			s.dropOldestAttempt(oldest.job)
		}
	}
	if len(s.endedAttempts.order) > 2*maxAttemptsOfAll {
		s.endedAttempts.order = slices.DeleteFunc(s.endedAttempts.order, func(a endedAttempt) bool { return s.Document(attemptPrefix+a.id) == nil })
	}
}

func (a *endedAttempts) addAttempt(one endedAttempt) {
	a.byJob[one.job] = append(a.byJob[one.job], one.id)
	a.order = append(a.order, one)
	a.count++
}

// dropOldestAttempt forgets the oldest attempt of a job.
func (s *State) dropOldestAttempt(name string) {
	ids := s.endedAttempts.byJob[name]
	s.writeDocument(attemptPrefix+ids[0], nil)
	s.endedAttempts.byJob[name] = ids[1:]
	s.endedAttempts.count--
}

// dropAllAttempts forgets all attempts of a job.
func (s *State) dropAllAttempts(name string) {
	for len(s.endedAttempts.byJob[name]) > 0 {
		s.dropOldestAttempt(name)
	}
	delete(s.endedAttempts.byJob, name)
}

// recordLateEnd records how an attempt that was given up as lost has ended.
func (s *State) recordLateEnd(u TaskUpdate) {
	key := attemptPrefix + u.TaskID
	text := s.Document(key)
	if text == nil || u.State == "" || u.State == job.Lost || u.State.IsLive() {
		return
	}
	if _, t, _ := ParseAttempt(key, text); t.State == job.Lost {
		t.State, t.Message, t.Reason, t.ExitCode = u.State, u.Message, u.Reason, u.ExitCode
		s.writeJSONDocument(key, t)
		s.changes.LateEnds = append(s.changes.LateEnds, t)
	}
}

// restoreAttempts reads the recorded attempts, and deletes those of unknown jobs.
func (s *State) restoreAttempts() {
	var all []job.Task
	var strange []string
	for key, text := range s.DocumentsIn(attemptPrefix) {
		_, t, _ := ParseAttempt(key, text)
		if s.jobs[t.Job] == nil || key != attemptPrefix+t.ID {
			strange = append(strange, key)
			continue
		}
		all = append(all, t)
	}
	for _, key := range strange {
		s.writeDocument(key, nil)
	}
	slices.SortFunc(all, CompareAttempts)
	for _, t := range all {
		s.endedAttempts.addAttempt(endedAttempt{t.Job, t.ID})
	}
}

// CompareAttempts orders attempts by when they ended.
func CompareAttempts(a, b job.Task) int {
	return cmp.Or(a.Changed.Compare(b.Changed), cmp.Compare(a.Attempt, b.Attempt), cmp.Compare(a.Index, b.Index))
}
