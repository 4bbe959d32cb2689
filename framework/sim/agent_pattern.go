package sim

import (
	"cmp"
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

// gainTable has the most gain by resources, and the item that was added last for it.
type gainTable struct {
	gain   [][cpuBins + 1]float64
	choice [][cpuBins + 1]int
}

func newGainTable(rows int) *gainTable {
	return &gainTable{make([][cpuBins + 1]float64, rows), make([][cpuBins + 1]int, rows)}
}

// bestPattern returns the most gain of a pattern, and its tasks.
func (s *patternSearch) bestPattern() (most float64, tasks []int) {
	s.parts, s.sets = withoutWorse(s.parts), withoutWorse(s.sets)
	one := s.fillGPU()
	all, takes := s.fillAgent(one)
	for gpus, bin := s.group.gpus, cpuBins; gpus > 0; {
		switch c := all.choice[gpus][bin]; {
		case c == skipBin:
			bin--
		case c == skipUnit:
			gpus--
		case c < len(s.sets):
			tasks = append(tasks, s.sets[c].task)
			gpus, bin = gpus-s.sets[c].units, bin-s.sets[c].bins
		default:
			cut := takes[c-len(s.sets)]
			tasks = append(tasks, s.tasksOfCut(one, cut)...)
			gpus, bin = gpus-1, bin-cut
		}
	}
	return all.gain[s.group.gpus][cpuBins], tasks
}

// fillGPU returns the most gain from one GPU by its units and by bins.
func (s *patternSearch) fillGPU() *gainTable {
	units := milliPerGPU / s.problem.milliUnit
	t := newGainTable(units + 1)
	for u := range t.gain {
		for b := range t.gain[u] {
			best, choice := 0.0, skipUnit
			if u > 0 {
				best = t.gain[u-1][b]
			}
			if b > 0 && t.gain[u][b-1] > best {
				best, choice = t.gain[u][b-1], skipBin
			}
			for i := range s.parts {
				item := &s.parts[i]
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

// tasksOfCut returns the tasks on a GPU that is filled with so many bins.
func (s *patternSearch) tasksOfCut(t *gainTable, bin int) (tasks []int) {
	for unit := len(t.gain) - 1; unit > 0; {
		switch c := t.choice[unit][bin]; c {
		case skipUnit:
			unit--
		case skipBin:
			bin--
		default:
			tasks = append(tasks, s.parts[c].task)
			unit, bin = unit-s.parts[c].units, bin-s.parts[c].bins
		}
	}
	return tasks
}

// fillAgent returns the most gain from an agent by its GPUs and by bins. Choices count the sets, then the bins of a filled
// GPU, which it returns.
func (s *patternSearch) fillAgent(one *gainTable) (t *gainTable, cuts []int) {
	full := &one.gain[len(one.gain)-1]
	for b := range full {
		if full[b] > 0 && (b == 0 || full[b] > full[b-1]) {
			cuts = append(cuts, b)
		}
	}
	t = newGainTable(s.group.gpus + 1)
	for g := range t.gain {
		for b := range t.gain[g] {
			best, choice := 0.0, skipUnit
			if g > 0 {
				best = t.gain[g-1][b]
			}
			if b > 0 && t.gain[g][b-1] > best {
				best, choice = t.gain[g][b-1], skipBin
			}
			for i := range s.sets {
				item := &s.sets[i]
				if item.units > g || item.bins > b {
					continue
				}
				if x := t.gain[g-item.units][b-item.bins] + item.gain; x > best {
					best, choice = x, i
				}
			}
			if g > 0 {
				for i, cut := range cuts {
					if cut > b {
						break
					}
					if x := t.gain[g-1][b-cut] + full[cut]; x > best {
						best, choice = x, len(s.sets)+i
					}
				}
			}
			t.gain[g][b], t.choice[g][b] = best, choice
		}
	}
	return t, cuts
}
