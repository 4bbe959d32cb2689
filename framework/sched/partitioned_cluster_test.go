package sched

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Each role's agents are placed on by its own policy, and all leave the ports
// that a job waits for by number. What is taken, given back, released and
// reserved there is that of the right agent.
func TestClustersByPolicy(t *testing.T) {
	agent := func(id, role string, cpus float64) fit.AgentResources {
		return fit.AgentResources{ID: id, Role: role, Free: Amount{CPUs: cpus}, Ports: []fit.PortRange{{First: 8080, Last: 8081}}}
	}
	p := &Policy{Fit: fit.PlacementPolicy{Name: "binpack"}, Roles: []Role{{Name: "packs"}, {Name: "spreads", FitPolicy: "spread"}}}
	c := newPartitionedCluster([]fit.AgentResources{agent("a", "packs", 4), agent("a", "spreads", 4), agent("b", "packs", 2), agent("b", "spreads", 2)}, p, time.Time{})
	c.avoidPorts([]int{8080})
	place := func(role string, beyond bool) (string, []int) {
		d := &fit.Demand{Role: role, Amount: Amount{CPUs: 1}, Ports: 1, AvoidReserved: beyond}
		spots := c.fillPlacements(d, 1)
		if len(spots) == 0 {
			return "", nil
		}
		c.undoPlacements(d, spots)
		a := &c.agents[spots[0].Agent]
		if a.Role != role {
			t.Errorf("a task of %s is on an agent offered to %s", role, a.Role)
		}
		return a.ID, spots[0].Ports
	}
	for role, want := range map[string]string{"packs": "b", "spreads": "a"} {
		for range 2 { // nothing is left of what was undone
			got, ports := place(role, false)
			if diff := cmp.Diff([]int{8081}, ports); got != want || diff != "" {
				t.Errorf("a task of %s is on %s, want %s; its port (-want +got):\n%s", role, got, want, diff)
			}
		}
	}
	c.releaseHolding("b", "spreads", fit.TaskResources{Amount: Amount{CPUs: 8}})
	if got, _ := place("spreads", false); got != "b" {
		t.Errorf("after tasks on b ended one is on %s, want b", got)
	}
	c.reserveHolding("b", "spreads", fit.TaskResources{Amount: Amount{CPUs: 10}})
	if got, _ := place("spreads", true); got != "a" {
		t.Errorf("beside what is kept on b one is on %s, want a", got)
	}
	if got, _ := place("packs", true); got != "b" {
		t.Errorf("what is kept of another role's has one on %s, want b", got)
	}
}

// Jobs are of one wish whose demands find the same places, however long they
// run.
func TestDemandNumbersAreBounded(t *testing.T) {
	p := testPolicy()
	wish := func(change func(*job.Spec)) string {
		s := testSpec("one")
		s.Tasks, s.Request.GPUs = 2, 1
		if change != nil {
			change(&s)
		}
		d := (&WaitingJob{Spec: &s}).taskDemand(&p, nil)
		return demandKeyOf(&d, &s)
	}
	plain := wish(nil)
	for name, change := range map[string]func(*job.Spec){
		"a host port":  func(s *job.Spec) { s.Ports = []job.Port{{Host: 8080}} },
		"another port": func(s *job.Spec) { s.Ports = []job.Port{{Host: 8081}} },
		"any port":     func(s *job.Spec) { s.Ports = []job.Port{{}} },
		"a share":      func(s *job.Spec) { s.Request.Share = gpu.ShareRequest{MemMiB: 4000} },
		"with cores":   func(s *job.Spec) { s.Request.Share = gpu.ShareRequest{MemMiB: 4000, Cores: 10} },
		"memory":       func(s *job.Spec) { s.MemMiB++ },
		"a type":       func(s *job.Spec) { s.Request.Types.Include = []string{"A100"} },
		"a role":       func(s *job.Spec) { s.Role = "other" },
		"a constraint": func(s *job.Spec) { s.Constraints = []job.Constraint{{Field: "rack", Operator: job.Unique}} },
	} {
		if got := wish(change); got == plain {
			t.Errorf("%s: the wish is as without", name)
		}
	}
	for name, change := range map[string]func(*job.Spec){
		"a name":     func(s *job.Spec) { s.Name = "two" },
		"a run time": func(s *job.Spec) { s.RunTime = time.Hour },
	} {
		if got := wish(change); got != plain {
			t.Errorf("%s: the wish is %q, want %q", name, got, plain)
		}
	}
	if wish(func(s *job.Spec) { s.Ports = []job.Port{{Host: 8080}} }) == wish(func(s *job.Spec) { s.Ports = []job.Port{{Host: 8081}} }) {
		t.Error("two host ports are one wish")
	}
}
