package fit

import (
	"cmp"
	"slices"

	"mesos-gpu/gpu"
)

// pick is a choice of slots on one agent, and how good it is.
type pick struct {
	slots []int
	links int  // among the chosen
	near  bool // on one NUMA node that is known
	broke int  // groups that were wholly free and are now partly taken
}

// pickKey is all that a choice depends on, for kinds of up to 64 slots.
type pickKey struct {
	kind, gpus int32
	may, free  uint64
	topology   gpu.Topology
}

// pick chooses n of the slots in may, which are among the free ones; it knows
// that there are enough. Nobody changes what it returns.
func (w *world) pick(k *kind, n int, may, free []uint64, topology gpu.Topology) pick {
	if len(may) != 1 {
		return k.pick(n, members(may, nil), members(free, nil), topology)
	}
	key := pickKey{kind: k.id, gpus: int32(n), may: may[0], free: free[0], topology: topology}
	p, ok := w.picks[key]
	if !ok {
		p = k.pick(n, members(may, nil), members(free, nil), topology)
		w.picks[key] = p
	}
	return p
}

func (k *kind) pick(n int, may, free []int, topology gpu.Topology) pick {
	if k.even && k.groups <= 1 || n >= len(may) {
		return k.judge(may[:n:n], free)
	}
	s := search{kind: k, may: may, free: free, topology: topology}
	if ways(len(may), n) <= maxWays {
		s.all(make([]int, 0, n), 0, n)
	} else {
		s.grown(n)
	}
	return k.judge(s.best.slots, free)
}

// maxWays is how many choices are looked at one by one. Where there are more,
// those are tried that grow from one device by its nearest.
const maxWays = 20_000

// ways is n over k, or more than maxWays if it is that.
func ways(n, k int) int {
	k = min(k, n-k)
	w := 1
	for i := 1; i <= k; i++ {
		if w = w * (n - k + i) / i; w > maxWays {
			return maxWays + 1
		}
	}
	return w
}

func (k *kind) judge(slots, free []int) pick {
	return pick{slots: slots, links: k.linksAmong(slots), near: k.near(slots), broke: k.broke(slots, free)}
}

// search goes through choices and keeps the best.
type search struct {
	kind      *kind
	may, free []int
	topology  gpu.Topology
	best      choice
}

// choice is a set of slots and what ranks it, most important first. Lowest
// minors win among equals.
type choice struct {
	slots     []int
	oneModel  bool
	links     int
	near      bool
	intact    int // size of the largest group left
	modelLeft int // devices of the model that are left
}

func (s *search) all(chosen []int, from, n int) {
	if len(chosen) == n {
		s.try(chosen)
		return
	}
	for i := from; i <= len(s.may)-(n-len(chosen)); i++ {
		s.all(append(chosen, s.may[i]), i+1, n)
	}
}

// grown tries, from each slot, the n slots that growing by the nearest gives:
// among all, and among those of its model.
func (s *search) grown(n int) {
	for _, seed := range s.may {
		for _, same := range []bool{true, false} {
			if slots := s.grow(seed, n, same); slots != nil {
				slices.Sort(slots)
				s.try(slots)
			}
		}
	}
}

func (s *search) grow(seed, n int, same bool) []int {
	k := s.kind
	slots := []int{seed}
	for len(slots) < n {
		next, most := -1, [2]int{-1, -1}
		for _, c := range s.may {
			if slices.Contains(slots, c) || same && k.slots[c].model != k.slots[seed].model {
				continue
			}
			links, near := 0, 0
			for _, have := range slots {
				links += k.link(c, have)
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

// try keeps the choice if it satisfies the wish and is better than the best.
func (s *search) try(slots []int) {
	k := s.kind
	if !k.satisfies(s.topology, slots) {
		return
	}
	c := choice{slots: slots, oneModel: k.oneModel(slots)}
	if c.oneModel { // devices of several models are taken as they come
		c.links, c.near = k.linksAmong(slots), k.near(slots)
		c.intact = k.intact(slots, s.free)
		c.modelLeft = k.modelLeft(slots, s.may)
	}
	if s.best.slots == nil || c.better(&s.best) {
		c.slots = slices.Clone(slots)
		s.best = c
	}
}

func (c *choice) better(b *choice) bool {
	return cmp.Or(
		compareBool(c.oneModel, b.oneModel), cmp.Compare(c.links, b.links), compareBool(c.near, b.near),
		cmp.Compare(c.intact, b.intact), cmp.Compare(b.modelLeft, c.modelLeft), slices.Compare(b.slots, c.slots),
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

func (k *kind) link(i, j int) int {
	if k.links == nil {
		return 0
	}
	return k.links[i][j]
}

func (k *kind) linksAmong(slots []int) int {
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

func (k *kind) oneModel(slots []int) bool {
	for _, s := range slots {
		if k.slots[s].model != k.slots[slots[0]].model {
			return false
		}
	}
	return true
}

// near reports whether the slots are on one NUMA node that is known.
func (k *kind) near(slots []int) bool {
	for _, s := range slots {
		if k.slots[s].numa < 0 || k.slots[s].numa != k.slots[slots[0]].numa {
			return false
		}
	}
	return true
}

// intact is the size of the largest group among the free slots that the
// choice leaves.
func (k *kind) intact(chosen, free []int) int {
	if k.groups == 0 {
		return 0
	}
	size := make([]int, k.groups)
	most := 0
	for _, s := range free {
		if g := k.group[s]; g >= 0 && !slices.Contains(chosen, s) {
			size[g]++
			most = max(most, size[g])
		}
	}
	return most
}

// broke counts the groups that were wholly free and are partly taken now.
func (k *kind) broke(chosen, free []int) int {
	n := 0
	for g := range k.groups {
		in := func(list []int) int {
			n := 0
			for _, s := range list {
				if k.group[s] == g {
					n++
				}
			}
			return n
		}
		size := 0
		for _, of := range k.group {
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

func (k *kind) modelLeft(chosen, may []int) int {
	n := -len(chosen)
	for _, s := range may {
		if k.slots[s].model == k.slots[chosen[0]].model {
			n++
		}
	}
	return n
}

func (k *kind) satisfies(t gpu.Topology, slots []int) bool {
	switch {
	case len(slots) <= 1 || t == "":
		return true
	case t == gpu.NVLink:
		return k.linked(slots)
	default:
		return k.near(slots)
	}
}

// linked reports whether each slot reaches each over links among them.
func (k *kind) linked(slots []int) bool {
	if k.links == nil {
		return false
	}
	return k.reach(slots, make([]bool, len(slots)), 0) == len(slots)
}

// reach counts the slots that hang together with one of them.
func (k *kind) reach(slots []int, seen []bool, from int) int {
	seen[from] = true
	n := 1
	for i, s := range slots {
		if !seen[i] && k.links[slots[from]][s] > 0 {
			n += k.reach(slots, seen, i)
		}
	}
	return n
}

// largest is how many of the slots one task with that wish may have at most.
func (k *kind) largest(t gpu.Topology, mask []uint64) int {
	slots := members(mask, make([]int, 0, 64))
	most := min(len(slots), 1)
	if t == gpu.NVLink {
		if k.links == nil {
			return most
		}
		seen := make([]bool, len(slots))
		for i := range slots {
			if !seen[i] {
				most = max(most, k.reach(slots, seen, i))
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
