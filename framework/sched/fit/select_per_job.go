package fit

import (
	"cmp"
	"encoding/binary"
	"slices"

	"mesos-gpu/framework/sched/fit/index"
	"mesos-gpu/job"
)

// constraintCounter counts the job's tasks for one constraint that depends on
// where they are.
type constraintCounter struct {
	// constraint is one that DependsOnPeers.
	constraint job.Constraint
	// column has the constraint's field of all agents. countsGPUTypes is set if that is the type of the GPUs which a task
	// would get: see findGPUTypeColumn.
	column         *index.Column
	countsGPUTypes bool
	// tasksByValue counts the job's live tasks by value number, those just placed included.
	tasksByValue []int
	// knownValues marks the values of agents that are suitable for the demand. Only GROUP_BY needs it.
	knownValues []bool
	// groupCount counts values that are known or have tasks, including values of tasks on removed agents.
	groupCount int
	// firstValue is the value number of the first task, -1 if its agent has none, or noValue without a task.
	firstValue int32
}

const noValue = int32(-2)

// newCounters counts the job's other live tasks for each constraint.
func (c *Cluster) newCounters(d *Demand, cl *demandClass) []*constraintCounter {
	var all []*constraintCounter
	for _, con := range cl.jobConstraints {
		col, valueOf := c.index.findColumn(con.Field), func(a *AgentResources) (string, bool) { return a.FieldValue(con.Field) }
		gpuTypes := con.Field == job.GPUTypeField && cl.gpus > 0
		if gpuTypes {
			col, valueOf = c.index.findGPUTypeColumn(&d.Request)
		}
		t := &constraintCounter{
			constraint:     con,
			column:         col,
			countsGPUTypes: gpuTypes,
			tasksByValue:   make([]int, len(col.Values())),
			knownValues:    make([]bool, len(col.Values())),
			firstValue:     noValue,
		}
		elsewhere := map[string]bool{}
		for _, a := range d.PeerAgents {
			v, ok := valueOf(a)
			id, here := col.Find(v)
			switch {
			case !ok:
				id = -1
			case !here:
				id = -1
				elsewhere[v] = true
			default:
				t.tasksByValue[id]++
			}
			if t.firstValue == noValue {
				t.firstValue = id
			}
		}
		if con.Operator == job.GroupBy {
			t.surveyValues(c, cl, len(elsewhere))
		}
		all = append(all, t)
	}
	return all
}

func (t *constraintCounter) surveyValues(c *Cluster, cl *demandClass, elsewhere int) {
	for i, id := range t.column.IDs() {
		if id >= 0 && !t.knownValues[id] && c.isSuitableFor(i, cl) {
			t.knownValues[id] = true
		}
	}
	t.groupCount = elsewhere
	for id := range t.knownValues {
		if t.knownValues[id] || t.tasksByValue[id] > 0 {
			t.groupCount++
		}
	}
}

// smallestGroup returns how many tasks the smallest group has. It is 0 if fewer
// groups are known than the constraint requires.
func (t *constraintCounter) smallestGroup() int {
	if t.groupCount < t.constraint.NumberValue() {
		return 0
	}
	least := -1
	for id, known := range t.knownValues {
		if known && (least < 0 || t.tasksByValue[id] < least) {
			least = t.tasksByValue[id]
		}
	}
	return max(least, 0)
}

// allowedValues returns which values may have one more task. GROUP_BY n follows Marathon's documentation: at least n
// groups, evenly filled, so a value is refused while another known one has fewer tasks. (Marathon's code and tests
// interpret n as the exact number.)
func (t *constraintCounter) allowedValues() []bool {
	ok := make([]bool, len(t.tasksByValue))
	least := 0
	if t.constraint.Operator == job.GroupBy {
		least = t.smallestGroup()
	}
	for id, n := range t.tasksByValue {
		switch t.constraint.Operator {
		case job.Unique:
			ok[id] = n == 0
		case job.MaxPer:
			ok[id] = n < t.constraint.NumberValue()
		case job.GroupBy:
			ok[id] = n <= least
		case job.Cluster:
			ok[id] = t.firstValue == noValue || t.firstValue == int32(id)
		}
	}
	return ok
}

func (t *constraintCounter) addTask(i int) {
	id := t.column.IDs()[i]
	t.tasksByValue[id]++
	if t.firstValue == noValue {
		t.firstValue = id
	}
}

// allowedByAll returns a test of agents by the current counts.
func allowedByAll(all []*constraintCounter) func(i int) bool {
	type test struct {
		ids []int32
		ok  []bool
	}
	tests := make([]test, len(all))
	for at, t := range all {
		tests[at] = test{t.column.IDs(), t.allowedValues()}
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

// placePerJob is PlaceTasks for constraints that depend on the job's other tasks.
func (c *Cluster) placePerJob(d *Demand, cl *demandClass, n int) []Placement {
	all := c.newCounters(d, cl)
	if n > 1 && slices.ContainsFunc(all, (*constraintCounter).isUndecided) {
		return c.placeTogether(d, cl, n)
	}
	return c.placeAllowed(d, cl, all, n)
}

// isUndecided reports whether the first task decides the value of all others.
func (t *constraintCounter) isUndecided() bool {
	return t.constraint.Operator == job.Cluster && t.firstValue == noValue
}

func (c *Cluster) placeAllowed(d *Demand, cl *demandClass, all []*constraintCounter, n int) []Placement {
	var placements []Placement
	for len(placements) < n {
		ok := allowedByAll(all)
		best, most := -1, int64(0)
		for i, k := range c.rankAgents(cl).Scores() {
			if k > most && ok(i) {
				best, most = i, k
			}
		}
		if best < 0 {
			break
		}
		placements = append(placements, c.takePlacement(best, cl, d.PortSeed))
		for _, t := range all {
			t.addTask(best)
		}
	}
	return placements
}

// placeTogether places tasks whose first one decides the value of all others. It
// tries the values that seem to have room for all, the best agent's first, and
// the one with the most room last.
func (c *Cluster) placeTogether(d *Demand, cl *demandClass, n int) []Placement {
	worth := c.agentGroups(d, cl, n)
	for at, g := range worth {
		all := c.newCounters(d, cl)
		for _, t := range all {
			if t.isUndecided() {
				t.firstValue = t.column.IDs()[g.best]
			}
		}
		placements := c.placeAllowed(d, cl, all, n)
		if len(placements) == n || at == len(worth)-1 {
			return placements
		}
		c.UndoPlacements(d, placements)
	}
	return nil
}

// agentGroup is agents with equal values of all undecided constraints.
type agentGroup struct {
	// best is the agent with the highest score.
	best  int
	score int64
	// capacity is how many tasks fit on its agents, or slightly more.
	capacity int
}

// agentGroups returns the groups to try, best first.
func (c *Cluster) agentGroups(d *Demand, cl *demandClass, n int) []*agentGroup {
	all := c.newCounters(d, cl)
	ok := allowedByAll(all)
	by := map[string]*agentGroup{}
	var list []*agentGroup
	var key []byte
	for i, k := range c.rankAgents(cl).Scores() {
		if k == 0 || !ok(i) {
			continue
		}
		key = key[:0]
		for _, t := range all {
			if t.isUndecided() {
				key = binary.AppendVarint(key, int64(t.column.IDs()[i]))
			}
		}
		g := by[string(key)]
		if g == nil {
			g = &agentGroup{}
			by[string(key)] = g
			list = append(list, g)
		}
		if k > g.score {
			g.best, g.score = i, k
		}
		g.capacity += c.maxTasksOn(i, cl, n)
	}
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b *agentGroup) int { return cmp.Compare(b.score, a.score) })
	largest := slices.MaxFunc(list, func(a, b *agentGroup) int { return cmp.Compare(a.capacity, b.capacity) })
	list = slices.DeleteFunc(list, func(g *agentGroup) bool { return g.capacity < n })
	return append(list, largest)
}
