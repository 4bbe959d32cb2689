package fit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mesos-gpu/gpu"
)

// quantity is one of the plain resources, with its unit, in thousandths.
type quantity struct {
	unit string
	free func(r *room) int64
	need func(cl *class) int64
	held func(h *hold) int64
	part func(a amount) int64
}

func quantities() []quantity {
	plain := func(unit string, of func(amount) int64) quantity {
		return quantity{
			unit: unit, part: of,
			free: func(r *room) int64 { return of(r.free) },
			need: func(cl *class) int64 { return of(cl.need) },
			held: func(h *hold) int64 { return of(h.amount) },
		}
	}
	return []quantity{
		plain("CPUs", func(a amount) int64 { return a.cpus }),
		plain("MiB of memory", func(a amount) int64 { return a.mem }),
		plain("MiB of disk", func(a amount) int64 { return a.disk }),
		{
			unit: "ports", part: func(amount) int64 { return 0 },
			free: func(r *room) int64 { return int64(r.nports) * 1000 },
			need: func(cl *class) int64 { return int64(cl.ports) * 1000 },
			held: func(*hold) int64 { return 0 },
		},
	}
}

// of is how much of it the demand may have of an agent.
func (x *quantity) of(q *asked, i int) int64 {
	r := &q.rooms[i]
	n := x.free(r)
	if q.cl.beyond && r.hold > 0 {
		n -= x.held(&q.holds[r.hold-1])
	}
	return n
}

// explainPlain is for work without GPUs.
func (q *asked) explainPlain(agents []int) Shortage {
	rules := q.rules()
	good := where(agents, func(i int) bool { return !failsAny(rules, i) })
	if len(good) > 0 || len(agents) == 0 {
		short := q.explainRest(good, "")
		if bad := where(agents, func(i int) bool { return failsAny(rules, i) }); len(bad) > 0 {
			short.Seen += "; of the others " + worst(rules, bad)
		}
		return short
	}
	return Shortage{q.lack(), fmt.Sprintf("%s, %s", q.known(len(agents)), worst(rules, agents))}
}

// explainRest says which plain resource is short on agents that have the GPUs
// (beside, where the job wants some). It names the one most agents lack.
func (q *asked) explainRest(agents []int, beside string) Shortage {
	list := quantities()
	if len(agents) == 0 {
		return Shortage{q.lackPlain(list[0], beside), "no agent is known yet"}
	}
	lacking := func(x quantity) int {
		return len(where(agents, func(i int) bool { return x.of(q, i) < x.need(q.cl) }))
	}
	worst := slices.MaxFunc(list, func(x, y quantity) int { return cmp.Compare(lacking(x), lacking(y)) })
	if port, free := q.scarcePort(agents); len(agents)-free > lacking(worst) {
		return q.shortOfPort(port, free, len(agents), beside)
	}
	var most int64
	for _, i := range agents {
		most = max(most, worst.of(q, i))
	}
	seen := fmt.Sprintf("%s, the most free on one is %s", q.known(len(agents)), number(most))
	if beside != "" {
		seen = fmt.Sprintf("%s the GPUs, the most free on one is %s", have(len(agents)), number(most))
	}
	return Shortage{q.lackPlain(worst, beside), seen}
}

// scarcePort is the port, of those that the demand names, that the fewest
// agents have free, and how many do: all where it names none.
func (q *asked) scarcePort(agents []int) (port, free int) {
	free = len(agents)
	for _, p := range q.cl.hosts {
		if p == 0 {
			continue
		}
		if n := len(where(agents, func(i int) bool { return rangeOf(q.rooms[i].ports, p) >= 0 })); n < free {
			port, free = p, n
		}
	}
	return port, free
}

func (q *asked) shortOfPort(port, free, agents int, beside string) Shortage {
	with := ""
	if beside != "" {
		beside, with = " beside "+beside, " with the GPUs"
	}
	return Shortage{
		fmt.Sprintf("host port %d%s on one agent", port, beside),
		fmt.Sprintf("port %d is free on %d of %d %s%s", port, free, agents, gpu.Plural(agents, "agent"), with),
	}
}

func (q *asked) lackPlain(x quantity, beside string) string {
	s := q.needed(x, 1)
	if beside != "" {
		return s + " beside " + beside + " on one agent"
	}
	return s + " on one agent"
}

// needed is how much of it so many tasks need together.
func (q *asked) needed(x quantity, tasks int) string {
	s := x.amount(x.need(q.cl) * int64(tasks))
	if part := x.part(q.d.Overhead.milli()) * int64(tasks); part > 0 {
		s += fmt.Sprintf(" (%s of it for the %s)", number(part), gpu.Plural(tasks, "executor"))
	}
	return s
}

// amount reads "1 CPU", "1.5 CPUs".
func (x *quantity) amount(milli int64) string {
	if one, many := strings.CutSuffix(x.unit, "s"); many && milli == 1000 {
		return "1 " + one
	}
	return number(milli) + " " + x.unit
}

// Refusal says why one agent does not do for one task of the demand, with
// both numbers.
func (c *Cluster) Refusal(i int, d *Demand) string {
	q := c.ask(d)
	r := &c.rooms[i]
	if r.role != q.cl.role {
		return fmt.Sprintf("%s wants offers to role %q, agent offers to %q", d.Job, d.Role, c.world.agents[i].Role)
	}
	if q.cl.gpus == 0 || q.hasType(i) {
		for _, rule := range q.rules() {
			if rule.fails(i) {
				return fmt.Sprintf("%s wants %s, agent has %s", d.Job, rule.want, rule.has(i))
			}
		}
	}
	if q.cl.gpus > 0 && !q.enough(i) {
		if q.cl.shared {
			o := q.survey([]int{i})
			return fmt.Sprintf("%s wants %s, agent: %s", d.Job, q.wanted(), o.text(&q))
		}
		return fmt.Sprintf("%s wants %d %s, agent has %d free", d.Job, q.cl.gpus, q.devices(), q.available(i, q.cl))
	}
	for _, x := range quantities() {
		if have := x.of(&q, i); have < x.need(q.cl) {
			return fmt.Sprintf("%s wants %s, agent has %s", d.Job, x.amount(x.need(q.cl)), number(have))
		}
	}
	if port, free := q.scarcePort([]int{i}); free == 0 {
		return fmt.Sprintf("%s wants port %d, which the agent has not free", d.Job, port)
	}
	for _, t := range c.tallies(d, q.cl) {
		if !allowed([]*tally{t})(i) {
			return fmt.Sprintf("%s wants %s, agent has %s", d.Job, t.con, t.on(i))
		}
	}
	return d.Job + " was placed elsewhere"
}

// on says what the tally has for an agent.
func (t *tally) on(i int) string {
	id := t.col.ids[i]
	if id < 0 {
		return "no " + t.con.Field
	}
	return fmt.Sprintf("%s with %d %s of the job", t.col.values[id], t.count[id], gpu.Plural(t.count[id], "task"))
}
