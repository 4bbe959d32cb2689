package fit

import "slices"

// typicalPercent is how many percent of all tasks the typical tasks represent (Q. Weng et al., "Beware of Fragmentation",
// USENIX ATC 2023).
const typicalPercent = 95

// TypicalTask is a kind of task that the cluster runs often. Only its amounts and its GPU request matter, not its
// constraints and role.
type TypicalTask struct {
	Demand Demand
	// Weight is how often it arrives, in any unit.
	Weight float64
	// Rare is set for a kind that is not typical but requires GPUs of certain types. It only makes these types scarce.
	Rare bool
}

// SelectTypicalTasks returns the first of the kinds, which are sorted by weight, that make up 95 % of all tasks, at most
// limit. If none of them requires certain GPU types, it adds as rare ones at most limit of the others that do: where few
// tasks name a type, no kind of them is frequent, and all together would be forgotten.
func SelectTypicalTasks(kinds []TypicalTask, limit int) []TypicalTask {
	all, covered, n := 0.0, 0.0, 0
	for i := range kinds {
		all += kinds[i].Weight
	}
	for n < min(len(kinds), limit) && 100*covered < typicalPercent*all {
		covered += kinds[n].Weight
		n++
	}
	list := slices.Clone(kinds[:n])
	if slices.ContainsFunc(list, TypicalTask.requiresTypes) {
		return list
	}
	for _, k := range kinds[n:] {
		if k.requiresTypes() && len(list) < n+limit {
			k.Rare = true
			list = append(list, k)
		}
	}
	return list
}

// requiresTypes reports whether the task accepts only GPUs of certain types or with enough memory.
func (k TypicalTask) requiresTypes() bool {
	r := &k.Demand.Request
	return r.GPUs > 0 && (!r.Types.AcceptsAny() || r.MinMemMiB > 0)
}
