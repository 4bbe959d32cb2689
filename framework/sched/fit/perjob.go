package fit

import (
	"cmp"
	"encoding/binary"
	"slices"

	"mesos-gpu/job"
)

// tally follows one constraint that depends on where the job's tasks are.
type tally struct {
	con   job.Constraint
	col   *column
	count []int // tasks by value
	// known are the values that agents of use to the demand have.
	known []bool
	// groups counts values that are known or have tasks, elsewhere those that
	// have tasks and that no agent has.
	groups int
	first  int32 // the value of the first task; noValue before there is one
}

const noValue = int32(-2)

// tallies starts from the job's other live tasks.
func (c *Cluster) tallies(d *Demand, cl *class) []*tally {
	var all []*tally
	for _, con := range cl.perJob {
		col := c.world.column(con.Field)
		t := &tally{con: con, col: col, count: make([]int, len(col.values)), known: make([]bool, len(col.values)), first: noValue}
		elsewhere := map[string]bool{}
		for _, a := range d.Beside {
			v, ok := a.Field(con.Field)
			id, here := col.idOf[v]
			switch {
			case !ok:
				id = -1
			case !here:
				id = -1
				elsewhere[v] = true
			default:
				t.count[id]++
			}
			if t.first == noValue {
				t.first = id
			}
		}
		if con.Operator == job.GroupBy {
			t.survey(c, cl, len(elsewhere))
		}
		all = append(all, t)
	}
	return all
}

func (t *tally) survey(c *Cluster, cl *class, elsewhere int) {
	for i, id := range t.col.ids {
		if id >= 0 && !t.known[id] && c.useful(i, cl) {
			t.known[id] = true
		}
	}
	t.groups = elsewhere
	for id := range t.known {
		if t.known[id] || t.count[id] > 0 {
			t.groups++
		}
	}
}

// least is how many tasks the emptiest group has. Groups that are asked for
// and that nobody knows yet are empty.
func (t *tally) least() int {
	if t.groups < t.con.Count() {
		return 0
	}
	least := -1
	for id, known := range t.known {
		if known && (least < 0 || t.count[id] < least) {
			least = t.count[id]
		}
	}
	return max(least, 0)
}

// allows says which values may have one more task. GROUP_BY n is read as
// Marathon documents it: at least n groups, evenly filled, so a value is
// refused while another known one has fewer tasks. (Marathon's own code and
// tests take n for the exact number.)
func (t *tally) allows() []bool {
	ok := make([]bool, len(t.count))
	least := 0
	if t.con.Operator == job.GroupBy {
		least = t.least()
	}
	for id, n := range t.count {
		switch t.con.Operator {
		case job.Unique:
			ok[id] = n == 0
		case job.MaxPer:
			ok[id] = n < t.con.Count()
		case job.GroupBy:
			ok[id] = n <= least
		case job.Cluster:
			ok[id] = t.first == noValue || t.first == int32(id)
		}
	}
	return ok
}

func (t *tally) place(i int) {
	id := t.col.ids[i]
	t.count[id]++
	if t.first == noValue {
		t.first = id
	}
}

// allowed returns a test of agents against all tallies as they stand.
func allowed(all []*tally) func(i int) bool {
	type test struct {
		ids []int32
		ok  []bool
	}
	tests := make([]test, len(all))
	for at, t := range all {
		tests[at] = test{t.col.ids, t.allows()}
	}
	return func(i int) bool {
		for _, t := range tests {
			if id := t.ids[i]; id < 0 || !t.ok[id] {
				return false
			}
		}
		return true
	}
}

// fillPerJob is Fill for constraints that depend on the job's other tasks.
func (c *Cluster) fillPerJob(d *Demand, cl *class, n int) []Spot {
	all := c.tallies(d, cl)
	if n > 1 && slices.ContainsFunc(all, (*tally).open) {
		return c.fillTogether(d, cl, n)
	}
	return c.fillWhere(cl, all, n)
}

// open: where the first task goes all others have to go.
func (t *tally) open() bool { return t.con.Operator == job.Cluster && t.first == noValue }

func (c *Cluster) fillWhere(cl *class, all []*tally, n int) []Spot {
	ranks := c.ranks.of(c, cl)
	var spots []Spot
	for len(spots) < n {
		ranks.update(c, cl)
		ok := allowed(all)
		best, most := -1, int64(0)
		for i, k := range ranks.rank {
			if k > most && ok(i) {
				best, most = i, k
			}
		}
		if best < 0 {
			break
		}
		spots = append(spots, c.take(best, cl))
		for _, t := range all {
			t.place(best)
		}
	}
	return spots
}

// fillTogether is for tasks that all go where the first goes. It tries the
// values that seem to have room for all, that of the best agent first, and
// at last the one with the most room.
func (c *Cluster) fillTogether(d *Demand, cl *class, n int) []Spot {
	worth := c.gatherings(d, cl, n)
	for at, g := range worth {
		all := c.tallies(d, cl)
		for _, t := range all {
			if t.open() {
				t.first = t.col.ids[g.best]
			}
		}
		spots := c.fillWhere(cl, all, n)
		if len(spots) == n || at == len(worth)-1 {
			return spots
		}
		c.Undo(d, spots)
	}
	return nil
}

// gathering is agents that are alike in what must be alike for the tasks.
type gathering struct {
	best int // agent
	rank int64
	room int // tasks that its agents hold, or somewhat more
}

// gatherings lists those worth a try, the best first.
func (c *Cluster) gatherings(d *Demand, cl *class, n int) []*gathering {
	all := c.tallies(d, cl)
	ok := allowed(all)
	by := map[string]*gathering{}
	var list []*gathering
	var key []byte
	for i, k := range c.ranks.of(c, cl).rank {
		if k == 0 || !ok(i) {
			continue
		}
		key = key[:0]
		for _, t := range all {
			if t.open() {
				key = binary.AppendVarint(key, int64(t.col.ids[i]))
			}
		}
		g := by[string(key)]
		if g == nil {
			g = &gathering{}
			by[string(key)] = g
			list = append(list, g)
		}
		if k > g.rank {
			g.best, g.rank = i, k
		}
		g.room += c.atMost(i, cl, n)
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b *gathering) int { return cmp.Compare(b.rank, a.rank) })
	largest := slices.MaxFunc(list, func(a, b *gathering) int { return cmp.Compare(a.room, b.room) })
	list = slices.DeleteFunc(list, func(g *gathering) bool { return g.room < n })
	return append(list, largest)
}

// atMost bounds how many tasks of the class the agent holds, up to n.
func (c *Cluster) atMost(i int, cl *class, n int) int {
	r := &c.rooms[i]
	left := int64(n)
	for _, x := range [...][2]int64{
		{r.free.cpus, cl.need.cpus}, {r.free.mem, cl.need.mem}, {r.free.disk, cl.need.disk}, {int64(r.nports), int64(cl.ports)},
	} {
		if x[1] > 0 {
			left = min(left, x[0]/x[1])
		}
	}
	if cl.hosts != nil {
		left = min(left, 1) // a port is one task's
	}
	if cl.gpus > 0 && !cl.shared {
		left = min(left, int64(r.freeGPUs()/cl.gpus))
	}
	return int(left)
}
