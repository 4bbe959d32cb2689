package fit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mesos-gpu/gpu"
)

// placeSameType is PlaceTasks for tasks whose GPUs are all of one type. It places on the first type that has room for n
// tasks, or else on the one with room for most. It also returns the demand for that type, or nil if no agent of the role
// has GPUs of a known, acceptable type.
func (c *Cluster) placeSameType(d *Demand, n int) (typed *Demand, placements []Placement) {
	room := -1
	for _, one := range c.DemandsByType(d) {
		places := c.PlaceTasks(&one, n)
		if len(places) == n {
			return &one, places
		}
		c.UndoPlacements(&one, places)
		if len(places) > room {
			typed, room = &one, len(places)
		}
	}
	if room <= 0 {
		return typed, nil
	}
	return typed, c.PlaceTasks(typed, n)
}

// DemandsByType returns the demand with each acceptable type of GPUs that agents of the role have: in the order in which
// the request lists them, or else the type of the best agent first.
func (c *Cluster) DemandsByType(d *Demand) []Demand {
	names := c.acceptableTypes(d)
	all := make([]Demand, len(names))
	scores := make(map[string]int64, len(names))
	for i, name := range names {
		all[i] = demandForType(d, name)
		if len(names) > 1 {
			scores[name] = c.BestScore(&all[i])
		}
	}
	nameOf := func(one *Demand) string { return gpu.TypeOf(one.Request.Types.Include[0]) }
	listed := func(one *Demand) int {
		return slices.IndexFunc(d.Request.Types.Include, one.Request.Types.MayMatch)
	}
	slices.SortFunc(all, func(x, y Demand) int {
		nameX, nameY := nameOf(&x), nameOf(&y)
		return cmp.Or(cmp.Compare(listed(&x), listed(&y)), cmp.Compare(scores[nameY], scores[nameX]), cmp.Compare(nameX, nameY))
	})
	return all
}

// demandForType returns the demand with one of its acceptable types instead of the same type for all tasks.
func demandForType(d *Demand, name string) Demand {
	typed := *d
	typed.Request.Types = d.Request.Types.OfType(name)
	return typed
}

// acceptableTypes lists the known types of GPUs of the role's agents that the request accepts.
func (c *Cluster) acceptableTypes(d *Demand) []string {
	cl := c.classifyDemand(d)
	seen := map[int32]bool{}
	var names []string
	for _, i := range c.index.roleAgents(cl.roleID) {
		k := c.capacities[i].hardware
		if seen[k.ID] {
			continue
		}
		seen[k.ID] = true
		for _, p := range k.Products() {
			if name := p.Type(); name != "" && cl.requirement.AcceptsProduct(p) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// hasEnoughOfOneType returns hasEnoughGPUs for tasks whose GPUs are all of one type, whichever it is.
func (e *demandExplainer) hasEnoughOfOneType() func(i int) bool {
	var typed []demandExplainer
	for _, one := range e.DemandsByType(e.demand) {
		typed = append(typed, e.newExplainer(&one))
	}
	return func(i int) bool {
		return slices.ContainsFunc(typed, func(t demandExplainer) bool { return t.hasEnoughGPUs(i) })
	}
}

// explainSameType is ExplainGang for tasks whose GPUs are all of one type. It explains the type with the most room.
func (c *Cluster) explainSameType(d *Demand, n int) Shortage {
	typed, places := c.placeSameType(d, max(n, 1))
	if typed == nil {
		plain := *d
		plain.Request.Types.Same = false
		short := c.ExplainShortage(&plain)
		if c.BestScore(&plain) > 0 {
			short = Shortage{"GPUs of a known type", "the agents with room do not name the types of theirs"}
		}
		return short
	}
	c.UndoPlacements(typed, places)
	short := c.ExplainGang(typed, n)
	if names := c.acceptableTypes(d); len(names) > 1 && len(places) < max(n, 1) {
		short.Found += fmt.Sprintf("; all GPUs must be of one type, and of %s, %s has the most room",
			strings.Join(names, " and "), gpu.TypeOf(typed.Request.Types.Include[0]))
	}
	return short
}
