package sim

import (
	"cmp"
	"iter"
	"slices"
)

// cpuBins is into how many bins the CPUs of an agent are divided by the search for patterns.
const cpuBins = 96

// patternSearch finds the pattern of most gain for an agent by dynamic programming over GPUs and CPUs. It rounds the CPUs of
// tasks down to bins and ignores memory, so that it never finds less than there is.
type patternSearch struct {
	problem *packingProblem
	group   *agentGroup
	// parts are tasks of one GPU or a part of it, sets those of several GPUs.
	parts, sets []patternItem
}

// patternItem is a group of tasks that may be in the pattern.
type patternItem struct {
	task int
	// units are of a GPU for tasks that take one or less, otherwise GPUs.
	units, bins int
	gain        float64
}

// addTask adds a group of tasks that gains something.
func (s *patternSearch) addTask(i int, gain float64) {
	if gain <= 0 {
		return
	}
	t := &s.problem.tasks[i]
	item := patternItem{task: i, units: t.milli / s.problem.milliUnit, gain: gain}
	if s.group.cpuMilli > 0 {
		item.bins = int(t.cpuMilli * cpuBins / s.group.cpuMilli)
	}
	if t.gpus == 1 {
		s.parts = append(s.parts, item)
		return
	}
	item.units = t.gpus
	s.sets = append(s.sets, item)
}

// withoutWorse returns the items of which no other gains as much and takes no more.
func withoutWorse(items []patternItem) (list []patternItem) {
	slices.SortFunc(items, func(a, b patternItem) int {
		return cmp.Or(cmp.Compare(b.gain, a.gain), cmp.Compare(a.units, b.units), cmp.Compare(a.bins, b.bins), cmp.Compare(a.task, b.task))
	})
	for _, item := range items {
		if !slices.ContainsFunc(list, func(o patternItem) bool { return o.units <= item.units && o.bins <= item.bins }) {
			list = append(list, item)
		}
	}
	return list
}

// Choices of a step of the dynamic program that takes no item.
const (
	skipUnit = -1
	skipBin  = -2
)

// gainTable has the most gain by units and bins, and the item that was added last for it.
type gainTable struct {
	items  []patternItem
	gain   [][cpuBins + 1]float64
	choice [][cpuBins + 1]int
}

// fillTable returns the table of the items, each of which may be taken several times, for 0 to units.
func fillTable(units int, items []patternItem) *gainTable {
	t := &gainTable{items, make([][cpuBins + 1]float64, units+1), make([][cpuBins + 1]int, units+1)}
	for u := range t.gain {
		for b := range t.gain[u] {
			best, choice := 0.0, skipUnit
			if u > 0 {
				best = t.gain[u-1][b]
			}
			if b > 0 && t.gain[u][b-1] > best {
				best, choice = t.gain[u][b-1], skipBin
			}
			for i := range items {
				item := &items[i]
				if item.units > u || item.bins > b {
					continue
				}
				if x := t.gain[u-item.units][b-item.bins] + item.gain; x > best {
					best, choice = x, i
				}
			}
			t.gain[u][b], t.choice[u][b] = best, choice
		}
	}
	return t
}

// takenItems yields the indexes of the items that have the most gain of all units and so many bins.
func (t *gainTable) takenItems(bins int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for unit := len(t.gain) - 1; unit > 0; {
			switch i := t.choice[unit][bins]; i {
			case skipUnit:
				unit--
			case skipBin:
				bins--
			default:
				if !yield(i) {
					return
				}
				unit, bins = unit-t.items[i].units, bins-t.items[i].bins
			}
		}
	}
}

// bestPattern returns the most gain of a pattern, and its tasks. It fills one GPU with parts first. An agent then takes sets,
// and GPUs that are filled with so many bins.
func (s *patternSearch) bestPattern() (most float64, tasks []int) {
	parts, sets := withoutWorse(s.parts), withoutWorse(s.sets)
	one := fillTable(milliPerGPU/s.problem.milliUnit, parts)
	items := sets
	full := &one.gain[len(one.gain)-1]
	for bins, gain := range full {
		if gain > 0 && (bins == 0 || gain > full[bins-1]) {
			items = append(items, patternItem{units: 1, bins: bins, gain: gain})
		}
	}
	all := fillTable(s.group.gpus, items)
	for i := range all.takenItems(cpuBins) {
		if i < len(sets) {
			tasks = append(tasks, sets[i].task)
			continue
		}
		for part := range one.takenItems(items[i].bins) {
			tasks = append(tasks, parts[part].task)
		}
	}
	return all.gain[s.group.gpus][cpuBins], tasks
}
