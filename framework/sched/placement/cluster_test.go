package placement

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// The fit policy of each role ranks its agents, and all partitions avoid the ports that a job requests by number.
// Placing, undoing, releasing and reserving reach the right agent.
func TestRoleIsPlacedByItsFitPolicy(t *testing.T) {
	agent := func(id, role string, cpus float64) fit.AgentResources {
		return fit.AgentResources{ID: id, Role: role, Free: fit.Amount{CPUs: cpus}, Ports: []fit.PortRange{{First: 8080, Last: 8081}}}
	}
	p := &Policy{Fit: fit.PlacementPolicy{Name: "binpack"}, Roles: []queue.Role{{Name: "packs"}, {Name: "spreads", FitPolicy: "spread"}}}
	c := NewPartitionedCluster([]fit.AgentResources{agent("a", "packs", 4), agent("a", "spreads", 4), agent("b", "packs", 2), agent("b", "spreads", 2)},
		p, time.Time{})
	spec := &job.Spec{}
	spec.Ports = []job.Port{{Host: 8080}}
	NewAllocator(c, &PlanInput{Waiting: []queue.WaitingJob{{Spec: spec}}}, p) // makes the partitions avoid the port
	place := func(role string, avoidReserved bool) (string, []int) {
		d := &fit.Demand{Role: role, Amount: fit.Amount{CPUs: 1}, Ports: 1, AvoidReserved: avoidReserved}
		places := c.PlaceTasks(d, 1)
		if len(places) == 0 {
			return "", nil
		}
		c.UndoPlacements(d, places)
		a := &c.agents[places[0].Agent]
		if a.Role != role {
			t.Errorf("a task of %s is on an agent offered to %s", role, a.Role)
		}
		return a.ID, places[0].Ports
	}
	for role, want := range map[string]string{"packs": "b", "spreads": "a"} {
		for range 2 { // the second round finds no trace of the undone placements
			got, ports := place(role, false)
			if diff := cmp.Diff([]int{8081}, ports); got != want || diff != "" {
				t.Errorf("a task of %s is on %s, want %s; its port (-want +got):\n%s", role, got, want, diff)
			}
		}
	}
	c.partition("spreads").ReleaseResources("b", "spreads", fit.TaskResources{Amount: fit.Amount{CPUs: 8}})
	if got, _ := place("spreads", false); got != "b" {
		t.Errorf("after tasks on b ended one is on %s, want b", got)
	}
	c.partition("spreads").ReserveResources("b", "spreads", fit.TaskResources{Amount: fit.Amount{CPUs: 10}})
	if got, _ := place("spreads", true); got != "a" {
		t.Errorf("with a reservation on b the task is placed on %s, want a", got)
	}
	if got, _ := place("packs", true); got != "b" {
		t.Errorf("with a reservation of another role the task is placed on %s, want b", got)
	}
}
