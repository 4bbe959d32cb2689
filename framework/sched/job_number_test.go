package sched

import (
	"testing"
	"time"
)

func numbersOf(s *State) map[string]int {
	numbers := map[string]int{}
	for _, j := range s.Jobs() {
		numbers[j.RunID().String()] = j.Number
	}
	return numbers
}

func TestSubmissionsAreNumbered(t *testing.T) {
	t.Parallel()
	s := New(SchedulerSettings{}, RecoveredState{})
	at := time.Unix(1_700_000_000, 0)
	for _, name := range []string{"one", "two"} {
		s.Step(at, SubmitJob{Spec: testSpec(name)})
	}
	s.Step(at, KillJob{Job: "one"})
	s.Step(at, SubmitJob{Spec: testSpec("one")})
	if got := numbersOf(s); got["one@1"] != 1 || got["two@1"] != 2 || got["one@2"] != 3 {
		t.Errorf("numbers %v, want one@1: 1, two@1: 2, one@2: 3", got)
	}
}

// The number of a forgotten job is not given again, also after a failover.
func TestNumbersAreNotUsedAgain(t *testing.T) {
	t.Parallel()
	s := New(SchedulerSettings{}, RecoveredState{})
	at := time.Unix(1_700_000_000, 0)
	s.Step(at, SubmitJob{Spec: testSpec("one")})
	s.Step(at, SubmitJob{Spec: testSpec("two")})
	s.Step(at, KillJob{Job: "two"})
	s.Step(at, ForgetJob{Job: "two"})
	s = New(SchedulerSettings{}, RecoveredState{Jobs: s.Jobs(), Documents: s.Documents()})
	s.Step(at, SubmitJob{Spec: testSpec("three")})
	if got := numbersOf(s); got["one@1"] != 1 || got["three@1"] != 3 {
		t.Errorf("numbers %v, want one@1: 1, three@1: 3", got)
	}
}

// Jobs of a journal without numbers get them in the order of submission, and they are recorded.
func TestRecoveredJobsAreNumbered(t *testing.T) {
	t.Parallel()
	s := New(SchedulerSettings{}, RecoveredState{})
	for _, name := range []string{"b", "a", "c"} {
		s.Step(time.Unix(1_700_000_000, 0), SubmitJob{Spec: testSpec(name)})
	}
	jobs := s.Jobs()
	jobs[0].Number, jobs[1].Number, jobs[2].Number = 0, 0, 7
	s = New(SchedulerSettings{}, RecoveredState{Jobs: jobs})
	if got := numbersOf(s); got["b@1"] != 8 || got["a@1"] != 9 || got["c@1"] != 7 {
		t.Errorf("numbers %v, want b@1: 8, a@1: 9, c@1: 7", got)
	}
	recorded := map[string]int{}
	for _, j := range s.TakeChanges().Jobs {
		recorded[j.Spec.Name] = j.Number
	}
	if len(recorded) != 2 || recorded["b"] != 8 || recorded["a"] != 9 {
		t.Errorf("recorded %v, want b: 8, a: 9", recorded)
	}
}
