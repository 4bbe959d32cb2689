package sched

import (
	"encoding/json"
	"strings"
	"time"

	"mesos-gpu/job"
)

// endPrefix, followed by its id, is the key of the end of an attempt that was forgotten before the accounting had stored
// it. maxUnaccountedEnds limits how many are kept.
const (
	endPrefix          = reservedPrefix + "ended/"
	maxUnaccountedEnds = 10_000
)

// AttemptEnd is an ended attempt with what the accounting needs of its job.
type AttemptEnd struct {
	Task      job.Task  `json:"task"`
	Role      string    `json:"role"`
	Owner     string    `json:"owner,omitempty"`
	CPUs      float64   `json:"cpus,omitempty"`
	Submitted time.Time `json:"submitted"`
}

// NewAttemptEnd returns the end of an attempt of a job.
func NewAttemptEnd(t *job.Task, spec *job.Spec, submitted time.Time) AttemptEnd {
	return AttemptEnd{Task: *t, Role: spec.Role, Owner: spec.Owner, CPUs: spec.CPUs, Submitted: submitted}
}

// ParseAttemptEnd decodes one of the scheduler's documents with the end of a forgotten attempt. It returns false for other
// documents and for a deleted one.
func ParseAttemptEnd(key string, value []byte) (e AttemptEnd, ok bool) {
	id, ok := strings.CutPrefix(key, endPrefix)
	return e, ok && len(value) > 0 && json.Unmarshal(value, &e) == nil && e.Task.ID == id
}

// unaccountedAttempts are the ids of ended attempts that the accounting has not stored yet. It is nil without accounting.
type unaccountedAttempts map[string]bool

func (u unaccountedAttempts) add(id string) {
	if u != nil {
		u[id] = true
	}
}

// restoreUnaccounted considers all recorded ends as not stored: the accounting stores each only once.
func (s *State) restoreUnaccounted() {
	if !s.cfg.Accounting {
		return
	}
	s.unaccounted = unaccountedAttempts{}
	for id, ref := range s.tasks {
		if t := ref.get(); !t.State.IsLive() && t.FinishedAs == "" {
			s.unaccounted.add(id)
		}
	}
	for key := range s.documents[attemptPrefix] {
		s.unaccounted.add(strings.TrimPrefix(key, attemptPrefix))
	}
	for key := range s.documents[reservedPrefix] {
		if id, ok := strings.CutPrefix(key, endPrefix); ok {
			s.unaccounted.add(id)
			s.unaccountedEnds++
		}
	}
}

// keepAttempt keeps the record of an attempt that another one follows.
func (s *State) keepAttempt(t *job.Task, j *job.Job) {
	if t.AgentID == "" {
		s.keepUnaccounted(t, j)
	}
	s.endedAttempts.keep(*t, j)
}

// keepDroppedAttempt keeps the end of an attempt whose record is about to be deleted, if the accounting needs it.
func (s *State) keepDroppedAttempt(id string, text []byte) {
	if !s.unaccounted[id] {
		return
	}
	_, t, _ := ParseAttempt(attemptPrefix+id, text)
	if j, ok := s.jobs.FindRun(t.RunID()); ok {
		s.keepUnaccounted(&t, j)
	}
}

// keepUnaccounted keeps the end of an attempt that is about to be forgotten, if the accounting needs it.
func (s *State) keepUnaccounted(t *job.Task, j *job.Job) {
	if !s.unaccounted[t.ID] {
		return
	}
	if s.unaccountedEnds >= maxUnaccountedEnds {
		delete(s.unaccounted, t.ID)
		s.changes.UnaccountedLost++
		return
	}
	if s.Document(endPrefix+t.ID) == nil {
		s.unaccountedEnds++
	}
	s.writeJSONDocument(endPrefix+t.ID, NewAttemptEnd(t, j.SpecOf(t), j.Submitted))
}

// handleAccounted forgets what was kept of attempts whose ends the accounting has stored.
func (s *State) handleAccounted(ids []string) {
	for _, id := range ids {
		delete(s.unaccounted, id)
		if s.Document(endPrefix+id) != nil {
			s.writeDocument(endPrefix+id, nil)
			s.unaccountedEnds--
		}
	}
}
