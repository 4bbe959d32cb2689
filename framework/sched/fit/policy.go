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
	// Patterns, if set, stores what constraints match from one cluster to the next.
	Patterns *PatternCache
}

// policyTable returns all policies, the default first.
func policyTable() []placementScorer {
	return []placementScorer{
		{
			name:             "headroom",
			scoreState:       scoreBinpack,
			scoreTask:        scoreHeadroom,
			chooseSlot:       chooseLeastFragmentedSlot,
			usesTypicalTasks: true,
			surveysScarcity:  true,
			isExpensive:      true,
		},
		{name: "binpack", scoreState: scoreBinpack},
		{name: "spread", scoreState: scoreSpread, prefersRoomy: true},
		{name: "fgd", scoreState: scoreBinpack, scoreTask: scoreFragmentation, chooseSlot: chooseLeastFragmentedSlot, usesTypicalTasks: true, isExpensive: true},
		{name: "topology", scoreState: scoreBinpack, scoreTask: scoreTopology, isExpensive: true},
		{name: "random", scoreState: scoreBinpack, scoreTask: scoreEqually, chooseSlot: chooseRandomSlot, drawsLots: true, isBaseline: true},
		{name: "dotprod", scoreState: scoreBinpack, scoreTask: scoreAlignment, isBaseline: true},
		{name: "clustering", scoreState: scoreBinpack, scoreTask: scoreClustering, usesTaskMix: true, isBaseline: true},
		{name: "packing", scoreState: scoreBinpack, scoreTask: scorePacking, isBaseline: true},
		{name: "bestfit", scoreState: scoreBinpack, scoreTask: scoreBestFit, isBaseline: true},
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

// ValidatePolicyName returns an error that lists the valid names if name is not one of them.
func ValidatePolicyName(name string, valid []string) error {
	if !slices.Contains(valid, name) {
		return fmt.Errorf("policy %q is not one of %s", name, strings.Join(valid, ", "))
	}
	return nil
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
