package fit

import (
	"cmp"
	"slices"

	"mesos-gpu/gpu"
)

// chosenDevices is a choice of slots on one agent, and its properties.
type chosenDevices struct {
	slots        []int
	links        int  // NVLinks between the slots
	oneNUMANode  bool // all are on one known NUMA node
	brokenGroups int  // groups that were wholly free and are now partly taken
}

func (k *hardwareClass) chooseSlots(n int, candidates, free []int, topology gpu.Topology) chosenDevices {
	if k.isUniform && k.groupCount <= 1 || n >= len(candidates) {
		return k.describeChoice(candidates[:n:n], free)
	}
	s := choiceSearch{hardware: k, candidates: candidates, free: free, topology: topology}
	if countCombinations(len(candidates), n) <= maxCombinations {
		s.tryAll(make([]int, 0, n), 0, n)
	} else {
		s.tryGrown(n)
	}
	return k.describeChoice(s.best.slots, free)
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

func (k *hardwareClass) describeChoice(slots, free []int) chosenDevices {
	return chosenDevices{slots: slots, links: k.linksAmong(slots), oneNUMANode: k.onOneNUMANode(slots), brokenGroups: k.countBrokenGroups(slots, free)}
}

// choiceSearch compares choices and stores the best.
type choiceSearch struct {
	hardware         *hardwareClass
	candidates, free []int
	topology         gpu.Topology
	best             slotChoice
}

// slotChoice is a set of slots and its criteria, the most important first. Among equal choices, the lowest minors
// win.
type slotChoice struct {
	slots            []int
	oneModel         bool
	links            int
	oneNUMANode      bool
	largestGroupLeft int // free slots in the largest group after the choice
	modelLeft        int // devices of the same model left
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
	k := s.hardware
	slots := []int{seed}
	for len(slots) < n {
		next, most := -1, [2]int{-1, -1}
		for _, c := range s.candidates {
			if slices.Contains(slots, c) || same && k.slots[c].model != k.slots[seed].model {
				continue
			}
			links, near := 0, 0
			for _, have := range slots {
				links += k.linksBetween(c, have)
			}
			if k.slots[c].numa == k.slots[seed].numa {
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
	k := s.hardware
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

func (k *hardwareClass) linksBetween(i, j int) int {
	if k.links == nil {
		return 0
	}
	return k.links[i][j]
}

func (k *hardwareClass) linksAmong(slots []int) int {
	if k.links == nil {
		return 0
	}
	n := 0
	for i, a := range slots {
		for _, b := range slots[:i] {
			n += k.links[a][b]
		}
	}
	return n
}

func (k *hardwareClass) hasOneModel(slots []int) bool {
	for _, s := range slots {
		if k.slots[s].model != k.slots[slots[0]].model {
			return false
		}
	}
	return true
}

// onOneNUMANode reports whether all slots are on one known NUMA node.
func (k *hardwareClass) onOneNUMANode(slots []int) bool {
	for _, s := range slots {
		if k.slots[s].numa < 0 || k.slots[s].numa != k.slots[slots[0]].numa {
			return false
		}
	}
	return true
}

// largestGroupLeft returns the size of the largest group of free slots after the
// choice.
func (k *hardwareClass) largestGroupLeft(chosen, free []int) int {
	if k.groupCount == 0 {
		return 0
	}
	size := make([]int, k.groupCount)
	most := 0
	for _, s := range free {
		if g := k.groupOf[s]; g >= 0 && !slices.Contains(chosen, s) {
			size[g]++
			most = max(most, size[g])
		}
	}
	return most
}

// countBrokenGroups counts the groups that were wholly free and are partly taken
// by the choice.
func (k *hardwareClass) countBrokenGroups(chosen, free []int) int {
	n := 0
	for g := range k.groupCount {
		in := func(list []int) int {
			n := 0
			for _, s := range list {
				if k.groupOf[s] == g {
					n++
				}
			}
			return n
		}
		size := 0
		for _, of := range k.groupOf {
			if of == g {
				size++
			}
		}
		if taken := in(chosen); in(free) == size && taken > 0 && taken < size {
			n++
		}
	}
	return n
}

func (k *hardwareClass) countModelLeft(chosen, candidates []int) int {
	n := -len(chosen)
	for _, s := range candidates {
		if k.slots[s].model == k.slots[chosen[0]].model {
			n++
		}
	}
	return n
}

func (k *hardwareClass) satisfiesTopology(t gpu.Topology, slots []int) bool {
	switch {
	case len(slots) <= 1 || t == "":
		return true
	case t == gpu.NVLink:
		return k.areLinked(slots)
	default:
		return k.onOneNUMANode(slots)
	}
}

// areLinked reports whether NVLinks connect all of the slots, directly or through
// each other.
func (k *hardwareClass) areLinked(slots []int) bool {
	if k.links == nil {
		return false
	}
	return k.countReachable(slots, make([]bool, len(slots)), 0) == len(slots)
}

// countReachable counts the slots that links connect with one of them.
func (k *hardwareClass) countReachable(slots []int, seen []bool, from int) int {
	seen[from] = true
	n := 1
	for i, s := range slots {
		if !seen[i] && k.links[slots[from]][s] > 0 {
			n += k.countReachable(slots, seen, i)
		}
	}
	return n
}

// largestGroup returns how many of the slots one task with that topology may have.
func (k *hardwareClass) largestGroup(t gpu.Topology, mask []uint64) int {
	slots := listBits(mask, make([]int, 0, 64))
	most := min(len(slots), 1)
	if t == gpu.NVLink {
		if k.links == nil {
			return most
		}
		seen := make([]bool, len(slots))
		for i := range slots {
			if !seen[i] {
				most = max(most, k.countReachable(slots, seen, i))
			}
		}
		return most
	}
	for i, s := range slots {
		n := 0
		for _, o := range slots[i:] {
			if k.slots[s].numa >= 0 && k.slots[s].numa == k.slots[o].numa {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}
