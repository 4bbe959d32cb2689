package queue

import (
	"slices"
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
	anyPort := []job.Port{{}} // a gang has one for its peers
	if key(func(s *job.Spec) { s.Ports = anyPort }) == key(func(s *job.Spec) { s.Ports, s.Gang = anyPort, true }) {
		t.Error("a gang and other tasks with its port have one key")
	}
}

// Jobs of two roles are in different groups, even under one name.
func TestGroupsBelongToRoles(t *testing.T) {
	a, b := &job.Spec{Role: "a", Group: "web"}, &job.Spec{Role: "b", Group: "web"}
	if GroupKeyOf(a) == GroupKeyOf(b) || GroupKeyOf(a) != (GroupKey{"a", "web"}) {
		t.Errorf("groups are %v and %v", GroupKeyOf(a), GroupKeyOf(b))
	}
}

// Each attempt draws its host ports at random from another seed; attempts without ports need none.
func TestPortSeedDependsOnAttempt(t *testing.T) {
	demand := func(ports []job.Port, ids ...string) fit.Demand {
		w := WaitingJob{Spec: &job.Spec{Name: "web", Tasks: len(ids), Container: job.Container{Ports: ports}}}
		for i, id := range ids {
			w.Tasks = append(w.Tasks, WaitingTask{ID: id, Index: i})
		}
		return w.TaskDemand(fit.Amount{}, nil)
	}
	anyPort := []job.Port{{}}
	first := demand(anyPort, "web.0.1")
	if first.PortSeed == 0 || first.PortSeed != demand(anyPort, "web.0.1", "web.1.1").PortSeed || first.PortSeed == demand(anyPort, "web.0.2").PortSeed {
		t.Errorf("seeds are %d for the first attempt, %d for the second", first.PortSeed, demand(anyPort, "web.0.2").PortSeed)
	}
	if got := demand(nil, "web.0.1").PortSeed; got != 0 {
		t.Errorf("a task without ports has the seed %d", got)
	}
	if got := demand(anyPort).PortSeed; got != 0 {
		t.Errorf("a job without waiting tasks has the seed %d", got)
	}
	if got := demand([]job.Port{{}, {Host: 80}}, "web.0.1").HostPorts; first.HostPorts != nil || !slices.Equal(got, []int{0, 80}) {
		t.Errorf("fixed ports are %v for any port, %v with port 80", first.HostPorts, got)
	}
}
