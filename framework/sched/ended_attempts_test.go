package sched

import (
	"fmt"
	"testing"
	"time"

	"mesos-gpu/job"
)

// TestEndedAttemptsAreBounded checks that the oldest attempts of all jobs are forgotten, also in the journal, and that a
// restored State forgets the attempts of removed jobs.
func TestEndedAttemptsAreBounded(t *testing.T) {
	s := New(SchedulerSettings{}, RecoveredState{})
	ended := func(name string, n int) job.Task {
		return job.Task{ID: fmt.Sprint(name, n), Job: name, Attempt: n, State: job.Failed, Changed: time.Unix(int64(n), 0), AgentURL: "http://agent"}
	}
	small, big := &job.Job{Tasks: make([]job.Task, 1)}, &job.Job{Tasks: make([]job.Task, maxAttemptsOfAll)}
	s.endedAttempts.keep(job.Task{ID: "never got to an agent", Job: "small", State: job.Lost}, small)
	for n := range 3 * MaxAttemptsPerJob {
		s.endedAttempts.keep(ended("small", n), small)
	}
	if got := len(s.documents[attemptPrefix]); got != MaxAttemptsPerJob {
		t.Errorf("%d attempts of one task are stored, want %d", got, MaxAttemptsPerJob)
	}
	for n := range 3 * maxAttemptsOfAll {
		s.endedAttempts.keep(ended("big", 1000+n), big)
	}
	if got := len(s.documents[attemptPrefix]); got != maxAttemptsOfAll || s.endedAttempts.count != got || len(s.endedAttempts.byRole[""].order) > 2*maxAttemptsOfAll+1 {
		t.Errorf("%d attempts are stored, counted %d of %d, want %d", got, s.endedAttempts.count, len(s.endedAttempts.byRole[""].order), maxAttemptsOfAll)
	}
	if len(s.endedAttempts.byJob[job.RunID{Name: "small", Run: 1}].ids) > 0 || s.Document(attemptPrefix+"small299") != nil {
		t.Error("the oldest attempts are still stored")
	}
	if got := len(s.TakeChanges().Documents); got < maxAttemptsOfAll {
		t.Errorf("%d are recorded", got)
	}

	documents := s.Documents()
	documents[attemptPrefix+"strange"] = []byte("{")
	next := New(SchedulerSettings{}, RecoveredState{Jobs: []*job.Job{{Spec: job.Spec{Name: "small", Tasks: 1}, Tasks: []job.Task{{ID: "small.0", Job: "small", State: job.Waiting}}}}, Documents: documents})
	c := next.TakeChanges()
	if len(next.documents[attemptPrefix]) > 0 || next.endedAttempts.count > 0 || len(c.Documents) != maxAttemptsOfAll+1 {
		t.Errorf("%d attempts of removed jobs are stored, %d removals are recorded", next.endedAttempts.count, len(c.Documents))
	}
}
