package hardware

import (
	"cmp"
	"slices"

	"mesos-gpu/framework/sched/fit/index"
	"mesos-gpu/gpu"
)

// Choice is a choice of slots on one agent.
type Choice struct {
	// Slots are the chosen slots.
	Slots []int
	// Links counts the NVLinks between them.
	Links int
	// OneNUMANode is set if all are on one known NUMA node.
	OneNUMANode bool
	// BrokenGroups counts the groups that were wholly free and are partly taken by the choice.
	BrokenGroups int
}

func (c *Class) chooseSlots(n int, candidates, free []int, topology gpu.Topology) Choice {
	slots := candidates[:min(n, len(candidates)):n]
	if n < len(candidates) && !(c.isUniform && len(c.groupSize) <= 1) {
		s := choiceSearch{class: c, candidates: candidates, free: free, topology: topology}
		if countCombinations(len(candidates), n) <= maxCombinations {
			s.tryAll(make([]int, 0, n), 0, n)
		} else {
			s.tryGrown(n)
		}
		slots = s.best.slots
	}
	return c.describeChoice(slots, free)
}

func (c *Class) describeChoice(slots, free []int) Choice {
	return Choice{slots, c.linksAmong(slots), c.onOneNUMANode(slots), c.countBrokenGroups(slots, free)}
}

// DescribeChoice returns the choice of these slots of the free ones.
func (c *Class) DescribeChoice(slots []int, free index.Bits) Choice {
	return c.describeChoice(slots, slices.Collect(free.All()))
}

// HaveOneModel reports whether all slots of a mask are of one model.
func (c *Class) HaveOneModel(mask index.Bits) bool {
	return c.hasOneModel(slices.Collect(mask.All()))
}

// maxCombinations is how many choices are compared one by one. If there are more, only choices are compared that
// start with one device and add its nearest neighbours.
const maxCombinations = 20_000

// countCombinations returns n over k, capped at maxCombinations + 1.
func countCombinations(n, k int) int {
	k = min(k, n-k)
	w := 1
	for i := 1; i <= k; i++ {
		if w = w * (n - k + i) / i; w > maxCombinations {
			return maxCombinations + 1
		}
	}
	return w
}

// choiceSearch compares choices of slots of one class.
type choiceSearch struct {
	// class is the hardware on which devices are chosen for the topology.
	class *Class
	// candidates may be chosen. free are all free slots, in ascending order both.
	candidates, free []int
	topology         gpu.Topology
	// best is the best choice so far; its slots are nil if none satisfies the topology.
	best slotChoice
}

// slotChoice is a set of slots and its criteria, the most important first. Among equal choices, the lowest minors
// win. A choice with several models has no further criteria.
type slotChoice struct {
	slots       []int
	oneModel    bool
	links       int
	oneNUMANode bool
	// largestGroupLeft counts the free slots in the largest group after the choice.
	largestGroupLeft int
	// modelLeft counts the candidates of the same model after the choice; fewer are better.
	modelLeft int
}

func (s *choiceSearch) tryAll(chosen []int, from, n int) {
	if len(chosen) == n {
		s.tryChoice(chosen)
		return
	}
	for i := from; i <= len(s.candidates)-(n-len(chosen)); i++ {
		s.tryAll(append(chosen, s.candidates[i]), i+1, n)
	}
}

// tryGrown compares, for each slot, the n slots that start with it and add the nearest: among all slots, and among
// those of its model.
func (s *choiceSearch) tryGrown(n int) {
	for _, seed := range s.candidates {
		for _, same := range []bool{true, false} {
			if slots := s.growFrom(seed, n, same); slots != nil {
				slices.Sort(slots)
				s.tryChoice(slots)
			}
		}
	}
}

func (s *choiceSearch) growFrom(seed, n int, same bool) []int {
	k := s.class
	slots := []int{seed}
	for len(slots) < n {
		next, most := -1, [2]int{-1, -1}
		for _, c := range s.candidates {
			if slices.Contains(slots, c) || same && k.Slots[c].Model != k.Slots[seed].Model {
				continue
			}
			links, near := 0, 0
			for _, have := range slots {
				links += k.linksBetween(c, have)
			}
			if k.Slots[c].NUMA == k.Slots[seed].NUMA {
				near = 1
			}
			if s.topology == gpu.NVLink && links == 0 || s.topology == gpu.SameNUMA && near == 0 {
				continue
			}
			if score := [2]int{links, near}; score[0] > most[0] || score[0] == most[0] && score[1] > most[1] {
				next, most = c, score
			}
		}
		if next < 0 {
			return nil
		}
		slots = append(slots, next)
	}
	return slots
}

// tryChoice stores the choice if it satisfies the topology and is better than the
// best so far.
func (s *choiceSearch) tryChoice(slots []int) {
	k := s.class
	if !k.satisfiesTopology(s.topology, slots) {
		return
	}
	c := slotChoice{slots: slots, oneModel: k.hasOneModel(slots)}
	if c.oneModel { // devices of different models are not compared further
		c.links, c.oneNUMANode = k.linksAmong(slots), k.onOneNUMANode(slots)
		c.largestGroupLeft = k.largestGroupLeft(slots, s.free)
		c.modelLeft = k.countModelLeft(slots, s.candidates)
	}
	if s.best.slots == nil || c.isBetter(&s.best) {
		c.slots = slices.Clone(slots)
		s.best = c
	}
}

func (c *slotChoice) isBetter(b *slotChoice) bool {
	return cmp.Or(
		compareBool(c.oneModel, b.oneModel), cmp.Compare(c.links, b.links), compareBool(c.oneNUMANode, b.oneNUMANode),
		cmp.Compare(c.largestGroupLeft, b.largestGroupLeft), cmp.Compare(b.modelLeft, c.modelLeft), slices.Compare(b.slots, c.slots),
	) > 0
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}

func (c *Class) linksBetween(i, j int) int {
	if c.links == nil {
		return 0
	}
	return c.links[i][j]
}

func (c *Class) linksAmong(slots []int) int {
	n := 0
	for i, a := range slots {
		for _, b := range slots[:i] {
			n += c.linksBetween(a, b)
		}
	}
	return n
}

func (c *Class) hasOneModel(slots []int) bool {
	return !slices.ContainsFunc(slots, func(s int) bool { return c.Slots[s].Model != c.Slots[slots[0]].Model })
}

// onOneNUMANode reports whether all slots are on one known NUMA node.
func (c *Class) onOneNUMANode(slots []int) bool {
	for _, s := range slots {
		if c.Slots[s].NUMA < 0 || c.Slots[s].NUMA != c.Slots[slots[0]].NUMA {
			return false
		}
	}
	return true
}

// largestGroupLeft returns the size of the largest group of free slots after the
// choice.
func (c *Class) largestGroupLeft(chosen, free []int) int {
	if len(c.groupSize) == 0 {
		return 0
	}
	left := c.countByGroup(free)
	for _, s := range chosen {
		if g := c.groupOf[s]; g >= 0 {
			left[g]--
		}
	}
	return slices.Max(left)
}

// countBrokenGroups counts the groups that were wholly free and are partly taken
// by the choice.
func (c *Class) countBrokenGroups(chosen, free []int) int {
	broken := 0
	taken, wasFree := c.countByGroup(chosen), c.countByGroup(free)
	for g, size := range c.groupSize {
		if wasFree[g] == size && taken[g] > 0 && taken[g] < size {
			broken++
		}
	}
	return broken
}

// countByGroup counts the slots of each group.
func (c *Class) countByGroup(slots []int) []int {
	count := make([]int, len(c.groupSize))
	for _, s := range slots {
		if g := c.groupOf[s]; g >= 0 {
			count[g]++
		}
	}
	return count
}

func (c *Class) countModelLeft(chosen, candidates []int) int {
	n := -len(chosen)
	for _, s := range candidates {
		if c.Slots[s].Model == c.Slots[chosen[0]].Model {
			n++
		}
	}
	return n
}

func (c *Class) satisfiesTopology(t gpu.Topology, slots []int) bool {
	switch {
	case len(slots) <= 1 || t == "":
		return true
	case t == gpu.NVLink:
		return c.links != nil && c.countReachable(slots, make([]bool, len(slots)), 0) == len(slots)
	default:
		return c.onOneNUMANode(slots)
	}
}

// countReachable counts the slots that links connect with one of them.
func (c *Class) countReachable(slots []int, seen []bool, from int) int {
	seen[from] = true
	n := 1
	for i, s := range slots {
		if !seen[i] && c.links[slots[from]][s] > 0 {
			n += c.countReachable(slots, seen, i)
		}
	}
	return n
}

// LargestGroup returns how many of the slots one task with that topology may have.
func (c *Class) LargestGroup(t gpu.Topology, mask index.Bits) int {
	slots := slices.AppendSeq(make([]int, 0, 64), mask.All())
	most := min(len(slots), 1)
	if t == gpu.NVLink {
		if c.links == nil {
			return most
		}
		seen := make([]bool, len(slots))
		for i := range slots {
			if !seen[i] {
				most = max(most, c.countReachable(slots, seen, i))
			}
		}
		return most
	}
	for i, s := range slots {
		n := 0
		for _, o := range slots[i:] {
			if c.Slots[s].NUMA >= 0 && c.Slots[s].NUMA == c.Slots[o].NUMA {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
