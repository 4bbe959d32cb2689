package eviction

import (
	"slices"
	"sort"
	"strings"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
)

// Selector chooses units whose end makes room for waiting tasks. It belongs to one plan and one goroutine.
type Selector struct {
	// Cluster has what is free, and what tasks that end already will free. Agents are of one role, or of the role "" for all
	// roles together.
	Cluster  *fit.Cluster
	Role     string
	Overhead fit.Amount
	// Units are the tasks that may end, the least harm first.
	Units []Unit
	// OnChange is called with sign 1 when a unit is chosen and with -1 when it is not chosen any more.
	OnChange func(u *Unit, sign int)

	// unitsOn are the indexes of the units by agent, scratch is a copy of the cluster for trials.
	unitsOn map[int][]int
	scratch fit.Cluster
	// last are the last searches, by rule, for claims with the key lastKey, which later claims with that key continue.
	// searches counts searches, up to maxSearches.
	last     map[int]*search
	lastKey  string
	searches int
}

// Claim is a demand for which units may end.
type Claim struct {
	// Key is equal for claims that need the same units, "" if none are equal.
	Key    string
	Demand *fit.Demand
	// Tasks is the number of tasks that wait, Missing how many of them find no free place. All of a gang fit or none.
	Tasks, Missing int
	Gang           bool
	// Chosen are units that are chosen for the claim already, and of which those that are not necessary are released. Permits, if
	// given, reports whether the chosen units are enough for what is not counted in tasks.
	Chosen  []*Unit
	Permits func() bool
	// Rules report whether a unit may end for the claim, given the units that are chosen. The next rule, which permits more,
	// is used where the units that one permits are not enough.
	Rules []func(*Unit) bool
}

// maxSearches limits the searches of a Selector; further claims are for the next plan. A search visits all units. Claims
// with equal keys share one.
const maxSearches = 64

// maxSearchRounds limits how often the victims of one claim are searched again without units that their roles cannot
// spare.
const maxSearchRounds = 4

// maxPrunedUnits limits how many chosen units are checked for being unnecessary.
const maxPrunedUnits = 16

// Choose marks units as chosen whose end makes room for missing more tasks of a claim, all of a gang or as many as
// possible. The cluster has no places of the claim taken.
func (s *Selector) Choose(c *Claim) []*Unit {
	if c.Demand.Request.NeedsSameType() {
		return s.chooseForOneType(c)
	}
	if c.Key == "" || c.Key != s.lastKey {
		s.last, s.lastKey = nil, c.Key
	}
	chosen, missing := slices.Clone(c.Chosen), c.Missing
	if len(chosen) > 0 {
		missing = c.Tasks - s.Count(c.Demand, c.Tasks, chosen)
	}
	for rule := 0; rule < len(c.Rules) && missing > 0; rule++ {
		more := s.chooseByRule(c, rule, missing, chosen)
		if chosen = append(chosen, more...); len(chosen) > 0 {
			missing = c.Tasks - s.Count(c.Demand, c.Tasks, chosen)
		}
	}
	switch {
	case c.Gang && missing > 0:
		s.Release(chosen)
		return nil
	case len(chosen) > 1:
		most := c.Tasks - missing
		chosen = s.Prune(chosen, func(units []*Unit) bool {
			return s.Count(c.Demand, c.Tasks, units) >= most && (c.Permits == nil || c.Permits())
		})
	}
	return chosen
}

// Count returns how many of n tasks fit once units have ended.
func (s *Selector) Count(d *fit.Demand, n int, ended []*Unit) int {
	return len(s.placeAfter(d, n, ended))
}

// CountBeside is Count if tasks of other demands take their places first, all of a gang or none.
func (s *Selector) CountBeside(others []Claim, d *fit.Demand, n int, ended []*Unit) int {
	s.endInScratch(ended)
	for i := range others {
		o := &others[i]
		if places := s.scratch.PlaceTasks(o.Demand, o.Tasks); o.Gang && len(places) < o.Tasks {
			s.scratch.UndoPlacements(o.Demand, places)
		}
	}
	return len(s.scratch.PlaceTasks(d, n))
}

// placeAfter returns where up to n tasks fit once units have ended.
func (s *Selector) placeAfter(d *fit.Demand, n int, ended []*Unit) []fit.Placement {
	s.endInScratch(ended)
	return s.scratch.PlaceTasks(d, n)
}

// endInScratch makes scratch the cluster as it is once units have ended.
func (s *Selector) endInScratch(ended []*Unit) {
	s.scratch.CopyFrom(s.Cluster)
	for _, u := range ended {
		s.move(&s.scratch, u, -1, true)
	}
}

// Prune returns chosen units without those that are not necessary, the most harm first. The others are released before
// fits is called.
func (s *Selector) Prune(units []*Unit, fits func([]*Unit) bool) []*Unit {
	units = slices.Clone(units)
	slices.SortStableFunc(units, func(a, b *Unit) int { return a.Harm.Compare(&b.Harm) })
	for i := len(units) - 1; i >= 0 && i >= len(units)-maxPrunedUnits; i-- {
		u, without := units[i], slices.Delete(slices.Clone(units), i, i+1)
		if s.release(u); !fits(without) {
			s.choose(u)
			continue
		}
		units, s.last = without, nil
	}
	return units
}

// chooseForOneType chooses the units for tasks whose GPUs are of one type: for the type with the least harm.
func (s *Selector) chooseForOneType(c *Claim) (best []*Unit) {
	for _, typed := range s.Cluster.DemandsByType(c.Demand) {
		free := s.Count(&typed, c.Tasks, nil)
		own := *c
		own.Demand, own.Missing = &typed, c.Tasks-free
		if c.Key != "" {
			own.Key += " on " + strings.Join(typed.Request.Types.Include, " ")
		}
		chosen := s.Choose(&own)
		s.Release(chosen)
		if len(chosen) > 0 && (best == nil || compareHarm(chosen, best) < 0) {
			best = chosen
		}
	}
	for _, u := range best {
		s.choose(u)
	}
	return best
}

// compareHarm compares the harm of two choices.
func compareHarm(a, b []*Unit) int {
	x, y := sumHarm(a), sumHarm(b)
	return x.Compare(&y)
}

func (s *Selector) choose(u *Unit) {
	u.Chosen = true
	if s.OnChange != nil {
		s.OnChange(u, 1)
	}
}

func (s *Selector) release(u *Unit) {
	u.Chosen = false
	if s.OnChange != nil {
		s.OnChange(u, -1)
	}
}

// Release takes back chosen units, and forgets the last search, which counted on them.
func (s *Selector) Release(units []*Unit) {
	for _, u := range units {
		s.release(u)
	}
	s.last = nil
}

// ChooseFirst chooses the unit with the least harm that may end, and returns it; nil if there is none.
func (s *Selector) ChooseFirst(mayEnd func(*Unit) bool) *Unit {
	for i := range s.Units {
		if u := &s.Units[i]; !u.Chosen && mayEnd(u) {
			s.choose(u)
			return u
		}
	}
	return nil
}

// chooseByRule chooses units by one rule of a claim, for missing more tasks. chosen are the units that the rules before
// have chosen for it.
func (s *Selector) chooseByRule(c *Claim, rule, missing int, chosen []*Unit) []*Unit {
	var own []*Unit
	gain, way := 0, wholeAgents
	for round := 0; gain < missing && round < maxSearchRounds; round++ {
		found, continued := s.last[rule], round == 0 && s.last[rule] != nil
		if !continued {
			if s.searches++; s.searches > maxSearches {
				break
			}
			var countable bool
			if found, countable = s.newSearch(c, rule, missing-gain, slices.Concat(chosen, own), way); !countable {
				return append(own, s.chooseInOrder(c, rule, missing, slices.Concat(chosen, own))...)
			}
			if way != fewTasks { // later claims may need room for more
				if s.last == nil {
					s.last = map[int]*search{}
				}
				s.last[rule] = found
			}
		}
		gain += found.chooseBundles(c.Rules[rule], missing-gain, &own)
		switch {
		case continued:
			way = wholeAgents
		case !found.skipped:
			return own
		default:
			way = min(way+1, unitByUnit)
		}
	}
	return own
}

// usable reports whether a unit that is not chosen may end for the claim by a rule, and could make room for it.
func (c *Claim) usable(rule int, u *Unit) bool {
	return !u.Chosen && u.frees(&c.Demand.Request) && c.Rules[rule](u)
}

// chooseInOrder chooses units for demands whose room cannot be counted agent by agent: the first ones in the order of
// harm with which all tasks of a claim fit, or one more of them, without those that are not necessary.
func (s *Selector) chooseInOrder(c *Claim, rule, missing int, chosen []*Unit) []*Unit {
	var all []*Unit
	for i := range s.Units {
		if u := &s.Units[i]; c.usable(rule, u) {
			s.choose(u)
			all = append(all, u)
		}
	}
	for _, u := range all {
		s.release(u)
	}
	n := c.Tasks
	var places []fit.Placement
	fits := func(units []*Unit) bool {
		if got := s.placeAfter(c.Demand, n, slices.Concat(chosen, units)); len(got) == n {
			places = got
			return true
		}
		return false
	}
	if !fits(all) {
		if n = c.Tasks - missing + 1; c.Gang || n == c.Tasks || !fits(all) {
			return nil
		}
	}
	units := all[:sort.Search(len(all), func(k int) bool { return fits(all[:k]) })]
	fits(units)
	if near := s.unitsNear(units, places); fits(near) {
		units = near
	}
	for _, u := range units {
		s.choose(u)
	}
	return s.Prune(units, fits)
}

// unitsNear returns the units with a task on an agent of the places.
func (s *Selector) unitsNear(units []*Unit, places []fit.Placement) []*Unit {
	var near []*Unit
	for _, u := range units {
		if slices.ContainsFunc(u.Tasks, func(t *queue.RunningTask) bool {
			at := s.Cluster.FindAgent(t.AgentID, s.Role)
			return slices.ContainsFunc(places, func(p fit.Placement) bool { return p.Agent == at })
		}) {
			near = append(near, u)
		}
	}
	return near
}

// Take frees in the cluster what chosen units hold, so that waiting tasks can be placed there.
func (s *Selector) Take(units []*Unit) {
	for _, u := range units {
		s.move(s.Cluster, u, -1, true)
	}
}

// Return undoes Take and releases the units.
func (s *Selector) Return(units []*Unit) {
	for _, u := range units {
		s.move(s.Cluster, u, -1, false)
	}
	s.Release(units)
}
