package fit

import (
	"fmt"
	"slices"
	"strings"
)

// PlacementPolicy determines which feasible agent and devices a task gets.
type PlacementPolicy struct {
	// Name is one of PolicyNames or BaselineNames; empty is the default.
	Name string
	// Typical is the workload for which the policies headroom and fgd keep GPUs
	// usable. If it is empty, they place as binpack does.
	Typical []TypicalTask
	// Seed is the seed of policies that draw lots.
	Seed uint64
}

// TypicalTask is a task that the cluster runs often. Only its amounts and its GPU
// request matter, not its constraints and role.
type TypicalTask struct {
	Demand Demand
	// Weight is how often it arrives, in any unit.
	Weight float64
}

// placementScorer is the implementation of one policy.
type placementScorer struct {
	name string
	// scoreTask scores a feasible agent for one task: above 0, more is better. Among equal scores the first agent by
	// ID wins. If it is nil, scoreState is the score.
	scoreTask func(c *Cluster, i int, cl *demandClass) int64
	// scoreState scores an agent for any task, from 1 to maxAgentScore.
	scoreState func(r *agentCapacity, gpuMilli int64) int64
	// chooseSlot chooses the slot for one share. prefersRoomy determines which slots several shares come from: those
	// with the most left, or the least.
	chooseSlot   func(c *Cluster, i int, cl *demandClass) int
	prefersRoomy bool
	// usesTypicalTasks and usesTaskMix are set if the policy needs these data.
	usesTypicalTasks, usesTaskMix bool
	// limitsByCPUs is set if GPUs for which the agent lacks CPUs count as partly unusable.
	limitsByCPUs bool
	// isExpensive is set if a score costs more than stateNumberOf.
	isExpensive bool
	// drawsLots is set if lots decide between equals.
	drawsLots bool
	seed      uint64
	// isBaseline marks policies from the literature, for comparison.
	isBaseline bool
}

// policyTable returns all policies, the default first.
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

// PolicyNames returns the policies that a scheduler may use, the default first.
func PolicyNames() []string { return listPolicyNames(false) }

// BaselineNames returns the policies from the literature, for comparison. They
// take only those tasks into account that the cluster itself placed.
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

// ParsePolicy returns the policy of that name, which must be one of PolicyNames.
// Its error lists them.
func ParsePolicy(name string) (PlacementPolicy, error) {
	if list := PolicyNames(); !slices.Contains(list, name) {
		return PlacementPolicy{}, fmt.Errorf("policy %q is none of %s", name, strings.Join(list, ", "))
	}
	return PlacementPolicy{Name: name}, nil
}

// findScorer returns the implementation. An unknown name is the default.
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
