package fit

import (
	"fmt"
	"slices"

	"mesos-gpu/gpu"
)

// ExplainGang returns what agents lack for n tasks of the demand that start together or not at all. If one task alone
// does not fit, it explains that, and names the number of tasks. n is 0 for a task that starts alone.
func (c *Cluster) ExplainGang(d *Demand, n int) Shortage {
	if d.Request.NeedsSameType() {
		return c.explainSameType(d, n)
	}
	one := c.ExplainShortage(d)
	if n < 2 {
		return one
	}
	q := c.newExplainer(d)
	short, together := q.explainTotals(n)
	placements := c.PlaceTasks(d, n)
	defer c.UndoPlacements(d, placements)
	switch {
	case len(placements) == n:
		return one
	case len(placements) == 0:
		one.Missing += fmt.Sprintf(" for each of the %d tasks of the gang", n)
		return one
	case together:
		return short
	}
	rest := *d
	rest.PeerAgents = slices.Clone(d.PeerAgents)
	for _, s := range placements {
		rest.PeerAgents = append(rest.PeerAgents, &c.index.agents[s.Agent])
	}
	next := c.ExplainShortage(&rest)
	room := "there is room for"
	if c.ofTotals {
		room = "empty agents have room for"
	}
	return Shortage{
		fmt.Sprintf("%s for the gang of %d", next.Missing, n),
		fmt.Sprintf("%s %d of its tasks; after that, %s", room, len(placements), next.Found),
	}
}

// gangTotal compares what n tasks need of a resource in total with what is free.
type gangTotal struct {
	// missing formats the need, agents the subject of the sentence about what is free: "2 agents have".
	missing, agents string
	// need and free are in thousandths.
	need, free int64
	// isSum is set if free is the sum of several agents.
	isSum bool
}

// explainTotals returns the resource of which the suitable agents have the smallest fraction of what n tasks need,
// and false if they have enough of all resources.
func (e *demandExplainer) explainTotals(n int) (Shortage, bool) {
	rules := e.buildRules()
	good := filterIndices(e.openAgents(), func(i int) bool {
		return !failsAny(rules, i) && (e.class.gpus == 0 || e.hasType(i))
	})
	var worst *gangTotal
	for _, t := range e.gangTotals(good, n) {
		if t.free < t.need && (worst == nil || float64(t.free)/float64(t.need) < float64(worst.free)/float64(worst.need)) {
			worst = &t
		}
	}
	if worst == nil {
		return Shortage{}, false
	}
	have := "free"
	switch {
	case e.ofTotals:
		have = "in all"
	case worst.isSum:
		have = "free together"
	}
	return Shortage{
		fmt.Sprintf("%s for the gang of %d together", worst.missing, n),
		fmt.Sprintf("%s %s %s", worst.agents, formatMilli(worst.free), have),
	}, true
}

// gangTotals returns the totals by resource. It counts GPUs only if all are
// equally good. Other resources count on agents that have the GPUs free.
func (e *demandExplainer) gangTotals(good []int, n int) (all []gangTotal) {
	with := agentsHave(len(good))
	if e.class.gpus > 0 {
		if !e.class.wantsShares && e.class.requirement.Topology == "" {
			t := gangTotal{agents: with, need: int64(n) * int64(e.class.gpus) * 1000, isSum: len(good) > 1}
			t.missing = fmt.Sprintf("%s %s%s", formatMilli(t.need), e.freeWord(), e.deviceNounFor(n*int(e.class.gpus)))
			for _, i := range good {
				t.free += int64(e.availableGPUs(i, e.class)) * 1000
			}
			all = append(all, t)
		}
		good = filterIndices(good, e.hasEnoughGPUs)
		with = fmt.Sprintf("%d %s with the GPUs %s", len(good), gpu.Plural(len(good), "agent"), pluralVerb(len(good), "has", "have"))
	}
	for _, x := range plainResources() {
		t := gangTotal{missing: e.neededText(x, n), agents: with, need: x.need(e.class) * int64(n), isSum: len(good) > 1}
		for _, i := range good {
			t.free += max(x.availableOn(e, i), 0)
		}
		all = append(all, t)
	}
	return all
}

// DescribeFree reports whether one task of the demand fits on an agent, and
// formats what is free there of what it needs first ("4 free V100").
func (c *Cluster) DescribeFree(i int, d *Demand) (free string, ok bool) {
	q := c.newExplainer(d)
	if !c.fitsTask(i, q.class) || !allowedByAll(c.newCounters(d, q.class))(i) {
		return "", false
	}
	r := &c.capacities[i]
	switch {
	case q.class.gpus == 0:
		cpus := plainResources()[0]
		return cpus.formatAmount(cpus.availableOn(&q, i)) + " free", true
	case q.class.wantsShares:
		most := int32(0)
		for _, s := range c.sharesOf(r) {
			most = max(most, s.free.mem)
		}
		return fmt.Sprintf("%d MiB free of one shared GPU", most), true
	}
	n := q.availableGPUs(i, q.class)
	return fmt.Sprintf("%d free %s", n, q.deviceNounFor(n)), true
}
