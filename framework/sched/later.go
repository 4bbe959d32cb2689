package sched

import (
	"cmp"
	"slices"

	"mesos-gpu/framework/sched/fit"
)

// ends are a role's tasks of which is known when they end, in that order.
type ends struct {
	ending, all []end // those that were asked to; those and the others
	willing     bool  // somebody of the role may be preempted
}

// end is a task that ends, and the index of its agent: -1 if that is not there.
type end struct {
	*Running
	at int
}

// endsOf finds a role's once a plan.
func (pl *placing) endsOf(role string) *ends {
	if e := pl.ends[role]; e != nil {
		return e
	}
	e := &ends{}
	pl.ends[role] = e
	for i := range pl.q.Running {
		r := &pl.q.Running[i]
		if r.Spec.Role != role || r.Stuck {
			continue
		}
		e.willing = e.willing || !r.Ending && r.Spec.Preemptible
		if r.Ends.IsZero() {
			continue
		}
		e.all = append(e.all, pl.locate(r))
	}
	for _, one := range sorted(e.all) {
		if one.Ending {
			e.ending = append(e.ending, one)
		}
	}
	return e
}

// sorted puts them in the order of their ends.
func sorted(list []end) []end {
	slices.SortFunc(list, func(a, b end) int {
		return cmp.Or(a.Ends.Compare(b.Ends), cmp.Compare(a.TaskID, b.TaskID))
	})
	return list
}

func (pl *placing) locate(r *Running) end {
	return end{r, pl.cluster.index(r.AgentID, r.Spec.Role)}
}

func (pl *placing) located(list []Running) []end {
	ends := make([]end, len(list))
	for i := range list {
		ends[i] = pl.locate(&list[i])
	}
	return ends
}

// leftover is what an agent had free that offers nothing now, by its index.
type leftover struct {
	fit.Holding
	at int
}

// leftOf finds what a role's agents have left, once a plan.
func (pl *placing) leftOf(role string) []leftover {
	list, known := pl.leftovers[role]
	if known {
		return list
	}
	for _, at := range pl.cluster.byRole[role] {
		if a := &pl.agents[at]; len(a.Offers) == 0 {
			if h := pl.left(a); usableBy(&h, nil) {
				list = append(list, leftover{h, at})
			}
		}
	}
	pl.leftovers[role] = list
	return list
}

// scratch is memory for what plans imagine.
type scratch struct {
	known, later clusters
	rest         []*fit.Holding // of later, by agent
	unplaced     []Reason
}

// later is a role's agents as they will be, task by task that ends.
type later struct {
	*clusters
	p *Policy
	// rest is what agents have left that known left out: it counts once a task
	// of theirs has ended.
	rest []*fit.Holding
}

// later begins with what is known.
func (pl *placing) later(c *clusters, d *fit.Demand) later {
	s := pl.scratch
	s.later.focus(c, d.Role)
	s.rest = slices.Grow(s.rest[:0], len(pl.agents))[:len(pl.agents)]
	for _, at := range c.byRole[d.Role] {
		s.rest[at] = nil
	}
	left := pl.leftOf(d.Role)
	for i := range left {
		if h := &left[i]; !usableBy(&h.Holding, d) {
			s.rest[h.at] = &h.Holding
		}
	}
	return later{&s.later, pl.p, s.rest}
}

// end has a task ended, and returns the index of its agent among its role's
// part; -1 if it is not there.
func (l *later) end(e *end) int {
	if e.at < 0 {
		return -1
	}
	if h := l.rest[e.at]; h != nil {
		l.releaseAt(e.at, *h)
		l.rest[e.at] = nil
	}
	l.releaseAt(e.at, holding(e.Running, l.p))
	_, at := l.home(e.at)
	return at
}
