package fit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mesos-gpu/gpu"
)

// ExplainShortage returns what agents lack for one task of the demand.
func (c *Cluster) ExplainShortage(d *Demand) Shortage {
	q := c.newExplainer(d)
	agents := q.openAgents()
	if closed := q.countClosedAgents(); len(agents) == 0 && closed > 0 {
		return Shortage{q.missingText(), describeNoneOpen(closed)}
	}
	if len(agents) == 0 && len(c.capacities) > 0 {
		return Shortage{q.missingText(), fmt.Sprintf("none of %d %s offers to role %q", len(c.capacities), gpu.Plural(len(c.capacities), "agent"), d.Role)}
	}
	if room := filterIndices(agents, func(i int) bool { return c.fitsTask(i, q.class) }); len(room) > 0 {
		return q.explainFeasible(room)
	}
	if held := q.countHeldBack(agents); held > 0 {
		return Shortage{q.missingText() + ", not reserved for jobs ahead", fmt.Sprintf("%s enough, reserved for jobs ahead", agentsHave(held))}
	}
	if q.class.gpus == 0 {
		return q.explainPlain(agents)
	}
	return q.explainGPUs(agents)
}

// explainFeasible explains why agents with room are not used: constraints on the job's other tasks exclude them, or
// their resources are not offered.
func (e *demandExplainer) explainFeasible(room []int) Shortage {
	all := e.newCounters(e.demand, e.class)
	if ok := allowedByAll(all); len(filterIndices(room, ok)) > 0 {
		n := len(filterIndices(room, ok))
		return Shortage{"an offer", fmt.Sprintf("%d %s had room when last offered", n, gpu.Plural(n, "agent"))}
	}
	refused := func(t *constraintCounter) int {
		return len(filterIndices(room, func(i int) bool { return !allowedByAll([]*constraintCounter{t})(i) }))
	}
	worst := slices.MaxFunc(all, func(x, y *constraintCounter) int { return cmp.Compare(refused(x), refused(y)) })
	found := fmt.Sprintf("%s room, %d %s excluded", agentsHave(len(room)), refused(worst), pluralVerb(refused(worst), "is", "are"))
	if mixed := len(filterIndices(room, func(i int) bool { return worst.column.IDs()[i] < 0 })); worst.countsGPUTypes && mixed > 0 {
		found += fmt.Sprintf(", %d since %s: name one as gpu_type", mixed, severalTypes)
	}
	return Shortage{fmt.Sprintf("an agent that %s allows", worst.constraint), found}
}

// severalTypes is why a constraint that counts GPU types excludes an agent.
const severalTypes = "its GPUs that the job accepts are not of one known type"

// countHeldBack counts the agents that would fit without reservations.
func (e *demandExplainer) countHeldBack(agents []int) int {
	if !e.demand.AvoidReserved {
		return 0
	}
	free := *e.demand
	free.AvoidReserved = false
	cl := e.classifyDemand(&free)
	return len(filterIndices(agents, func(i int) bool { return e.fitsTask(i, cl) }))
}

func (e *demandExplainer) explainGPUs(agents []int) Shortage {
	typed := filterIndices(agents, e.hasType)
	if len(typed) == 0 {
		return Shortage{e.missingText(), e.foundOtherTypes(agents)}
	}
	rules := e.buildRules()
	good := filterIndices(typed, func(i int) bool { return !failsAny(rules, i) })
	if len(good) == 0 {
		return Shortage{e.missingText(), fmt.Sprintf("%s %s, %s", agentsHave(len(typed)), e.typeNoun(), worstRule(rules, typed))}
	}
	others := ""
	if n := len(typed) - len(good); n > 0 {
		others = "; of the others " + worstRule(rules, filterIndices(typed, func(i int) bool { return failsAny(rules, i) }))
	}
	var short Shortage
	if enough := filterIndices(good, e.hasEnoughGPUs); len(enough) > 0 {
		short = e.explainPlainShortage(enough, e.wantedText())
	} else if e.class.wantsShares {
		o := e.surveyDevices(filterIndices(agents, func(i int) bool { return !e.hasType(i) || !failsAny(rules, i) }))
		short = Shortage{e.missingText(), o.describe(e)}
	} else {
		short = Shortage{e.missingText(), e.foundOfType(good)}
	}
	short.Found += others
	return short
}

// foundOfType formats the free GPUs of agents that have suitable ones.
func (e *demandExplainer) foundOfType(good []int) string {
	noun := e.typeNoun()
	if e.class.requirement.AsksMoreThanType() {
		noun = "such GPUs"
	}
	seen := fmt.Sprintf("%s %s, ", agentsHave(len(good)), noun)
	together := ""
	if e.class.requirement.Topology != "" {
		together = " together"
	}
	most, with, largest, shared := 0, 0, 0, 0
	told := true
	for _, i := range good {
		switch n := e.availableGPUs(i, e.class); {
		case n > most:
			most, with = n, 1
		case n == most:
			with++
		}
		total := e.totalGPUs(i)
		told = told && total > 0
		largest = max(largest, total)
		shared += e.countInShares(i)
	}
	switch {
	case told && largest < int(e.class.gpus):
		seen += fmt.Sprintf("the largest has %d", largest)
	case most == 0:
		seen += "none has one free"
	case with == 1:
		seen += fmt.Sprintf("1 has %d free", most) + together
	default:
		seen += fmt.Sprintf("%d have %d free", with, most) + together
	}
	if shared > 0 {
		seen += fmt.Sprintf("; tasks have shares of %d", shared)
	}
	return seen
}

// countInShares counts the suitable shared devices that are in use and have memory left.
func (e *demandExplainer) countInShares(i int) int {
	r := &e.capacities[i]
	if r.shareOffset < 0 || r.hardware.Divisible {
		return 0
	}
	n := 0
	for s := range r.suitableSlots(e.class.requirement) {
		if slot := &e.sharesOf(r)[s]; e.isShared(r, s) && slot.isTotalListed && !slot.isUnused() && slot.free.mem > 0 {
			n++
		}
	}
	return n
}

// totalGPUs counts the suitable GPUs, free or not; 0 if it is not known.
func (e *demandExplainer) totalGPUs(i int) int {
	r := &e.capacities[i]
	m := e.class.requirement.MatchOn(r.hardware)
	if r.hardware.HasInventory {
		n := 0
		for range r.suitableSlots(e.class.requirement) {
			n++
		}
		return n
	}
	if m.AllCounted {
		return max(e.index.agents[i].TotalGPUs, int(r.freeGPUs()))
	}
	return 0
}

// foundOtherTypes formats which types there are if no agent has the requested one.
func (e *demandExplainer) foundOtherTypes(agents []int) string {
	if len(agents) == 0 {
		return "no agent is known yet"
	}
	count, named := map[string]int{}, gpu.Request{GPUs: 1, Types: e.demand.Request.Types, MIG: gpu.AnyMIG}
	namesMIG := "" // of devices that the request gets if it names them
	for _, i := range agents {
		once := map[string]bool{}
		for p := range e.index.agents[i].Products() {
			once[e.describeProduct(p)] = true
			if p.IsMIG() && (namesMIG == "" || p.Model < namesMIG) && named.AcceptsProduct(p) {
				namesMIG = p.Model
			}
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
	found := fmt.Sprintf("no agent%s has the type, %s: %s", e.openClause(), e.describeKnown(len(agents)), strings.Join(list, ", "))
	if namesMIG != "" {
		found += fmt.Sprintf("; only tasks that name MIG devices get them: gpu_type: %s", cmp.Or(gpu.MIGProfileOf(namesMIG), "MIG"))
	}
	return found
}

// describeProduct returns the short type of a GPU, of a MIG device with its profile, or its product name if the request
// names other products of the type.
func (e *demandExplainer) describeProduct(p gpu.Product) string {
	names := func(name string) bool { return gpu.IsPreciseTypeName(name) && gpu.TypeOf(name) == p.Type() }
	types := &e.demand.Request.Types
	switch {
	case slices.ContainsFunc(types.Named(), names) || slices.ContainsFunc(types.Exclude, names):
		return p.Model
	case p.IsMIG():
		return strings.TrimSpace(p.Type() + " MIG " + gpu.MIGProfileOf(p.Model))
	default:
		return p.Type()
	}
}

// RefusalReasons returns a function that returns why an agent does not fit one task of the demand, with both numbers.
func (c *Cluster) RefusalReasons(d *Demand) func(i int) string {
	q := c.newExplainer(d)
	rules, counters := q.buildRules(), c.newCounters(d, q.class)
	return func(i int) string { return q.explainRefusal(i, rules, counters) }
}

func (q *demandExplainer) explainRefusal(i int, rules []requirementRule, counters []*constraintCounter) string {
	d := q.demand
	r := &q.capacities[i]
	if r.roleID != q.class.roleID {
		return fmt.Sprintf("%s wants offers to role %q, agent offers to %q", d.Job, d.Role, q.index.agents[i].Role)
	}
	if q.class.gpus == 0 || q.hasType(i) {
		for _, rule := range rules {
			if rule.fails(i) {
				return fmt.Sprintf("%s wants %s, agent has %s", d.Job, rule.requirement, rule.has(i))
			}
		}
	}
	if q.class.gpus > 0 && !q.hasEnoughGPUs(i) {
		if q.class.wantsShares {
			o := q.surveyDevices([]int{i})
			return fmt.Sprintf("%s wants %s, agent: %s", d.Job, q.wantedText(), o.describe(q))
		}
		return fmt.Sprintf("%s wants %d %s, agent has %d free", d.Job, q.class.gpus, q.deviceNoun(), q.availableGPUs(i, q.class))
	}
	for _, x := range plainResources() {
		if have := x.availableOn(q, i); have < x.need(q.class) {
			return fmt.Sprintf("%s wants %s, agent has %s", d.Job, x.formatAmount(x.need(q.class)), formatMilli(have))
		}
	}
	if port, free := q.scarcestPort([]int{i}); free == 0 {
		return fmt.Sprintf("%s wants port %d, which is not free on the agent", d.Job, port)
	}
	for _, t := range counters {
		if !allowedByAll([]*constraintCounter{t})(i) {
			return fmt.Sprintf("%s wants %s, agent has %s", d.Job, t.constraint, t.describeOn(i))
		}
	}
	return d.Job + " cannot start with this offer alone"
}

// describeOn formats what the counter has for an agent.
func (t *constraintCounter) describeOn(i int) string {
	id := t.column.IDs()[i]
	if id < 0 && t.countsGPUTypes {
		return "several types: " + severalTypes
	}
	if id < 0 {
		return "no " + t.constraint.Field
	}
	return fmt.Sprintf("%s with %d %s of the job", t.column.Values()[id], t.tasksByValue[id], gpu.Plural(t.tasksByValue[id], "task"))
}
