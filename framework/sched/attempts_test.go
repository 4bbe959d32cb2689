package sched

import (
	"fmt"
	"testing"
	"time"

	"mesos-gpu/job"
)

// TestAttemptsAreBounded: of all jobs together the oldest attempts are
// forgotten, in the journal too, and a State that goes on from it forgets those
// of jobs that are gone.
func TestAttemptsAreBounded(t *testing.T) {
	s := New(Config{}, Past{})
	s.jobs["big"] = &job.Job{Tasks: make([]job.Task, allAttempts)}
	s.jobs["small"] = &job.Job{Tasks: make([]job.Task, 1)}
	ended := func(name string, n int) job.Task {
		return job.Task{ID: fmt.Sprint(name, n), Job: name, Attempt: n, State: job.Failed, Changed: time.Unix(int64(n), 0), AgentURL: "http://agent"}
	}
	s.supersede(job.Task{ID: "never got to an agent", Job: "small", State: job.Lost})
	for n := range 3 * KeptAttempts {
		s.supersede(ended("small", n))
	}
	if got := len(s.documents[attemptPrefix]); got != KeptAttempts {
		t.Errorf("%d attempts of one task are remembered, want %d", got, KeptAttempts)
	}
	for n := range 3 * allAttempts {
		s.supersede(ended("big", 1000+n))
	}
	if got := len(s.documents[attemptPrefix]); got != allAttempts || s.former.kept != got || len(s.former.order) > 2*allAttempts+1 {
		t.Errorf("%d are remembered, counted %d of %d, want %d", got, s.former.kept, len(s.former.order), allAttempts)
	}
	if len(s.former.byJob["small"]) > 0 || s.Document(attemptPrefix+"small299") != nil {
		t.Error("the oldest of all are remembered")
	}
	if got := len(s.Drain().Documents); got < allAttempts {
		t.Errorf("%d are recorded", got)
	}

	documents := s.Documents()
	documents[attemptPrefix+"strange"] = []byte("{")
	next := New(Config{}, Past{Jobs: []*job.Job{{Spec: job.Spec{Name: "small", Tasks: 1}, Tasks: []job.Task{{ID: "small.0", Job: "small", State: job.Waiting}}}}, Documents: documents})
	c := next.Drain()
	if len(next.documents[attemptPrefix]) > 0 || next.former.kept > 0 || len(c.Documents) != allAttempts+1 {
		t.Errorf("%d of jobs that are gone are remembered, %d are recorded to be forgotten", next.former.kept, len(c.Documents))
	}
}
