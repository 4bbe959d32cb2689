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
		return job.Task{ID: fmt.Sprint(name, n), Job: name, Attempt: n, State: job.Failed, Changed: time.Unix(int64(n), 0), AgentID: "agent"}
	}
	small, big := &job.Job{Spec: &job.Spec{}, Tasks: make([]job.Task, 1)}, &job.Job{Spec: &job.Spec{}, Tasks: make([]job.Task, maxAttemptsOfAll)}
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
	if got := len(s.documents[attemptPrefix]); got != maxAttemptsOfAll || s.endedAttempts.count != got ||
		len(s.endedAttempts.byRole[""].order) > 2*maxAttemptsOfAll+1 {
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
	next := New(SchedulerSettings{}, RecoveredState{
		Jobs:      []*job.Job{{Spec: &job.Spec{Name: "small", Tasks: 1}, Tasks: []job.Task{{ID: "small.0", Job: "small", State: job.Waiting}}}},
		Documents: documents,
	})
	c := next.TakeChanges()
	if len(next.documents[attemptPrefix]) > 0 || next.endedAttempts.count > 0 || len(c.Documents) != maxAttemptsOfAll+1 {
		t.Errorf("%d attempts of removed jobs are stored, %d removals are recorded", next.endedAttempts.count, len(c.Documents))
	}
}

// TestAttemptsAreForgottenInTheirOrder checks that the order is the same after a restart, and that attempts are counted
// by role.
func TestAttemptsAreForgottenInTheirOrder(t *testing.T) {
	j := &job.Job{Spec: &job.Spec{Name: "a", Role: "r", Tasks: 1}, Tasks: make([]job.Task, 1)}
	st := New(SchedulerSettings{}, RecoveredState{})
	keep := func(n int) {
		st.endedAttempts.keep(job.Task{
			ID:      fmt.Sprint("a.", n),
			Job:     "a",
			Run:     1,
			Attempt: n,
			State:   job.Failed,
			Changed: time.Unix(int64(n/2), 0),
			AgentID: "agent",
		}, j)
	}
	for n := range MaxAttemptsPerJob {
		keep(n)
	}
	j.Tasks[0] = job.Task{ID: "a.now", Job: "a", State: job.Waiting}
	st = New(SchedulerSettings{}, RecoveredState{Jobs: []*job.Job{j}, Documents: st.Documents()})
	for n := range 10 {
		keep(MaxAttemptsPerJob + n)
		if st.Document(attemptPrefix+fmt.Sprint("a.", n)) != nil || st.Document(attemptPrefix+fmt.Sprint("a.", n+1)) == nil {
			t.Fatalf("after %d more, another attempt than the oldest was forgotten", n+1)
		}
	}
	if got := st.endedAttempts.byRole["r"].count; got != MaxAttemptsPerJob || st.endedAttempts.count != got {
		t.Errorf("counted %d of the role and %d of all, want %d", got, st.endedAttempts.count, MaxAttemptsPerJob)
	}
	st.endedAttempts.dropJob(j.RunID())
	if got := st.endedAttempts.byRole["r"].count; got != 0 || st.endedAttempts.count != 0 || len(st.endedAttempts.byJob) != 0 {
		t.Errorf("after the job is forgotten, counted %d of the role and %d of all", got, st.endedAttempts.count)
	}
}

func TestCompareAttempts(t *testing.T) {
	at := func(seconds int64, attempt, index int) job.Task {
		return job.Task{Changed: time.Unix(seconds, 0), Attempt: attempt, Index: index}
	}
	sorted := []job.Task{at(1, 9, 9), at(2, 1, 9), at(2, 2, 0), at(2, 2, 1), at(3, 1, 0)}
	for i, a := range sorted {
		for k, b := range sorted {
			if got := CompareAttempts(a, b); (got < 0) != (i < k) || (got > 0) != (i > k) {
				t.Errorf("attempts %d and %d: got %d", i, k, got)
			}
		}
	}
}
