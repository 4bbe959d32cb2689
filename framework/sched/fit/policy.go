package fit

import (
	"fmt"
	"slices"
	"strings"
)

// PlacementPolicy says where tasks go.
type PlacementPolicy struct {
	// Name is one of Policies; empty is the first of them.
	Name string
	// Typical is the workload for which headroom and fgd keep GPUs usable.
	// Without one they place as binpack does.
	Typical []TypicalTask
	// Seed is what lots are drawn by where the policy draws any.
	Seed uint64
}

// TypicalTask is a task that a cluster sees often. Of its demand the amount, the
// GPUs and what they must be count; constraints and roles do not.
type TypicalTask struct {
	Demand Demand
	// Weight says how often, in any unit.
	Weight float64
}

// placementScorer is one policy.
type placementScorer struct {
	name string
	// scoreTask says how good an agent is for one task that fits: above 0, and
	// more is better. Among equals the first by id wins. nil: what plain says.
	scoreTask func(c *Cluster, i int, cl *demandClass) int64
	// scoreState says how good an agent is whatever the task, from 1 to maxAgentScore.
	scoreState func(r *agentCapacity, gpuMilli int64) int64
	// chooseSlot chooses the slot for one part of a device, roomy says how slots
	// for several are: those with most left, or least.
	chooseSlot   func(c *Cluster, i int, cl *demandClass) int
	prefersRoomy bool
	// usesTypicalTasks: it needs to know the typical tasks, company: who is on an agent.
	usesTypicalTasks, usesTaskMix bool
	// limitsByCPUs: GPUs are usable only as far as the CPUs go.
	limitsByCPUs bool
	// isExpensive: ranking takes longer than finding out which agents are equal.
	isExpensive bool
	// drawsLots are drawn among equals; else the first by id wins.
	drawsLots bool
	seed      uint64
	// isBaseline: from the literature, to compare others with.
	isBaseline bool
}

// policyTable is the table of all policies.
func policyTable() []placementScorer {
	return []placementScorer{
		{name: "headroom", scoreState: scoreBinpack, scoreTask: scoreHeadroom, chooseSlot: chooseLeastFragmentedSlot, usesTypicalTasks: true, limitsByCPUs: true, isExpensive: true},
		{name: "binpack", scoreState: scoreBinpack, chooseSlot: chooseTightestSlot},
		{name: "spread", scoreState: scoreSpread, chooseSlot: chooseRoomiestSlot, prefersRoomy: true},
		{name: "fgd", scoreState: scoreBinpack, scoreTask: scoreFragmentation, chooseSlot: chooseLeastFragmentedSlot, usesTypicalTasks: true, isExpensive: true},
		{name: "topology", scoreState: scoreBinpack, scoreTask: scoreTopology, chooseSlot: chooseTightestSlot, isExpensive: true},
		{name: "random", scoreState: scoreBinpack, scoreTask: scoreEqually, chooseSlot: chooseRandomSlot, drawsLots: true, isBaseline: true},
		{name: "dotprod", scoreState: scoreBinpack, scoreTask: scoreAlignment, chooseSlot: chooseTightestSlot, isBaseline: true},
		{name: "clustering", scoreState: scoreBinpack, scoreTask: scoreClustering, chooseSlot: chooseTightestSlot, usesTaskMix: true, isBaseline: true},
		{name: "packing", scoreState: scoreBinpack, scoreTask: scorePacking, chooseSlot: chooseTightestSlot, isBaseline: true},
		{name: "bestfit", scoreState: scoreBinpack, scoreTask: scoreBestFit, chooseSlot: chooseTightestSlot, isBaseline: true},
	}
}

// PolicyNames lists those that a scheduler may use, the default first.
func PolicyNames() []string { return listPolicyNames(false) }

// BaselineNames lists those from the literature, to compare others with. They
// know of an agent's tasks only what the cluster itself placed.
func BaselineNames() []string { return listPolicyNames(true) }

func listPolicyNames(baseline bool) []string {
	var list []string
	for _, s := range policyTable() {
		if s.isBaseline == baseline {
			list = append(list, s.name)
		}
	}
	return list
}

// ParsePolicy returns the policy of that name, which is one of Policies. Its
// error names those there are.
func ParsePolicy(name string) (PlacementPolicy, error) {
	if list := PolicyNames(); !slices.Contains(list, name) {
		return PlacementPolicy{}, fmt.Errorf("policy %q is none of %s", name, strings.Join(list, ", "))
	}
	return PlacementPolicy{Name: name}, nil
}

// findScorer finds the policy in the table; one of no known name is the default.
func (p *PlacementPolicy) findScorer() *placementScorer {
	table := policyTable()
	for i := range table {
		if table[i].name == p.Name {
			table[i].seed = p.Seed
			return &table[i]
		}
	}
	return &table[0]
}
