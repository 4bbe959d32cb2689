package fit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mesos-gpu/gpu"
)

// Shortage explains in numbers why a task of a demand fits nowhere.
type Shortage struct {
	// Missing is what the task needs ("2 free A100 on one agent"). Found is what
	// agents have of it ("41 agents have the type, 5 have 1 free").
	Missing, Found string
}

// demandExplainer explains one demand.
type demandExplainer struct {
	*Cluster
	demand *Demand
	class  *demandClass
	// typeRequirement requires the types alone.
	typeRequirement *deviceRequirement
	// closedAgents counts the agents of the role that accept no tasks.
	closedAgents int
}

func (c *Cluster) newExplainer(d *Demand) demandExplainer {
	q := demandExplainer{Cluster: c, demand: d, class: c.classifyDemand(d), typeRequirement: c.index.findRequirement(gpu.Request{GPUs: 1, Types: d.Request.Types})}
	for _, i := range c.index.roleAgents(q.class.roleID) {
		if c.index.agents[i].Closed {
			q.closedAgents++
		}
	}
	return q
}

// ExplainShortage returns what agents lack for one task of the demand.
func (c *Cluster) ExplainShortage(d *Demand) Shortage {
	q := c.newExplainer(d)
	agents := q.openAgents()
	if len(agents) == 0 && q.closedAgents > 0 {
		return Shortage{q.missingText(), describeNoneOpen(q.closedAgents)}
	}
	if len(agents) == 0 && len(c.capacities) > 0 {
		return Shortage{q.missingText(), fmt.Sprintf("none of %d %s offers to role %q", len(c.capacities), gpu.Plural(len(c.capacities), "agent"), d.Role)}
	}
	if room := filterIndices(agents, func(i int) bool { return c.fitsTask(i, q.class) }); len(room) > 0 {
		return q.explainFeasible(room)
	}
	if held := q.countHeldBack(agents); held > 0 {
		return Shortage{q.missingText() + " beside what is held back", fmt.Sprintf("%s room that jobs ahead need", agentsHave(held))}
	}
	if q.class.gpus == 0 {
		return q.explainPlain(agents)
	}
	return q.explainGPUs(agents)
}

func filterIndices(agents []int, ok func(i int) bool) []int {
	var list []int
	for _, i := range agents {
		if ok(i) {
			list = append(list, i)
		}
	}
	return list
}

// openAgents returns the agents of the role that accept tasks.
func (q *demandExplainer) openAgents() []int {
	members := q.index.roleAgents(q.class.roleID)
	list := make([]int, 0, len(members))
	for _, i := range members {
		if !q.index.agents[i].Closed {
			list = append(list, int(i))
		}
	}
	return list
}

func describeNoneOpen(closed int) string {
	if closed == 1 {
		return "the only agent takes no tasks"
	}
	return fmt.Sprintf("none of %d agents takes tasks", closed)
}

// describeKnown formats how many agents are considered.
func (q *demandExplainer) describeKnown(agents int) string {
	if q.closedAgents > 0 {
		return fmt.Sprintf("%d %s tasks", agents, pluralVerb(agents, "agent takes", "agents take"))
	}
	return fmt.Sprintf("%d %s known", agents, pluralVerb(agents, "agent is", "agents are"))
}

// explainFeasible explains why agents with room are not used: constraints on the job's other tasks exclude them, or
// their resources are not offered.
func (q *demandExplainer) explainFeasible(room []int) Shortage {
	all := q.newCounters(q.demand, q.class)
	if ok := allowedByAll(all); len(filterIndices(room, ok)) > 0 {
		n := len(filterIndices(room, ok))
		return Shortage{"an offer", fmt.Sprintf("%d %s had room when last offered", n, gpu.Plural(n, "agent"))}
	}
	refused := func(t *constraintCounter) int {
		return len(filterIndices(room, func(i int) bool { return !allowedByAll([]*constraintCounter{t})(i) }))
	}
	worst := slices.MaxFunc(all, func(x, y *constraintCounter) int { return cmp.Compare(refused(x), refused(y)) })
	return Shortage{
		fmt.Sprintf("an agent that %s leaves to it", worst.constraint),
		fmt.Sprintf("%s room, %d %s refused", agentsHave(len(room)), refused(worst), pluralVerb(refused(worst), "is", "are")),
	}
}

// countHeldBack counts the agents that would fit without reservations.
func (q *demandExplainer) countHeldBack(agents []int) int {
	if !q.demand.AvoidReserved {
		return 0
	}
	free := *q.demand
	free.AvoidReserved = false
	cl := q.classifyDemand(&free)
	return len(filterIndices(agents, func(i int) bool { return q.fitsTask(i, cl) }))
}

// missingText formats what the demand needs first: GPUs, or else CPUs.
func (q *demandExplainer) missingText() string {
	if q.class.gpus == 0 {
		return q.missingPlain(plainResources()[0], "")
	}
	return q.wantedText() + " on one agent"
}

func (q *demandExplainer) wantedText() string {
	if q.class.wantsShares {
		return q.wantedSharesText()
	}
	return fmt.Sprintf("%d free %s", q.class.gpus, q.deviceNoun())
}

// deviceNoun formats the devices of the demand as in "2 free V100".
func (q *demandExplainer) deviceNoun() string { return q.deviceNounFor(q.demand.Request.GPUs) }

// deviceNounFor is deviceNoun for n devices.
func (q *demandExplainer) deviceNounFor(n int) string {
	r := &q.demand.Request
	s := r.Types.NounPhrase(n)
	if r.MinMemMiB > 0 {
		s += fmt.Sprintf(" of %d MiB or more", r.MinMemMiB)
	}
	if !r.Devices.AcceptsAny() {
		s += " of " + describeSelector(r.Devices)
	}
	var hosts []string
	for _, v := range [][2]string{{"driver", r.MinDriver}, {"CUDA", r.MinCUDA}} {
		if v[1] != "" {
			hosts = append(hosts, v[0]+" "+v[1])
		}
	}
	if len(hosts) > 0 {
		s += " with " + strings.Join(hosts, " and ") + " or newer"
	}
	switch q.class.requirement.topology {
	case gpu.NVLink:
		s += " joined by NVLink"
	case gpu.SameNUMA:
		s += " of one NUMA node"
	}
	return s
}

func describeSelector(d gpu.DeviceSelector) string {
	if n := len(d.Include); n > 0 {
		return fmt.Sprintf("the %d named", n)
	}
	return fmt.Sprintf("others than the %d named", len(d.Exclude))
}

func (q *demandExplainer) explainGPUs(agents []int) Shortage {
	typed := filterIndices(agents, q.hasType)
	if len(typed) == 0 {
		return Shortage{q.missingText(), q.foundOtherTypes(agents)}
	}
	rules := q.buildRules()
	good := filterIndices(typed, func(i int) bool { return !failsAny(rules, i) })
	if len(good) == 0 {
		return Shortage{q.missingText(), fmt.Sprintf("%s %s, %s", agentsHave(len(typed)), q.typeNoun(), worstRule(rules, typed))}
	}
	others := ""
	if n := len(typed) - len(good); n > 0 {
		others = "; of the others " + worstRule(rules, filterIndices(typed, func(i int) bool { return failsAny(rules, i) }))
	}
	var short Shortage
	if enough := filterIndices(good, q.hasEnoughGPUs); len(enough) > 0 {
		short = q.explainPlainShortage(enough, q.wantedText())
	} else if q.class.wantsShares {
		o := q.surveyDevices(filterIndices(agents, func(i int) bool { return !q.hasType(i) || !failsAny(rules, i) }))
		short = Shortage{q.missingText(), o.describeObstacles(q)}
	} else {
		short = Shortage{q.missingText(), q.foundOfType(good)}
	}
	short.Found += others
	return short
}

func (q *demandExplainer) hasEnoughGPUs(i int) bool {
	if q.class.wantsShares {
		return q.fitsShares(&q.capacities[i], q.class)
	}
	return q.availableGPUs(i, q.class) >= int(q.class.gpus)
}

// hasType reports whether the agent has GPUs of the requested types.
func (q *demandExplainer) hasType(i int) bool {
	return q.typeRequirement.matchOn(q.capacities[i].hardware).anyDevice
}

func (q *demandExplainer) typeNoun() string {
	switch types := &q.demand.Request.Types; {
	case types.AcceptsAny():
		return "GPUs"
	case len(types.Include) == 0:
		return "such GPUs"
	default:
		return "the type"
	}
}

// foundOfType formats the free GPUs of agents that have suitable ones.
func (q *demandExplainer) foundOfType(good []int) string {
	noun := q.typeNoun()
	if q.class.requirement.asksMoreThanType() {
		noun = "such GPUs"
	}
	seen := fmt.Sprintf("%s %s, ", agentsHave(len(good)), noun)
	together := ""
	if q.class.requirement.topology != "" {
		together = " together"
	}
	most, with, largest, shared := 0, 0, 0, 0
	told := true
	for _, i := range good {
		switch n := q.availableGPUs(i, q.class); {
		case n > most:
			most, with = n, 1
		case n == most:
			with++
		}
		total := q.totalGPUs(i)
		told = told && total > 0
		largest = max(largest, total)
		shared += q.countShared(i)
	}
	switch {
	case told && largest < int(q.class.gpus):
		seen += fmt.Sprintf("the largest has %d", largest)
	case most == 0:
		seen += "none has one free"
	case with == 1:
		seen += fmt.Sprintf("1 has %d free", most) + together
	default:
		seen += fmt.Sprintf("%d have %d free", with, most) + together
	}
	if shared > 0 {
		seen += fmt.Sprintf("; %d %s shared (not whole)", shared, pluralVerb(shared, "is", "are"))
	}
	return seen
}

// countShared counts the devices that would be suitable if they were not shared.
func (q *demandExplainer) countShared(i int) int {
	r := &q.capacities[i]
	if r.shareOffset < 0 || r.hardware.divisible {
		return 0
	}
	mask := q.class.requirement.matchOn(r.hardware).slotMask
	return len(filterIndices(listBits(mask, nil), func(s int) bool { return q.isShared(r, s) && q.class.requirement.acceptsUUID(r.uuids[s]) }))
}

// asksMoreThanType reports whether the requirement is about more than types.
func (w *deviceRequirement) asksMoreThanType() bool {
	r := &w.request
	return w.namesDevices || w.topology != "" || r.MinMemMiB > 0 || r.MinDriver != "" || r.MinCUDA != ""
}

// totalGPUs counts the suitable GPUs, free or not; 0 if it is not known.
func (q *demandExplainer) totalGPUs(i int) int {
	r := &q.capacities[i]
	m := q.class.requirement.matchOn(r.hardware)
	if r.hardware.hasInventory {
		n := 0
		for _, s := range listBits(m.slotMask, nil) {
			if q.class.requirement.acceptsUUID(r.uuids[s]) && !q.isShared(r, s) {
				n++
			}
		}
		return n
	}
	if m.allCounted {
		return max(q.index.agents[i].TotalGPUs, int(r.freeGPUs()))
	}
	return 0
}

func agentsHave(agents int) string {
	if agents == 1 {
		return "1 agent has"
	}
	return fmt.Sprintf("%d agents have", agents)
}

// foundOtherTypes formats which types there are if no agent has the requested one.
func (q *demandExplainer) foundOtherTypes(agents []int) string {
	if len(agents) == 0 {
		return "no agent is known yet"
	}
	count := map[string]int{}
	for _, i := range agents {
		once := map[string]bool{}
		for _, m := range q.index.agents[i].Models() {
			once[gpu.TypeOf(m)] = true
		}
		for t := range once {
			count[t]++
		}
	}
	if len(count) == 0 {
		return fmt.Sprintf("%s no GPU", agentsHave(len(agents)))
	}
	var list []string
	for t, n := range count {
		list = append(list, fmt.Sprintf("%s on %d", t, n))
	}
	slices.Sort(list)
	return fmt.Sprintf("no agent%s has the type, %s: %s", q.openClause(), q.describeKnown(len(agents)), strings.Join(list, ", "))
}

// openClause restricts a sentence to agents that accept tasks, if some do not.
func (q *demandExplainer) openClause() string {
	if q.closedAgents > 0 {
		return " that takes tasks"
	}
	return ""
}

func pluralVerb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
