package queue

import (
	"testing"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Demands that fit the same agents have the same key, whatever the run time of their tasks.
func TestDemandKeyIsEqualForSameAgents(t *testing.T) {
	key := func(change func(*job.Spec)) string {
		s := job.Spec{Name: "one", Tasks: 2, Request: gpu.Request{GPUs: 1}, CPUs: 1, MemMiB: 64, Command: []string{"true"}}
		s.SetDefaults()
		if change != nil {
			change(&s)
		}
		d := (&WaitingJob{Spec: &s}).TaskDemand(fit.Amount{CPUs: 0.1, MemMiB: 32}, nil)
		return DemandKey(&d, &s)
	}
	plain := key(nil)
	for name, change := range map[string]func(*job.Spec){
		"a host port":  func(s *job.Spec) { s.Ports = []job.Port{{Host: 8080}} },
		"another port": func(s *job.Spec) { s.Ports = []job.Port{{Host: 8081}} },
		"any port":     func(s *job.Spec) { s.Ports = []job.Port{{}} },
		"a share":      func(s *job.Spec) { s.Request.Share = gpu.ShareRequest{MemMiB: 4000} },
		"with cores":   func(s *job.Spec) { s.Request.Share = gpu.ShareRequest{MemMiB: 4000, Cores: 10} },
		"memory":       func(s *job.Spec) { s.MemMiB++ },
		"a type":       func(s *job.Spec) { s.Request.Types.Include = []string{"A100"} },
		"a role":       func(s *job.Spec) { s.Role = "other" },
		"a gang":       func(s *job.Spec) { s.Gang = true },
		"a constraint": func(s *job.Spec) { s.Constraints = []job.Constraint{{Field: "rack", Operator: job.Unique}} },
	} {
		if got := key(change); got == plain {
			t.Errorf("%s: the key does not depend on it", name)
		}
	}
	for name, change := range map[string]func(*job.Spec){
		"a name":     func(s *job.Spec) { s.Name = "two" },
		"a run time": func(s *job.Spec) { s.RunTime = time.Hour },
	} {
		if got := key(change); got != plain {
			t.Errorf("%s: the key is %q, want %q", name, got, plain)
		}
	}
	if key(func(s *job.Spec) { s.Ports = []job.Port{{Host: 8080}} }) == key(func(s *job.Spec) { s.Ports = []job.Port{{Host: 8081}} }) {
		t.Error("two host ports have one key")
	}
}

// Jobs of two roles are in different groups, even under one name.
func TestGroupsBelongToRoles(t *testing.T) {
	a, b := &job.Spec{Role: "a", Group: "web"}, &job.Spec{Role: "b", Group: "web"}
	if GroupKeyOf(a) == GroupKeyOf(b) || GroupKeyOf(a) != (GroupKey{"a", "web"}) {
		t.Errorf("groups are %v and %v", GroupKeyOf(a), GroupKeyOf(b))
	}
}
