package placement

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// victimSearch has, for one demand, the sets of units on each agent that make room for more tasks there.
type victimSearch struct {
	key claimKey
	// bundles are the sets by agent, each to be chosen after those before it. queue has the agents with the next bundle
	// that causes the least harm first.
	bundles map[int][]bundle
	queue   bundleQueue
	// skipped reports that a bundle was left out because a role would have lost what it deserves. Another set of units on
	// the same agent may do.
	skipped bool
}

// bundle is a set of units on one agent whose end makes room for gain tasks.
type bundle struct {
	agent int
	units []*reclaimUnit
	gain  int
	// harm is the harm of the units that were not chosen when it was computed.
	harm harmOfUnit
}

// updateHarm computes the harm of the units that are not chosen yet, for each task that fits then.
func (b *bundle) updateHarm() {
	b.harm = harmOfUnit{}
	first := true
	for _, u := range b.units {
		switch {
		case u.chosen:
		case first:
			b.harm, first = u.harm, false
		default:
			b.harm = b.harm.add(&u.harm)
		}
	}
	b.harm.work /= time.Duration(b.gain)
}

// bundleQueue is a heap of bundles, one of each agent.
type bundleQueue []bundle

func (q bundleQueue) Len() int { return len(q) }
func (q bundleQueue) Less(i, j int) bool {
	return cmp.Or(q[i].harm.compare(&q[j].harm), cmp.Compare(q[i].agent, q[j].agent)) < 0
}
func (q bundleQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *bundleQueue) Push(x any)   { *q = append(*q, x.(bundle)) }
func (q *bundleQueue) Pop() any {
	last := len(*q) - 1
	b := (*q)[last]
	*q = (*q)[:last]
	return b
}

// push adds the next bundle of an agent to the queue.
func (s *victimSearch) push(agent int) {
	if list := s.bundles[agent]; len(list) > 0 {
		b := list[0]
		s.bundles[agent] = list[1:]
		b.updateHarm()
		heap.Push(&s.queue, b)
	}
}

// maxSearchRounds limits how often the victims of one claim are searched again without units that their roles cannot
// spare.
const maxSearchRounds = 4

// selectUnits chooses units whose end makes room for missing more tasks of a job, all of a gang or as many as possible.
// The chosen units are marked, and count as ending.
func (r *reclaimer) selectUnits(j *queue.WaitingJob, d *fit.Demand, key claimKey, n, missing int) []*reclaimUnit {
	if d.Request.NeedsSameType() {
		return r.selectForOneType(j, d, key, n)
	}
	var chosen []*reclaimUnit
	gain := 0
	for round := 0; gain < missing && round < maxSearchRounds; round++ {
		continued := round == 0 && r.search != nil && r.search.key == key
		if !continued {
			if r.searches++; r.searches > maxReclaimSearches {
				break
			}
			var countable bool
			if r.search, countable = r.searchBundles(d, key, chosen); !countable {
				return r.selectInOrder(j, d, key, n)
			}
		}
		gain += r.chooseBundles(missing-gain, &chosen)
		if !continued && !r.search.skipped {
			break
		}
	}
	if j.Spec.Gang && gain < missing {
		r.unchoose(chosen)
		return nil
	}
	return chosen
}

// selectForOneType chooses the units for a gang whose GPUs are of one type: for the type with the least harm.
func (r *reclaimer) selectForOneType(j *queue.WaitingJob, d *fit.Demand, key claimKey, n int) (best []*reclaimUnit) {
	for _, typed := range r.pool.DemandsByType(d) {
		free := r.pool.PlaceTasks(&typed, n)
		r.pool.UndoPlacements(&typed, free)
		typedKey := key
		typedKey.demand += " on " + strings.Join(typed.Request.Types.Include, " ")
		chosen := r.selectUnits(j, &typed, typedKey, n, n-len(free))
		r.unchoose(chosen)
		r.search = nil
		if len(chosen) > 0 && (best == nil || compareHarm(chosen, best) < 0) {
			best = chosen
		}
	}
	for _, u := range best {
		r.choose(u)
	}
	return best
}

// compareHarm compares the harm of two choices.
func compareHarm(a, b []*reclaimUnit) int {
	sum := func(units []*reclaimUnit) harmOfUnit {
		total := units[0].harm
		for _, u := range units[1:] {
			total = total.add(&u.harm)
		}
		return total
	}
	x, y := sum(a), sum(b)
	return x.compare(&y)
}

func (r *reclaimer) choose(u *reclaimUnit) {
	u.chosen = true
	r.alloc.Usage.AddEnding(u.role, u.types, u.shares, 1)
}

func (r *reclaimer) unchoose(units []*reclaimUnit) {
	for _, u := range units {
		u.chosen = false
		r.alloc.Usage.AddEnding(u.role, u.types, u.shares, -1)
	}
}

// chooseBundles chooses bundles until there is room for missing tasks, and returns for how many there is. It adds their
// units to chosen.
func (r *reclaimer) chooseBundles(missing int, chosen *[]*reclaimUnit) (gain int) {
	s := r.search
	for gain < missing && len(s.queue) > 0 {
		b := heap.Pop(&s.queue).(bundle)
		from, spread := len(*chosen), false
		for _, u := range b.units {
			if u.chosen {
				continue
			}
			if !r.canReclaim(s.key, u) {
				r.unchoose((*chosen)[from:])
				*chosen, s.skipped = (*chosen)[:from], true
				b.gain = 0
				break
			}
			r.choose(u)
			*chosen = append(*chosen, u)
			spread = spread || u.isSpread()
		}
		if b.gain == 0 {
			continue
		}
		gain += b.gain
		s.push(b.agent)
		if spread { // bundles of other agents have chosen units now
			for i := range s.queue {
				s.queue[i].updateHarm()
			}
			heap.Init(&s.queue)
		}
	}
	return gain
}

// isSpread reports whether the tasks run on several agents.
func (u *reclaimUnit) isSpread() bool {
	return slices.ContainsFunc(u.tasks, func(t *queue.RunningTask) bool { return t.AgentID != u.tasks[0].AgentID })
}

// searchBundles finds the bundles of all agents for a demand, given that chosen units end. It returns false for demands
// whose room cannot be counted agent by agent.
func (r *reclaimer) searchBundles(d *fit.Demand, key claimKey, chosen []*reclaimUnit) (*victimSearch, bool) {
	r.scratch.CopyFrom(r.pool)
	for _, u := range chosen {
		r.moveUnit(&r.scratch, u, -1, true)
	}
	count, ok := r.scratch.CountTasks(d, job.MaxTasks)
	if !ok {
		return nil, false
	}
	s := &victimSearch{key: key, bundles: map[int][]bundle{}}
	usable := r.usableUnits(key, &d.Request)
	for _, agent := range slices.Sorted(maps.Keys(r.unitsOn)) {
		s.bundles[agent] = r.bundlesOn(agent, &count, usable)
		s.push(agent)
	}
	return s, true
}

// usableUnits reports for each unit whether the claim may have it and the request accepts its GPUs.
func (r *reclaimer) usableUnits(key claimKey, request *gpu.Request) []bool {
	usable := make([]bool, len(r.units))
	for i := range r.units {
		u := &r.units[i]
		usable[i] = u.holdsAcceptable(request) && r.canReclaim(key, u)
	}
	return usable
}

// holdsAcceptable reports whether the unit holds GPUs of a type that the request accepts, or of an unknown type.
func (u *reclaimUnit) holdsAcceptable(request *gpu.Request) bool {
	for name := range u.types {
		if name == "" || strings.Contains(name, "|") || request.Types.Match(name) {
			return true
		}
	}
	return slices.ContainsFunc(u.shares, func(s gpu.DeviceShare) bool { return s.Type == "" || request.Types.Match(s.Type) })
}

// bundlesOn ends the usable units on one agent in scratch, the least harm first, and returns the sets that make room for
// more tasks, each without units that are not necessary for it.
func (r *reclaimer) bundlesOn(agent int, count *fit.TaskCapacity, usable []bool) (bundles []bundle) {
	before := count.TasksOn(agent)
	var units []*reclaimUnit
	for _, i := range r.unitsOn[agent] {
		if !usable[i] {
			continue
		}
		units = append(units, &r.units[i])
		r.moveUnit(&r.scratch, &r.units[i], agent, true)
		count.UpdateAgent(agent)
		now := count.TasksOn(agent)
		if now <= before {
			continue
		}
		var spare []*reclaimUnit
		for k := len(units) - 2; k >= 0; k-- {
			r.moveUnit(&r.scratch, units[k], agent, false)
			if count.UpdateAgent(agent); count.TasksOn(agent) == now {
				spare = append(spare, units[k])
				units = slices.Delete(units, k, k+1)
				continue
			}
			r.moveUnit(&r.scratch, units[k], agent, true)
			count.UpdateAgent(agent)
		}
		bundles = append(bundles, bundle{agent: agent, units: units, gain: now - before})
		for _, u := range spare {
			r.moveUnit(&r.scratch, u, agent, true)
		}
		slices.Reverse(spare)
		units, before = spare, now
	}
	return bundles
}

// selectInOrder chooses units for demands whose room cannot be counted agent by agent: the first ones in the order of
// harm with which n tasks of a job fit, or one task of it, without those that are not necessary.
func (r *reclaimer) selectInOrder(j *queue.WaitingJob, d *fit.Demand, key claimKey, n int) []*reclaimUnit {
	var usable []*reclaimUnit
	for i := range r.units {
		if u := &r.units[i]; u.holdsAcceptable(&d.Request) && r.canReclaim(key, u) {
			r.choose(u)
			usable = append(usable, u)
		}
	}
	r.unchoose(usable)
	var places []fit.Placement
	fits := func(units []*reclaimUnit) bool {
		r.scratch.CopyFrom(r.pool)
		for _, u := range units {
			r.moveUnit(&r.scratch, u, -1, true)
		}
		if more := r.scratch.PlaceTasks(d, n); len(more) == n {
			places = more
			return true
		}
		return false
	}
	if !fits(usable) {
		if j.Spec.Gang || n == 1 {
			return nil
		}
		if n = 1; !fits(usable) {
			return nil
		}
	}
	units := usable[:sort.Search(len(usable), func(k int) bool { return fits(usable[:k]) })]
	fits(units)
	if near := r.unitsNear(units, places); fits(near) {
		units = near
	}
	units = slices.Clone(units)
	for i := len(units) - 1; i >= 0 && i >= len(units)-maxPrunedUnits; i-- {
		if without := slices.Delete(slices.Clone(units), i, i+1); fits(without) {
			units = without
		}
	}
	for _, u := range units {
		r.choose(u)
	}
	return units
}

// unitsNear returns the units with a task on an agent of the places.
func (r *reclaimer) unitsNear(units []*reclaimUnit, places []fit.Placement) []*reclaimUnit {
	var near []*reclaimUnit
	for _, u := range units {
		if slices.ContainsFunc(u.tasks, func(t *queue.RunningTask) bool {
			at := r.pool.FindAgent(t.AgentID, poolRole)
			return slices.ContainsFunc(places, func(p fit.Placement) bool { return p.Agent == at })
		}) {
			near = append(near, u)
		}
	}
	return near
}
