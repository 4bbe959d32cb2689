package sched

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/job"
)

// held is an offer in hand.
type held struct {
	Offer
	since time.Time
}

// pool is the offers in hand, by id, and whether anything has happened since
// they were last looked at. Pauses that ended up to woken have happened.
type pool struct {
	offers map[string]held
	stale  bool
	woken  time.Time
}

// offered takes offers in hand. The next Cycle answers them.
func (s *State) offered(now time.Time, offers []Offer) {
	if !s.connected {
		return // they went with the subscription
	}
	for _, o := range offers {
		s.pool.offers[o.ID] = held{o, now}
	}
	s.pool.stale = s.pool.stale || len(offers) > 0
	s.returned(offers)
	s.explained = nil
}

// cycle places what waits on the offers in hand, and makes room where a job
// may ask for it. Offers that a waiting job could use once more is free stay
// in hand for a while: those of several agents are then there together when
// the last one comes that a gang needs.
func (s *State) cycle(now time.Time) []Op {
	overdue := s.overdue(now)
	if !s.connected || !s.pool.stale && !overdue {
		return nil
	}
	s.pool.stale = false
	s.fleet.line.trim()
	ops := s.refuseCordoned(now)
	if len(s.pool.offers) == 0 && !s.mayPreempt() {
		return ops // before all that waits is looked at
	}
	queue := s.readyIn(&s.fleet.line, now)
	if len(s.pool.offers) == 0 && !preemptible(&queue) {
		return ops
	}
	policy := s.cfg.Policy
	policy.Fit.Typical = s.workload.most()
	s.plans++
	placing := placingOn(s.assemble(now, s.inHand(), &policy), &s.fleet.scratch, s.left, &queue, &policy)
	if len(s.pool.offers) <= maxHeld {
		placing.keeps = func(id string) bool { return s.pool.offers[id].since.Add(s.cfg.HoldOffers).After(now) }
	}
	plan := placing.run()
	s.waited(now, plan.Accept)
	for i := range plan.Accept {
		ops = append(ops, s.accept(now, &plan.Accept[i]))
	}
	ops = append(ops, s.answer(now, &plan)...)
	for _, v := range plan.Preempt {
		ops = append(ops, s.preempt(now, v)...)
	}
	for _, id := range plan.Yield {
		s.yielded[id] = now
	}
	s.turns, s.bound = map[string]Reason{}, map[string]bool{}
	for _, r := range plan.Unplaced {
		switch r.Turn {
		case BehindHead:
			s.turns[r.Job] = r
		case BehindQuota:
			s.bound[s.jobs[r.Job].Spec.Role] = true
		}
	}
	return ops
}

func (s *State) inHand() []Offer {
	offers := make([]Offer, 0, len(s.pool.offers))
	for _, h := range s.pool.offers {
		offers = append(offers, h.Offer)
	}
	return offers
}

// overdue reports whether an offer has been in hand for too long.
func (s *State) overdue(now time.Time) bool {
	for _, h := range s.pool.offers {
		if !h.since.Add(s.cfg.HoldOffers).After(now) {
			return true
		}
	}
	return false
}

// answer declines what is of no use or has been held for long enough.
func (s *State) answer(now time.Time, plan *Plan) []Op {
	refused := plan.Decline
	for _, d := range plan.Hold {
		if h := s.pool.offers[d.OfferID]; !h.since.Add(s.cfg.HoldOffers).After(now) || len(s.pool.offers) > maxHeld {
			refused = append(refused, d)
		}
	}
	return s.refuse(now, refused)
}

// refuse declines offers in hand.
func (s *State) refuse(now time.Time, refused []Declined) []Op {
	slices.SortFunc(refused, func(a, b Declined) int { return cmp.Compare(a.OfferID, b.OfferID) })
	ids := make([]string, len(refused))
	for i, d := range refused {
		ids[i] = d.OfferID
	}
	s.putBack(now, ids...)
	return decline(refused)
}

// maxHeld bounds the offers in hand. A master has one an agent and role, and
// some more where tasks end one by one.
const maxHeld = 100_000

// putBack takes offers out of hand; what they had is remembered.
func (s *State) putBack(now time.Time, ids ...string) {
	var offers []Offer
	for _, id := range ids {
		if h, ok := s.pool.offers[id]; ok {
			offers = append(offers, h.Offer)
			delete(s.pool.offers, id)
		}
	}
	s.see(now, offers...)
}

// agentKey names what one agent offers to one role.
type agentKey struct{ id, role string }

func (k agentKey) compare(o agentKey) int {
	if c := strings.Compare(k.id, o.id); c != 0 {
		return c
	}
	return strings.Compare(k.role, o.role)
}

// seen is an agent as it was at that time.
type seen struct {
	fit.Agent
	at time.Time
}

// see remembers what agents had free when they last offered.
func (s *State) see(now time.Time, offers ...Offer) {
	s.explained = nil
	for _, a := range fit.Join(offers) {
		key := agentKey{a.ID, a.Role}
		s.agents[key] = seen{a, now}
		s.fleet.change(key)
	}
}

// waited finds out for how long a place alone was what tasks waited for. Those
// of a gang wait until the last of them may start.
func (s *State) waited(now time.Time, plan []Accept) {
	gangs := map[*job.Job]time.Time{}
	for i := range plan {
		for l := range plan[i].Launches {
			launch := &plan[i].Launches[l]
			ref := s.tasks[launch.TaskID]
			since, known := gangs[ref.job]
			switch {
			case !ref.job.Spec.Gang:
				since = ref.task().WaitsSince()
			case !known:
				_, since = Queued(now, ref.job, nil)
				gangs[ref.job] = since
			}
			launch.Waited = max(now.Sub(since), 0)
		}
	}
}

// accept records the intent to launch, before the ACCEPT is sent. The offers
// are gone from hand, and with them what the tasks take.
func (s *State) accept(now time.Time, a *Accept) Op {
	var offers []Offer
	for _, id := range a.OfferIDs {
		h := s.pool.offers[id]
		offers = append(offers, h.Offer)
		if h.since.After(a.Offered) {
			a.Offered = h.since
		}
		delete(s.pool.offers, id)
	}
	s.see(now, offers...)
	for i := range a.Launches {
		l := &a.Launches[i]
		s.subtract(agentKey{a.AgentID, a.Role}, l)
		ref := s.tasks[l.TaskID]
		t := ref.task()
		t.NotBefore = time.Time{}
		t.AgentID, t.Hostname, t.AgentURL = a.AgentID, a.Hostname, a.AgentURL
		t.DeviceIDs, t.GPUTypes, t.Parts, t.Ports = l.DeviceIDs, l.GPUTypes, l.Parts, l.Ports
		s.timers[t.ID] = &timer{confirm: now.Add(s.cfg.LaunchTimeout)}
		s.move(now, ref, job.Launching, "")
	}
	return *a
}

// subtract takes a launch from what is remembered of an agent.
func (s *State) subtract(key agentKey, l *Launch) {
	a, ok := s.agents[key]
	if !ok {
		return
	}
	need := s.cfg.Policy.need(l.Spec)
	a.Free = Amount{CPUs: a.Free.CPUs - need.CPUs, MemMiB: a.Free.MemMiB - need.MemMiB, DiskMiB: a.Free.DiskMiB - need.DiskMiB}
	if l.Parts != nil {
		a.Shared = fit.Less(a.Shared, l.Parts)
		s.agents[key] = a
		return
	}
	a.GPUs -= l.Spec.Request.GPUs
	a.Ports = fit.WithoutPorts(a.Ports, l.Ports)
	a.DeviceIDs = slices.DeleteFunc(slices.Clone(a.DeviceIDs), func(id string) bool { return slices.Contains(l.DeviceIDs, id) })
	s.agents[key] = a
}

// decline makes one call of all refusals for the same time.
func decline(list []Declined) []Op {
	byTime := map[time.Duration][]Declined{}
	for _, d := range list {
		byTime[d.Refuse] = append(byTime[d.Refuse], d)
	}
	var ops []Op
	for _, refuse := range slices.Sorted(maps.Keys(byTime)) {
		ops = append(ops, Decline{Offers: byTime[refuse], Refuse: refuse})
	}
	return ops
}

// rescind drops an offer. An answer that is under way ends in TASK_DROPPED.
func (s *State) rescind(id string) {
	h, ok := s.pool.offers[id]
	if !ok {
		return
	}
	delete(s.pool.offers, id)
	a := fit.Join([]Offer{h.Offer})[0]
	empty(&a)
	key := agentKey{a.ID, a.Role}
	s.agents[key] = seen{Agent: a}
	s.fleet.change(key)
	s.explained = nil
}

// preempt asks a task to make room; it goes back into the queue.
func (s *State) preempt(now time.Time, v Victim) []Op {
	ref := s.tasks[v.TaskID]
	return s.end(now, ref, job.ByPreemption, "makes room for "+v.For)
}
