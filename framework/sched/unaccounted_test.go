package sched

import (
	"testing"
	"time"

	"mesos-gpu/job"
)

// unaccountedState returns a State with accounting and one job that was killed while it waited.
func unaccountedState(t *testing.T) (*State, string) {
	t.Helper()
	s := New(SchedulerSettings{KeepRuns: 1, Accounting: true}, RecoveredState{})
	id := submitAndKill(s, 1)
	return s, id
}

// submitAndKill submits a job and kills it before it starts.
func submitAndKill(s *State, second int64) (id string) {
	spec := job.Spec{Name: "a", Command: []string{"true"}}
	spec.SetDefaults()
	s.Step(time.Unix(second, 0), SubmitJob{Spec: spec})
	s.Step(time.Unix(second, 500), KillJob{Job: "a"})
	j, _ := s.Job("a")
	return j.Tasks[0].ID
}

// TestUnaccountedEndsAreKept: the end of a forgotten attempt is kept until the accounting has stored it, also by the next
// scheduler.
func TestUnaccountedEndsAreKept(t *testing.T) {
	s, id := unaccountedState(t)
	submitAndKill(s, 2) // forgets the first run
	s = New(SchedulerSettings{KeepRuns: 1, Accounting: true}, RecoveredState{Jobs: s.Jobs(), Documents: s.Documents()})
	e, ok := ParseAttemptEnd(endPrefix+id, s.Document(endPrefix+id))
	if !ok || e.Task.State != job.Killed || e.Task.ID != id || !e.Submitted.Equal(time.Unix(1, 0)) {
		t.Errorf("kept %+v, %t", e, ok)
	}
	s.Step(time.Unix(3, 0), AttemptsAccounted{TaskIDs: []string{id, "unknown"}})
	if s.Document(endPrefix+id) != nil || s.unaccountedEnds != 0 {
		t.Errorf("%d ends are still kept", s.unaccountedEnds)
	}
	if c := s.TakeChanges(); len(c.Documents) != 1 || c.Documents[endPrefix+id] != nil {
		t.Errorf("the changed documents are %v", c.Documents)
	}
}

// TestAccountedEndsAreForgotten: nothing is kept of attempts that the accounting has stored, or without accounting.
func TestAccountedEndsAreForgotten(t *testing.T) {
	s, id := unaccountedState(t)
	s.Step(time.Unix(1, 0), AttemptsAccounted{TaskIDs: []string{id}})
	submitAndKill(s, 2)
	if s.Document(endPrefix+id) != nil {
		t.Error("a stored end is kept")
	}
	s = New(SchedulerSettings{KeepRuns: 1}, RecoveredState{})
	for second := range int64(3) {
		submitAndKill(s, second+1)
	}
	if len(s.documents[reservedPrefix]) > 0 {
		t.Error("ends are kept without accounting")
	}
}

// TestUnaccountedEndsAreBounded: an end that is too many is forgotten and counted.
func TestUnaccountedEndsAreBounded(t *testing.T) {
	s, _ := unaccountedState(t)
	s.unaccountedEnds = maxUnaccountedEnds
	submitAndKill(s, 2)
	if c := s.TakeChanges(); c.UnaccountedLost != 1 || len(s.documents[reservedPrefix]) > 0 {
		t.Errorf("%d are lost, %d kept", c.UnaccountedLost, len(s.documents[reservedPrefix]))
	}
}
