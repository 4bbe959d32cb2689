package fit

import "time"

// Renew brings the cluster up to date: some of its agents are now as told, and
// so are the typical tasks and the time. It is then what NewCluster would make
// of all agents, but has looked at few of them, and is not for a cluster whose
// places somebody took: that would be of a clone. It reports whether it could.
// If not (there are other agents than there were, one goes away for
// maintenance, too much was left behind) the cluster is of no use any more.
func (c *Cluster) Renew(changed []Agent, typical []Typical, now time.Time) bool {
	w := c.world
	if w.closing || w.waste > len(c.rooms)+maxWaste || len(w.wishes)+len(w.typed)+len(w.kinds) > maxWaste || len(w.picks) > 16*maxWaste {
		return false
	}
	clear(w.classes)
	clear(w.filters) // what constraints ask of agents may have changed
	clear(w.columns)
	c.now = now
	var others []int
	for i := range changed {
		at := c.Index(changed[i].ID, changed[i].Role)
		if at < 0 || !changed[i].Unavailable.IsZero() {
			return false
		}
		if c.reopen(at, &changed[i]) {
			others = append(others, at)
		}
	}
	c.measure(typical)
	for _, at := range others {
		c.rate(at)
	}
	if w.frag.on {
		c.measureAll()
	}
	return true
}

// maxWaste bounds what a world remembers that no agent may need any more.
const maxWaste = 4096

// reopen makes an agent's room anew, where it was if it still has the size. It
// reports whether that was necessary.
func (c *Cluster) reopen(i int, a *Agent) bool {
	was := c.world.agents[i]
	c.world.agents[i] = *a
	if was.stays(a) {
		return false
	}
	if !was.same(a) {
		c.world.furnished[i] = nil
	}
	old, whole, parts := c.rooms[i], len(c.whole), len(c.parts)
	size, shares := len(c.wholeOf(&old)), len(c.partsOf(&old))
	c.open(i)
	r := &c.rooms[i]
	if len(c.wholeOf(r)) == size {
		copy(c.whole[old.word:], c.wholeOf(r))
		r.word, c.whole = old.word, c.whole[:whole]
	} else {
		c.world.waste++
	}
	switch n := len(c.partsOf(r)); {
	case n == 0 && shares == 0:
	case n == shares:
		copy(c.parts[old.part:], c.partsOf(r))
		copy(c.alls[old.part:], c.allsOf(r))
		r.part, c.parts, c.alls = old.part, c.parts[:parts], c.alls[:parts]
	default:
		c.world.waste++
	}
	return true
}

// measure finds out what typical tasks make of the cluster's GPUs.
func (c *Cluster) measure(list []Typical) {
	if !c.policy.typical {
		list = nil
	}
	c.world.measureBy(newFragments(c.world, list, c.policy.feeds))
	if c.policy.feeds && c.world.frag.on {
		c.world.frag.survey(c)
	}
}

// measureAll brings the fragmentation of all agents up to date. It is the same
// for those in the same state.
func (c *Cluster) measureAll() {
	s := &c.world.states
	s.begin(len(c.rooms))
	for i := range c.rooms {
		r := &c.rooms[i]
		at := &s.scored[c.state(r)]
		if at.scan != s.scan {
			at.scan, at.before = s.scan, c.fragmented(r)
		}
		r.before = at.before
	}
}

// Closing reports whether maintenance of an agent is planned.
func (c *Cluster) Closing() bool { return c.world.closing }
