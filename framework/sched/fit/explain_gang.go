package fit

import (
	"fmt"
	"slices"

	"mesos-gpu/gpu"
)

// ExplainAll says what the agents lack for n tasks of the demand that start
// together or not at all; what one task lacks goes first. 0 stands for a task
// that starts alone.
func (c *Cluster) ExplainAll(d *Demand, n int) Shortage {
	one := c.Explain(d)
	if n < 2 {
		return one
	}
	q := c.ask(d)
	short, together := q.together(n)
	spots := c.Fill(d, n)
	defer c.Undo(d, spots)
	switch {
	case len(spots) == 0 || len(spots) == n:
		return one
	case together:
		return short
	}
	rest := *d
	rest.Beside = slices.Clone(d.Beside)
	for _, s := range spots {
		rest.Beside = append(rest.Beside, &c.world.agents[s.Agent])
	}
	next := c.Explain(&rest)
	return Shortage{
		fmt.Sprintf("%s for the gang of %d", next.Lack, n),
		fmt.Sprintf("there is room for %d of its tasks, and beside %s %s", len(spots), areAgents(len(spots), "it", "them"), next.Seen),
	}
}

// total is what n tasks need of something together and what the agents have.
type total struct {
	lack       string
	agents     string // "2 agents have"
	need, free int64  // thousandths
	more       bool   // of agents than one
}

// together is the thing of which the agents that would do have least of what
// n tasks need, if it is too little for them.
func (q *asked) together(n int) (Shortage, bool) {
	rules := q.rules()
	good := where(q.ofRole(), func(i int) bool {
		return !failsAny(rules, i) && (q.cl.gpus == 0 || q.hasType(i))
	})
	var worst *total
	for _, t := range q.totals(good, n) {
		if t.free < t.need && (worst == nil || float64(t.free)/float64(t.need) < float64(worst.free)/float64(worst.need)) {
			worst = &t
		}
	}
	if worst == nil {
		return Shortage{}, false
	}
	together := ""
	if worst.more {
		together = " together"
	}
	return Shortage{
		fmt.Sprintf("%s for the gang of %d together", worst.lack, n),
		fmt.Sprintf("%s %s free%s", worst.agents, number(worst.free), together),
	}, true
}

// totals counts GPUs where each does as well as another. Of the rest only what
// is beside GPUs that a task may have is of use.
func (q *asked) totals(good []int, n int) (all []total) {
	with := have(len(good))
	if q.cl.gpus > 0 {
		if !q.cl.shared && q.cl.wish.topology == "" {
			t := total{agents: with, need: int64(n) * int64(q.cl.gpus) * 1000, more: len(good) > 1}
			t.lack = fmt.Sprintf("%s free %s", number(t.need), q.counted(n*int(q.cl.gpus)))
			for _, i := range good {
				t.free += int64(q.available(i, q.cl)) * 1000
			}
			all = append(all, t)
		}
		good = where(good, q.enough)
		with = fmt.Sprintf("%d %s with the GPUs %s", len(good), gpu.Plural(len(good), "agent"), areAgents(len(good), "has", "have"))
	}
	for _, x := range quantities() {
		t := total{lack: q.needed(x, n), agents: with, need: x.need(q.cl) * int64(n), more: len(good) > 1}
		for _, i := range good {
			t.free += max(x.of(q, i), 0)
		}
		all = append(all, t)
	}
	return all
}

// Free reports whether one task of the demand finds place on an agent, and
// says what of its first wish is free there ("4 free V100").
func (c *Cluster) Free(i int, d *Demand) (free string, ok bool) {
	q := c.ask(d)
	if !c.fits(i, q.cl) || !allowed(c.tallies(d, q.cl))(i) {
		return "", false
	}
	r := &c.rooms[i]
	switch {
	case q.cl.gpus == 0:
		cpus := quantities()[0]
		return cpus.amount(cpus.of(&q, i)) + " free", true
	case q.cl.shared:
		most := int32(0)
		for _, p := range c.partsOf(r) {
			most = max(most, p.mem)
		}
		return fmt.Sprintf("%d MiB free of one shared GPU", most), true
	}
	n := q.available(i, q.cl)
	return fmt.Sprintf("%d free %s", n, q.counted(n)), true
}
