package eviction

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/job"
)

// search has, for one demand, the sets of units on each agent that make room for more tasks there.
type search struct {
	*Selector
	// bundles are the sets by agent, each to be chosen after those before it. queue has the agents with the next bundle
	// that causes the least harm first.
	bundles map[int][]bundle
	queue   bundleQueue
	// useful is for how many tasks room is needed. Claims with a key share a search, so it is not known for them.
	useful int
	// skipped reports that a bundle was left out because a role would have lost what it deserves. Another set of units on
	// the same agent may do.
	skipped bool
}

// bundle is a set of units on one agent whose end makes room for gain tasks.
type bundle struct {
	agent int
	units []*Unit
	gain  int
	// harm is the harm of the units that were not chosen when it was computed.
	harm Harm
}

// updateHarm computes the harm of the units that are not chosen yet, for each task that fits then, up to useful ones.
func (b *bundle) updateHarm(useful int) {
	b.harm = sumHarm(slices.DeleteFunc(slices.Clone(b.units), func(u *Unit) bool { return u.Chosen }))
	b.harm.Work /= time.Duration(min(b.gain, useful))
}

// bundleQueue is a heap of bundles, one of each agent.
type bundleQueue []bundle

func (q bundleQueue) Len() int { return len(q) }
func (q bundleQueue) Less(i, j int) bool {
	return cmp.Or(q[i].harm.Compare(&q[j].harm), cmp.Compare(q[i].agent, q[j].agent)) < 0
}
func (q bundleQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *bundleQueue) Push(x any)   { *q = append(*q, x.(bundle)) }
func (q *bundleQueue) Pop() any {
	last := len(*q) - 1
	b := (*q)[last]
	*q = (*q)[:last]
	return b
}

// searchWay is how a search forms bundles. The next way is tried where roles cannot spare the units of a bundle.
type searchWay int

const (
	// wholeAgents: a bundle makes room for as many tasks as its agent has room for then. Claims with one key share it.
	wholeAgents searchWay = iota
	// fewTasks: a bundle makes room for at most as many tasks as the claim misses.
	fewTasks
	// unitByUnit: all units of an agent that are in bundles may end together by the rule, which takes longer.
	unitByUnit
)

// newSearch finds the bundles of all agents for a claim, given that chosen units end. missing tasks of the claim need room. It
// returns false for demands whose room cannot be counted agent by agent.
func (s *Selector) newSearch(c *Claim, rule, missing int, chosen []*Unit, way searchWay) (*search, bool) {
	s.indexUnits()
	s.endInScratch(chosen)
	count, ok := s.scratch.CountTasks(c.Demand, job.MaxTasks)
	if !ok {
		return nil, false
	}
	found := &search{Selector: s, bundles: map[int][]bundle{}, useful: missing}
	if c.Key != "" {
		found.useful = job.MaxTasks
	}
	usable := make([]bool, len(s.Units))
	for i := range s.Units {
		usable[i] = c.usable(rule, &s.Units[i])
	}
	for _, agent := range slices.Sorted(maps.Keys(s.unitsOn)) {
		var mayEnd func(*Unit) bool
		most := job.MaxTasks
		switch way {
		case fewTasks:
			most = missing
		case unitByUnit:
			mayEnd = c.Rules[rule]
		}
		found.bundles[agent] = s.bundlesOn(agent, &count, most, usable, mayEnd)
		found.push(agent)
	}
	return found, true
}

// indexUnits sets unitsOn.
func (s *Selector) indexUnits() {
	if s.unitsOn != nil {
		return
	}
	s.unitsOn = map[int][]int{}
	for i := range s.Units {
		last := -1
		for _, t := range s.Units[i].Tasks {
			if at := s.Cluster.FindAgent(t.AgentID, s.Role); at >= 0 && at != last && !slices.Contains(s.unitsOn[at], i) {
				s.unitsOn[at], last = append(s.unitsOn[at], i), at
			}
		}
	}
}

// push adds the next bundle of an agent to the queue.
func (f *search) push(agent int) {
	if list := f.bundles[agent]; len(list) > 0 {
		b := list[0]
		f.bundles[agent] = list[1:]
		b.updateHarm(f.useful)
		heap.Push(&f.queue, b)
	}
}

// chooseBundles chooses bundles until there is room for missing tasks, and returns for how many there is. It adds their
// units to chosen.
func (f *search) chooseBundles(mayEnd func(*Unit) bool, missing int, chosen *[]*Unit) (gain int) {
	for gain < missing && len(f.queue) > 0 {
		b := heap.Pop(&f.queue).(bundle)
		from, spread := len(*chosen), false
		for _, u := range b.units {
			if u.Chosen {
				continue
			}
			if !mayEnd(u) {
				for _, before := range (*chosen)[from:] {
					f.release(before)
				}
				*chosen, f.skipped = (*chosen)[:from], true
				b.gain = 0
				break
			}
			f.choose(u)
			*chosen = append(*chosen, u)
			spread = spread || u.isSpread()
		}
		if b.gain == 0 {
			continue
		}
		gain += b.gain
		f.push(b.agent)
		if spread { // bundles of other agents have chosen units now
			for i := range f.queue {
				f.queue[i].updateHarm(f.useful)
			}
			heap.Init(&f.queue)
		}
	}
	return gain
}

// bundlesOn ends the usable units on one agent in scratch, the least harm first, and returns the sets that make room for
// more tasks, each for at most that many and without units that are not necessary for it. If mayEnd is given, it is asked for
// each unit, given those before it.
func (s *Selector) bundlesOn(agent int, count *fit.TaskCapacity, most int, usable []bool, mayEnd func(*Unit) bool) (bundles []bundle) {
	move := func(u *Unit, free bool) int {
		s.move(&s.scratch, u, agent, free)
		count.UpdateAgent(agent)
		return count.TasksOn(agent)
	}
	before := count.TasksOn(agent)
	ended := map[*Unit]bool{} // in an earlier bundle than its place in the order
	var units []*Unit         // that have ended in scratch and are in no bundle
	for k, i := range s.unitsOn[agent] {
		u := &s.Units[i]
		if !usable[i] || ended[u] {
			continue
		}
		if mayEnd != nil {
			if !mayEnd(u) {
				continue
			}
			s.choose(u)
			defer s.release(u)
		}
		units = append(units, u)
		last := len(units) - 2 // u is necessary: there was no more room before it
		for now := min(move(u, true), before+most); now > before; now = min(count.TasksOn(agent), before+most) {
			necessary := slices.Clone(units)
			var spare []*Unit
			for n := last; n >= 0; n-- {
				if move(necessary[n], false) >= now {
					spare = append(spare, necessary[n])
					necessary = slices.Delete(necessary, n, n+1)
					continue
				}
				move(necessary[n], true)
			}
			slices.Reverse(spare)
			var one *Unit
			if len(necessary) > 1 && mayEnd == nil {
				later := slices.DeleteFunc(slices.Clone(s.unitsOn[agent][k+1:]), func(i int) bool { return !usable[i] || ended[&s.Units[i]] })
				one = s.findSingle(later, necessary, now, move)
			}
			if one == nil {
				units = spare
			} else { // units are for the next bundle, perhaps with room for it already
				ended[one], necessary = true, []*Unit{one}
				move(one, true)
			}
			bundles = append(bundles, bundle{agent: agent, units: necessary, gain: now - before})
			for _, u := range spare {
				move(u, true)
			}
			before, last = now, len(units)-1
		}
	}
	return bundles
}

// findSingle returns a unit among later ones that makes room for as many tasks on an agent as several units together, with
// less harm. It returns nil without such a unit.
func (s *Selector) findSingle(later []int, several []*Unit, room int, move func(*Unit, bool) int) (one *Unit) {
	total := sumHarm(several)
	for _, u := range several {
		move(u, false)
	}
	for _, i := range later {
		u := &s.Units[i]
		if u.Harm.Compare(&total) >= 0 {
			break
		}
		fits := move(u, true) >= room
		if move(u, false); fits {
			one = u
			break
		}
	}
	for _, u := range several {
		move(u, true)
	}
	return one
}
