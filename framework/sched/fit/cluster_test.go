package fit

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mesos-gpu/gpu"
)

// Neither the order of the agents nor a second run changes a result, and arguments
// are not modified.
func TestClusterIgnoresOrderAndKeepsArguments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		agents, p := genAgents(t, 5), genPolicy(t)
		var demands []*Demand
		for range rapid.IntRange(1, 5).Draw(t, "demands") {
			demands = append(demands, genDemand(t, true))
		}
		play := func(agents []AgentResources) (text string) {
			c := NewCluster(agents, p, noon)
			for i, d := range demands {
				for _, s := range c.PlaceTasks(d, i+1) {
					a := c.Agents()[s.Agent]
					text += fmt.Sprintln(a.ID, a.Role, s)
				}
				text += fmt.Sprintln(c.ExplainShortage(d))
			}
			return text
		}
		before := fmt.Sprintf("%+v %+v", agents, p)
		want := play(agents)
		if after := fmt.Sprintf("%+v %+v", agents, p); after != before {
			t.Fatalf("arguments were\n%s\nand are\n%s", before, after)
		}
		if diff := cmp.Diff(want, play(rapid.Permutation(agents).Draw(t, "order"))); diff != "" {
			t.Fatalf("a different order gives a different result (-first +second):\n%s", diff)
		}
	})
}

// TestFirstDemandByBruteForce checks that all tasks of a demand fit exactly if some
// combination of agents and devices works.
func TestFirstDemandByBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		agents, d := genAgents(t, 3), genDemand(t, false)
		if d.Request.Topology == gpu.NVLink {
			d.Request.Topology = gpu.SameNUMA // which pairs to take so that most pairs are left is another problem
		}
		n := rapid.IntRange(1, 3).Draw(t, "tasks")
		c := NewCluster(agents, genPolicy(t), noon)
		got := len(c.PlaceTasks(d, n)) == n
		if want := bruteForce(newNaive(NewCluster(agents, PlacementPolicy{}, noon).Agents(), noon), d, n); got != want {
			t.Fatalf("placed: %t, by brute force: %t", got, want)
		}
	})
}

// bruteForce tries each agent and each choice of devices for each task, without a
// policy.
func bruteForce(n *naiveCluster, d *Demand, tasks int) bool {
	if tasks == 0 {
		return true
	}
	for i := range n.agents {
		if !n.fitsTask(i, d) {
			continue
		}
		for _, ids := range possibleChoices(&n.agents[i], d) {
			s := Placement{Agent: i, DeviceIDs: ids, GPUs: d.Request.GPUs, Ports: naiveTakePorts(&n.agents[i], d)}
			if !d.Request.Share.IsWhole() && d.Request.GPUs > 0 {
				s.DeviceIDs, s.Shares = nil, n.agents[i].sharesFor(d, ids)
			}
			n.applyPlacement(d, s, -1)
			ok := bruteForce(n, d, tasks-1)
			n.applyPlacement(d, s, 1)
			if ok {
				return true
			}
		}
	}
	return false
}

// sharesFor returns the shares of these devices.
func (a *naiveAgent) sharesFor(d *Demand, ids []string) (parts []gpu.DeviceShare) {
	for _, id := range ids {
		p := gpu.DeviceShare{UUID: id, MemMiB: int64(milliOfShare(d.Request.Share))}
		if !a.facts.Divisible {
			mem, cores := a.shareTaken(d.Request.Share, id)
			p.MemMiB, p.Cores = mem, int(cores)
		}
		parts = append(parts, p)
	}
	return parts
}

// naiveTakePorts returns the demand's required ports, and the lowest for the others.
func naiveTakePorts(a *naiveAgent, d *Demand) []int {
	var others []int
	for p := range a.ports {
		if !slices.Contains(d.HostPorts, p) {
			others = append(others, p)
		}
	}
	slices.Sort(others)
	ports := make([]int, d.Ports)
	copy(ports, d.HostPorts)
	for i, p := range ports {
		if p == 0 {
			ports[i], others = others[0], others[1:]
		}
	}
	return ports
}

// possibleChoices returns all sets of devices that one task may get.
func possibleChoices(a *naiveAgent, d *Demand) [][]string {
	if !a.named || d.Request.GPUs == 0 {
		return [][]string{nil}
	}
	var good []string
	for id, free := range a.parts {
		if free == wholeDevice && naiveAcceptsDevice(d.Request, a.findDevice(id)) && a.gpus > 0 {
			good = append(good, id)
		}
	}
	if !d.Request.Share.IsWhole() {
		good = a.shareSlots(d, a.gpus)
		d = &Demand{Request: gpu.Request{GPUs: d.Request.GPUs}} // parts have no topology
	}
	var sets [][]string
	var grow func(from int, set []string)
	grow = func(from int, set []string) {
		if len(set) == d.Request.GPUs {
			var devices []gpu.Device
			for _, id := range set {
				devices = append(devices, a.findDevice(id))
			}
			if naiveSatisfiesTopology(d.Request.Topology, devices) {
				sets = append(sets, slices.Clone(set))
			}
			return
		}
		for i := from; i < len(good); i++ {
			grow(i+1, append(set, good[i]))
		}
	}
	grow(0, nil)
	return sets
}

// Changes to a clone do not affect the original, and the other way round.
func TestClone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newClusterPair(genAgents(t, 4), PlacementPolicy{})
		d, other := genDemand(t, true), genDemand(t, true)
		m.checkPlaceTasks(t, d, 1)
		clone := m.cluster.Clone()
		still := clone.Clone()
		clone.PlaceTasks(other, 3)
		for _, a := range clone.Agents() {
			h := TaskResources{Amount{CPUs: 1}, 1, []string{"GPU-new"}, []gpu.DeviceShare{{UUID: "GPU-part", MemMiB: 1}}, []int{1}}
			clone.ReleaseResources(a.ID, a.Role, h)
			clone.ReserveResources(a.ID, a.Role, h)
		}
		m.checkEqual(t)
		want := still.PlaceTasks(other, 2)
		if diff := cmp.Diff(want, m.cluster.PlaceTasks(other, 2)); diff != "" {
			t.Fatalf("the original has changed (-want +got):\n%s", diff)
		}
	})
}

// A device that the agent did not list is released while devices are reserved. The
// reservation stays on its devices, although their slots move.
func TestReservationSurvivesNewDevice(t *testing.T) {
	a := AgentResources{ID: "a", Types: []string{"V100"}, GPUs: 2, DeviceIDs: []string{"b", "c"}}
	c := NewCluster([]AgentResources{a}, PlacementPolicy{}, noon)
	c.ReserveResources("a", "", TaskResources{GPUs: 1, DeviceIDs: []string{"b"}})
	c.ReleaseResources("a", "", TaskResources{GPUs: 1, DeviceIDs: []string{"a"}})
	spots := c.PlaceTasks(&Demand{Request: gpu.Request{GPUs: 1}, AvoidReserved: true}, 3)
	if len(spots) != 2 || spots[0].DeviceIDs[0] != "a" || spots[1].DeviceIDs[0] != "c" {
		t.Errorf("got %+v, want a and c", spots)
	}
}

// Rankings that were evicted are computed again.
func TestRankingCacheEvictsOldest(t *testing.T) {
	c := NewCluster([]AgentResources{countedGPUs("a", 0, 4), countedGPUs("b", 0, 8)}, PlacementPolicy{}, noon)
	c.rankings.SetLimit(1)
	small, large := &Demand{Amount: Amount{CPUs: 1}}, &Demand{Amount: Amount{CPUs: 6}}
	for _, want := range []struct {
		d     *Demand
		agent int
	}{{small, 0}, {large, 1}, {small, 1}, {small, 1}, {large, -1}, {small, 0}} {
		spots := c.PlaceTasks(want.d, 2)
		got := -1
		if len(spots) > 0 {
			got = spots[0].Agent
		}
		if len(spots) > 1 {
			c.UndoPlacements(want.d, spots[1:])
		}
		if got != want.agent {
			t.Errorf("demand %+v is placed on agent %d, want %d", want.d.Amount, got, want.agent)
		}
		if c.rankings.Len() > 1 {
			t.Errorf("%d rankings are cached, want 1", c.rankings.Len())
		}
	}
}
