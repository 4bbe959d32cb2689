package fit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mesos-gpu/gpu"
)

// Shortage says in numbers why a task of a demand finds no place.
type Shortage struct {
	// Lack is what is missing ("2 free A100 on one agent"), Seen what the
	// agents have of it ("41 agents have the type, 5 have 1 free").
	Lack, Seen string
}

// asked is a demand that is being explained.
type asked struct {
	*Cluster
	d  *Demand
	cl *class
	// typed is the wish for the types alone.
	typed *wish
	// closed counts the agents of the role that are left out.
	closed int
}

func (c *Cluster) ask(d *Demand) asked {
	q := asked{Cluster: c, d: d, cl: c.class(d), typed: c.world.wish(gpu.Request{GPUs: 1, Types: d.Request.Types})}
	for _, i := range c.world.members(q.cl.role) {
		if c.world.agents[i].Closed {
			q.closed++
		}
	}
	return q
}

// Explain says what the agents lack for one task of the demand.
func (c *Cluster) Explain(d *Demand) Shortage {
	q := c.ask(d)
	agents := q.ofRole()
	if len(agents) == 0 && q.closed > 0 {
		return Shortage{q.lack(), noneOpen(q.closed)}
	}
	if len(agents) == 0 && len(c.rooms) > 0 {
		return Shortage{q.lack(), fmt.Sprintf("none of %d %s offers to role %q", len(c.rooms), gpu.Plural(len(c.rooms), "agent"), d.Role)}
	}
	if room := where(agents, func(i int) bool { return c.fits(i, q.cl) }); len(room) > 0 {
		return q.explainRoom(room)
	}
	if held := q.heldBack(agents); held > 0 {
		return Shortage{q.lack() + " beside what is held back", fmt.Sprintf("%s room that jobs ahead need", have(held))}
	}
	if q.cl.gpus == 0 {
		return q.explainPlain(agents)
	}
	return q.explainGPUs(agents)
}

func where(agents []int, ok func(i int) bool) []int {
	var list []int
	for _, i := range agents {
		if ok(i) {
			list = append(list, i)
		}
	}
	return list
}

// ofRole are the agents that may have the task, as far as they take any.
func (q *asked) ofRole() []int {
	members := q.world.members(q.cl.role)
	list := make([]int, 0, len(members))
	for _, i := range members {
		if !q.world.agents[i].Closed {
			list = append(list, int(i))
		}
	}
	return list
}

func noneOpen(closed int) string {
	if closed == 1 {
		return "the only agent takes no tasks"
	}
	return fmt.Sprintf("none of %d agents takes tasks", closed)
}

// known counts agents by what is known of all of them.
func (q *asked) known(agents int) string {
	if q.closed > 0 {
		return fmt.Sprintf("%d %s tasks", agents, areAgents(agents, "agent takes", "agents take"))
	}
	return fmt.Sprintf("%d %s known", agents, areAgents(agents, "agent is", "agents are"))
}

// explainRoom is for agents with room: what the job's other tasks leave of
// them, and what was offered.
func (q *asked) explainRoom(room []int) Shortage {
	all := q.tallies(q.d, q.cl)
	if ok := allowed(all); len(where(room, ok)) > 0 {
		n := len(where(room, ok))
		return Shortage{"an offer", fmt.Sprintf("%d %s had room when last offered", n, gpu.Plural(n, "agent"))}
	}
	refused := func(t *tally) int {
		return len(where(room, func(i int) bool { return !allowed([]*tally{t})(i) }))
	}
	worst := slices.MaxFunc(all, func(x, y *tally) int { return cmp.Compare(refused(x), refused(y)) })
	return Shortage{
		fmt.Sprintf("an agent that %s leaves to it", worst.con),
		fmt.Sprintf("%s room, %d %s refused", have(len(room)), refused(worst), areAgents(refused(worst), "is", "are")),
	}
}

// heldBack counts the agents that would do if nothing were reserved.
func (q *asked) heldBack(agents []int) int {
	if !q.d.Beyond {
		return 0
	}
	free := *q.d
	free.Beyond = false
	cl := q.class(&free)
	return len(where(agents, func(i int) bool { return q.fits(i, cl) }))
}

// lack is what the demand wants first: GPUs, else CPUs.
func (q *asked) lack() string {
	if q.cl.gpus == 0 {
		return q.lackPlain(quantities()[0], "")
	}
	return q.wanted() + " on one agent"
}

func (q *asked) wanted() string {
	if q.cl.shared {
		return q.wantedParts()
	}
	return fmt.Sprintf("%d free %s", q.cl.gpus, q.devices())
}

// devices is how the wish is called in "2 free V100".
func (q *asked) devices() string { return q.counted(q.d.Request.GPUs) }

// counted is devices for that many of them.
func (q *asked) counted(n int) string {
	r := &q.d.Request
	s := r.Types.Noun(n)
	if r.MinMemMiB > 0 {
		s += fmt.Sprintf(" of %d MiB or more", r.MinMemMiB)
	}
	if !r.Devices.Any() {
		s += " of " + named(r.Devices)
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
	switch q.cl.wish.topology {
	case gpu.NVLink:
		s += " joined by NVLink"
	case gpu.SameNUMA:
		s += " of one NUMA node"
	}
	return s
}

func named(d gpu.Devices) string {
	if n := len(d.Include); n > 0 {
		return fmt.Sprintf("the %d named", n)
	}
	return fmt.Sprintf("others than the %d named", len(d.Exclude))
}

func (q *asked) explainGPUs(agents []int) Shortage {
	typed := where(agents, q.hasType)
	if len(typed) == 0 {
		return Shortage{q.lack(), q.seenOther(agents)}
	}
	rules := q.rules()
	good := where(typed, func(i int) bool { return !failsAny(rules, i) })
	if len(good) == 0 {
		return Shortage{q.lack(), fmt.Sprintf("%s %s, %s", have(len(typed)), q.typeNoun(), worst(rules, typed))}
	}
	others := ""
	if n := len(typed) - len(good); n > 0 {
		others = "; of the others " + worst(rules, where(typed, func(i int) bool { return failsAny(rules, i) }))
	}
	var short Shortage
	if enough := where(good, q.enough); len(enough) > 0 {
		short = q.explainRest(enough, q.wanted())
	} else if q.cl.shared {
		o := q.survey(where(agents, func(i int) bool { return !q.hasType(i) || !failsAny(rules, i) }))
		short = Shortage{q.lack(), o.text(q)}
	} else {
		short = Shortage{q.lack(), q.seenTyped(good)}
	}
	short.Seen += others
	return short
}

func (q *asked) enough(i int) bool {
	if q.cl.shared {
		return q.fitsParts(&q.rooms[i], q.cl)
	}
	return q.available(i, q.cl) >= int(q.cl.gpus)
}

// hasType reports whether the agent has GPUs of the types wanted.
func (q *asked) hasType(i int) bool {
	return q.typed.on(q.rooms[i].kind, q.world).some
}

func (q *asked) typeNoun() string {
	switch types := &q.d.Request.Types; {
	case types.Any():
		return "GPUs"
	case len(types.Include) == 0:
		return "such GPUs"
	default:
		return "the type"
	}
}

// seenTyped counts the free GPUs on agents that have what is wanted.
func (q *asked) seenTyped(good []int) string {
	noun := q.typeNoun()
	if q.cl.wish.special() {
		noun = "such GPUs"
	}
	seen := fmt.Sprintf("%s %s, ", have(len(good)), noun)
	together := ""
	if q.cl.wish.topology != "" {
		together = " together"
	}
	most, with, largest, shared := 0, 0, 0, 0
	told := true
	for _, i := range good {
		switch n := q.available(i, q.cl); {
		case n > most:
			most, with = n, 1
		case n == most:
			with++
		}
		total := q.total(i)
		told = told && total > 0
		largest = max(largest, total)
		shared += q.shared(i)
	}
	switch {
	case told && largest < int(q.cl.gpus):
		seen += fmt.Sprintf("the largest has %d", largest)
	case most == 0:
		seen += "none has one free"
	case with == 1:
		seen += fmt.Sprintf("1 has %d free", most) + together
	default:
		seen += fmt.Sprintf("%d have %d free", with, most) + together
	}
	if shared > 0 {
		seen += fmt.Sprintf("; %d %s shared (not whole)", shared, areAgents(shared, "is", "are"))
	}
	return seen
}

// shared counts the devices that would do if they were not shared.
func (q *asked) shared(i int) int {
	r := &q.rooms[i]
	if r.part < 0 || r.kind.divisible {
		return 0
	}
	mask := q.cl.wish.on(r.kind, q.world).mask
	return len(where(members(mask, nil), func(s int) bool { return q.isShared(r, s) && q.cl.wish.uuid(r.uuids[s]) }))
}

// special tells a wish that is about more than types.
func (w *wish) special() bool {
	r := &w.request
	return w.named || w.topology != "" || r.MinMemMiB > 0 || r.MinDriver != "" || r.MinCUDA != ""
}

// total counts the GPUs that would do if all were free; 0 where the agent
// does not tell.
func (q *asked) total(i int) int {
	r := &q.rooms[i]
	m := q.cl.wish.on(r.kind, q.world)
	if r.kind.listed {
		n := 0
		for _, s := range members(m.mask, nil) {
			if q.cl.wish.uuid(r.uuids[s]) && !q.isShared(r, s) {
				n++
			}
		}
		return n
	}
	if m.counted {
		return max(q.world.agents[i].TotalGPUs, int(r.freeGPUs()))
	}
	return 0
}

func have(agents int) string {
	if agents == 1 {
		return "1 agent has"
	}
	return fmt.Sprintf("%d agents have", agents)
}

// seenOther says what there is where the type is nowhere.
func (q *asked) seenOther(agents []int) string {
	if len(agents) == 0 {
		return "no agent is known yet"
	}
	count := map[string]int{}
	for _, i := range agents {
		once := map[string]bool{}
		for _, m := range q.world.agents[i].Models() {
			once[gpu.TypeOf(m)] = true
		}
		for t := range once {
			count[t]++
		}
	}
	if len(count) == 0 {
		return fmt.Sprintf("%s no GPU", have(len(agents)))
	}
	var list []string
	for t, n := range count {
		list = append(list, fmt.Sprintf("%s on %d", t, n))
	}
	slices.Sort(list)
	return fmt.Sprintf("no agent%s has the type, %s: %s", q.open(), q.known(len(agents)), strings.Join(list, ", "))
}

// open tells apart whom reasons leave out.
func (q *asked) open() string {
	if q.closed > 0 {
		return " that takes tasks"
	}
	return ""
}

func areAgents(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
