package sched

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// heldResources is an index of what attempts hold that are not known to have ended: placed tasks and stray attempts. Mesos
// offers what one of them holds if its books lag behind an agent. Such offers are restricted to the rest.
type heldResources struct {
	// byAgent are the holdings of each agent, byDevice those of each device, whole or shared.
	byAgent  map[string][]*holding
	byDevice map[string][]*holding
	// sums are the sums of byAgent that were asked for since the last change.
	sums map[string]holdingSum
}

// holdingSum is what all attempts on an agent hold.
type holdingSum struct {
	amount fit.Amount
	gpus   int
}

// holding lists the resources that one attempt holds.
type holding struct {
	taskID, agentID string
	amount          fit.Amount
	// gpus is the number of GPUs that are not shared, deviceIDs their ids if they are known.
	gpus      int
	deviceIDs []string
	shares    []gpu.DeviceShare
	ports     []int
	// until is when the holding ends by itself: some time after another agent has offered one of the devices, because the
	// machine has registered under another id, or after the agent's daemon has reported the holder. It is zero before that.
	until time.Time
	// reported is the daemon's description of a holder that is no task of ours, "" for others.
	reported string
}

// holdingOf returns what a placed task holds.
func (s *State) holdingOf(j *job.Job, t *job.Task) *holding {
	spec := j.SpecOf(t)
	return newHolding(t, queue.TaskAmount(spec, s.cfg.Policy.Overhead), spec.Request.GPUs)
}

// newHolding returns what an attempt holds. gpus is how many GPUs it requested, whole ones or shares.
func newHolding(t *job.Task, amount fit.Amount, gpus int) *holding {
	h := &holding{taskID: t.ID, agentID: t.AgentID, amount: amount, shares: t.Shares, ports: t.Ports}
	h.gpus, h.deviceIDs = gpu.ExcludeShared(gpus, t.DeviceIDs, t.Shares)
	return h
}

// holdingOfStray returns what a stray attempt holds.
func holdingOfStray(stray *StrayAttempt) *holding {
	return newHolding(&stray.Task, stray.Amount, stray.GPUs)
}

// devices yields the ids of all devices of a holding.
func (h *holding) devices(yield func(string) bool) {
	for _, id := range h.deviceIDs {
		if !yield(id) {
			return
		}
	}
	for _, share := range h.shares {
		if !yield(share.UUID) {
			return
		}
	}
}

func (r *heldResources) add(h *holding) {
	if r.byAgent == nil {
		r.byAgent, r.byDevice, r.sums = map[string][]*holding{}, map[string][]*holding{}, map[string]holdingSum{}
	}
	delete(r.sums, h.agentID)
	r.byAgent[h.agentID] = append(r.byAgent[h.agentID], h)
	for id := range h.devices {
		r.byDevice[id] = append(r.byDevice[id], h)
	}
}

// memoryOf returns how much memory of a shared device attempts hold.
func (r *heldResources) memoryOf(device string) (mib int64) {
	for _, h := range r.byDevice[device] {
		for _, share := range h.shares {
			if share.UUID == device {
				mib += share.MemMiB
			}
		}
	}
	return mib
}

// find returns the holding of an attempt, or nil.
func (r *heldResources) find(taskID, agentID string) *holding {
	if i := slices.IndexFunc(r.byAgent[agentID], func(h *holding) bool { return h.taskID == taskID }); i >= 0 {
		return r.byAgent[agentID][i]
	}
	return nil
}

// remove removes the holding of an attempt.
func (r *heldResources) remove(taskID, agentID string) {
	h := r.find(taskID, agentID)
	if h == nil {
		return
	}
	removeFrom := func(index map[string][]*holding, key string) {
		if index[key] = slices.DeleteFunc(index[key], func(other *holding) bool { return other == h }); len(index[key]) == 0 {
			delete(index, key)
		}
	}
	delete(r.sums, agentID)
	removeFrom(r.byAgent, agentID)
	for id := range h.devices {
		removeFrom(r.byDevice, id)
	}
}

// sumOf returns what all attempts on an agent hold, of which there is at least one.
func (r *heldResources) sumOf(agentID string) holdingSum {
	sum, known := r.sums[agentID]
	if !known {
		for _, h := range r.byAgent[agentID] {
			sum.amount, sum.gpus = sum.amount.Plus(h.amount), sum.gpus+h.gpus
		}
		r.sums[agentID] = sum
	}
	return sum
}

// offerConflict is an offer of what an attempt holds.
type offerConflict struct {
	// offer is the whole offer.
	offer *Offer
	// holder is the attempt, what the resource that it holds, for users.
	holder, what string
	// isReported is set if the holder is no task of ours: the agent's daemon has reported it with the refusal of a task.
	isReported bool
	// isAmount is set if the agent has too little CPUs or memory for what its attempts hold. Mesos can forget the executor of
	// a task that it knows, so that this may last as long as the task.
	isAmount bool
}

// restrictOffers returns offers without what attempts hold that are not known to have ended. Conflicts are remembered for
// reasons, until an offer of the agent has none or the attempt has ended, and reported once.
func (s *State) restrictOffers(offers []Offer) []*Offer {
	restricted := make([]*Offer, len(offers))
	sums := s.sumOffers(offers)
	for i := range offers {
		o := &offers[i]
		restricted[i] = o
		c, rest := s.findConflict(o, sums[o.AgentID])
		key := keyOfOffer(o)
		if c == nil {
			if len(s.conflicts) > 0 {
				delete(s.conflicts, key)
			}
			continue
		}
		before, known := s.conflicts[key]
		isNew := !known || before.holder != c.holder
		if c.isAmount {
			isNew = !s.amountsReported[o.AgentID].Add(amountReportInterval).After(s.now)
			s.amountsReported[o.AgentID] = s.now
		}
		if isNew && !c.isReported {
			s.changes.Conflicts = append(s.changes.Conflicts, OfferConflict{AgentID: o.AgentID, Hostname: o.Hostname, TaskID: c.holder, What: c.what})
		}
		s.conflicts[key] = *c
		restricted[i] = rest
	}
	return restricted
}

// totalsOf returns an agent as it was last listed; the zero value if it never was.
func (s *State) totalsOf(agentID string) Agent {
	if a, listed := s.listedAgents[agentID]; listed {
		return a
	}
	return s.absentTotals[agentID]
}

// keepTotals remembers the agents that a new list may lack, as long as attempts hold something there.
func (s *State) keepTotals() {
	for id := range s.absentTotals {
		if len(s.held.byAgent[id]) == 0 {
			delete(s.absentTotals, id)
		}
	}
	for id, a := range s.listedAgents {
		if len(s.held.byAgent[id]) > 0 {
			s.absentTotals[id] = a
		}
	}
}

// amountReportInterval is for how long an agent must have offered no CPUs or memory of its attempts before that is reported
// again.
const amountReportInterval = 10 * time.Minute

// offeredSum is the sum of all offers of an agent, held and new.
type offeredSum struct {
	amount fit.Amount
	gpus   int
	shared map[string]SharedDevice
}

func (sum *offeredSum) add(o *Offer) {
	sum.amount, sum.gpus = sum.amount.Plus(o.Free), sum.gpus+o.GPUs
	for _, d := range o.Shared {
		if sum.shared == nil {
			sum.shared = map[string]SharedDevice{}
		}
		before := sum.shared[d.UUID]
		sum.shared[d.UUID] = SharedDevice{UUID: d.UUID, MemMiB: before.MemMiB + d.MemMiB, Cores: before.Cores + d.Cores}
	}
}

// sumOffers returns the sums of the agents in new offers on which attempts hold something, by agent.
func (s *State) sumOffers(offers []Offer) map[string]*offeredSum {
	sums := map[string]*offeredSum{}
	for i := range offers {
		if o := &offers[i]; len(s.held.byAgent[o.AgentID]) > 0 {
			if sums[o.AgentID] == nil {
				sums[o.AgentID] = &offeredSum{}
			}
			sums[o.AgentID].add(o)
		}
	}
	if len(sums) == 0 {
		return sums
	}
	for _, h := range s.offers.offers {
		if sum := sums[h.AgentID]; sum != nil {
			sum.add(h.Offer)
		}
	}
	return sums
}

// findConflict returns the first conflict of an offer, and the offer without the held resources, nil without a
// conflict. sum is the sum of all offers of the agent, nil if no attempt holds anything there.
func (s *State) findConflict(o *Offer, sum *offeredSum) (c *offerConflict, rest *Offer) {
	if sum == nil {
		sum = &offeredSum{}
		sum.add(o)
	}
	edit := func(h *holding, what string) *Offer {
		if c == nil {
			clone := *o
			c, rest = &offerConflict{offer: o, holder: h.taskID, what: what, isReported: h.reported != ""}, &clone
		}
		return rest
	}
	if len(s.held.byDevice) > 0 {
		for _, id := range o.DeviceIDs {
			if h := s.holderOf(o, id); h != nil {
				r := edit(h, "GPU "+id)
				r.DeviceIDs = slices.DeleteFunc(slices.Clone(r.DeviceIDs), func(other string) bool { return other == id })
				r.GPUs = max(r.GPUs-1, 0)
			}
		}
		for _, d := range o.Shared {
			s.restrictShare(o, d, sum.shared[d.UUID], edit)
		}
	}
	holdings := s.held.byAgent[o.AgentID]
	if len(holdings) == 0 {
		return c, rest
	}
	held := s.held.sumOf(o.AgentID)
	used, gpus := held.amount, held.gpus
	for _, h := range holdings {
		for _, port := range h.ports {
			if slices.ContainsFunc(o.Ports, func(r PortRange) bool { return r.First <= port && port <= r.Last }) {
				r := edit(h, fmt.Sprintf("port %d", port))
				r.Ports = fit.WithoutPorts(r.Ports, []int{port})
			}
		}
	}
	listed := s.totalsOf(o.AgentID)
	if excess := sum.gpus + gpus - listed.GPUs; len(o.DeviceIDs) == 0 && o.GPUs > 0 && listed.GPUs > 0 && excess > 0 {
		edit(s.likeliestHolder(holdings), fmt.Sprintf("%d of %d GPUs", gpus, listed.GPUs)).GPUs = max(o.GPUs-excess, 0)
	}
	limit := func(offered *float64, sum, used, total float64, unit string) {
		const rounding = 0.01 // Mesos rounds to thousandths
		if excess := sum + used - total; total > 0 && excess > rounding {
			*offered = max(*offered-excess, 0)
			isFirst := c == nil
			edit(s.likeliestHolder(holdings), fmt.Sprintf("%.4g of %.4g %s", used, total, unit))
			c.isAmount = c.isAmount || isFirst
		}
	}
	free := o.Free
	limit(&free.CPUs, sum.amount.CPUs, used.CPUs, listed.Total.CPUs, "CPUs")
	limit(&free.MemMiB, sum.amount.MemMiB, used.MemMiB, listed.Total.MemMiB, "MiB of memory")
	if c != nil {
		rest.Free = free
	}
	return c, rest
}

// likeliestHolder returns which of the attempts on an agent the master probably does not know.
func (s *State) likeliestHolder(holdings []*holding) *holding {
	if i := slices.IndexFunc(holdings, s.mayBeForgotten); i >= 0 {
		return holdings[i]
	}
	return holdings[len(holdings)-1]
}

// mayBeForgotten reports whether the master may not know the attempt.
func (s *State) mayBeForgotten(h *holding) bool {
	ref, isTask := s.tasks[h.taskID]
	return s.strays[h.taskID] != nil || isTask && s.isDoubtful(ref.get())
}

// holderOf returns the attempt that holds a device which an offer has as a whole, or the GPU to which it belongs; nil if it
// is free. A holder of an agent whose machine has registered under another id counts for a while.
func (s *State) holderOf(o *Offer, device string) *holding {
	if h := s.activeHolder(o, device); h != nil {
		return h
	}
	for i := range o.Inventory {
		switch d := &o.Inventory[i]; {
		case d.MIG == nil:
		case d.UUID == device:
			if h := s.activeHolder(o, d.MIG.Parent); h != nil {
				return h
			}
		case d.MIG.Parent == device:
			if h := s.activeHolder(o, d.UUID); h != nil {
				return h
			}
		}
	}
	return nil
}

func (s *State) activeHolder(o *Offer, device string) *holding {
	holders := s.held.byDevice[device]
	if len(holders) == 0 {
		return nil
	}
	s.noteMoved(o, holders[0])
	return holders[0]
}

// noteMoved notes when an agent first offers what is held of another one: its machine has registered under another id.
func (s *State) noteMoved(o *Offer, h *holding) {
	if h.agentID != o.AgentID && h.until.IsZero() {
		h.until = s.now.Add(movedHolderTimeout)
		s.timedHolders = append(s.timedHolders, h)
	}
}

// restrictShare reduces the share of a device in an offer if all offers of the agent together exceed what attempts leave of the
// device. offered is the sum of these offers.
func (s *State) restrictShare(o *Offer, d, offered SharedDevice, edit func(*holding, string) *Offer) {
	holder := s.holderOf(o, d.UUID)
	if holder == nil {
		return
	}
	left, isKnown := s.totalShare(o, d)
	if isKnown { // the other offers have their part
		left.MemMiB, left.Cores = left.MemMiB-(offered.MemMiB-d.MemMiB), left.Cores-(offered.Cores-d.Cores)
	}
	for _, h := range s.held.byDevice[d.UUID] {
		s.noteMoved(o, h)
		if slices.Contains(h.deviceIDs, d.UUID) || !isKnown && s.mayBeForgotten(h) {
			left.MemMiB, left.Cores = 0, 0
		}
		for _, share := range h.shares {
			if share.UUID == d.UUID && isKnown {
				left.MemMiB, left.Cores = left.MemMiB-share.MemMiB, left.Cores-share.Cores
			}
		}
	}
	if len(s.held.byDevice[d.UUID]) == 0 { // the GPU of a MIG device is held, or a MIG device of the GPU
		left.MemMiB, left.Cores = 0, 0
	}
	left.MemMiB, left.Cores = max(min(left.MemMiB, d.MemMiB), 0), max(min(left.Cores, d.Cores), 0)
	if left == d {
		return
	}
	r := edit(holder, "a share of GPU "+d.UUID)
	r.Shared = slices.Clone(r.Shared)
	r.Shared[slices.IndexFunc(r.Shared, func(other SharedDevice) bool { return other.UUID == d.UUID })] = left
}

// totalShare returns the total of a shared device, as the agent was listed or else as its inventory has it. If neither has it,
// it returns what is offered, and false.
func (s *State) totalShare(o *Offer, d SharedDevice) (total SharedDevice, isKnown bool) {
	for _, total := range s.totalsOf(o.AgentID).Shared {
		if total.UUID == d.UUID {
			return total, true
		}
	}
	for i := range o.Inventory {
		if o.Inventory[i].UUID == d.UUID {
			return SharedDevice{UUID: d.UUID, MemMiB: o.Inventory[i].MemMiB, Cores: gpu.AllCores}, true
		}
	}
	return d, false
}

// releaseHolding frees what an attempt held. Offers that were restricted for it are whole again, and those that were refused
// because of it are requested again.
func (s *State) releaseHolding(agentID, taskID string) {
	s.held.remove(taskID, agentID)
	released := false
	for key, c := range s.conflicts {
		if c.holder != taskID && key.ID != agentID {
			continue
		}
		released = true
		delete(s.conflicts, key)
		if h, isHeld := s.offers.offers[c.offer.ID]; isHeld {
			delete(s.offers.offers, c.offer.ID)
			sum := s.sumOffers([]Offer{*c.offer})[key.ID]
			h.Offer = c.offer
			if next, rest := s.findConflict(c.offer, sum); next != nil {
				s.conflicts[key], h.Offer = *next, rest
			}
			s.offers.offers[c.offer.ID] = h
			s.changedAgents[key] = false
		}
	}
	if released {
		s.reconsiderAll()
	}
}

// movedHolderTimeout is for how long an attempt holds its devices after another agent has offered one: the machine has
// registered under another id. Mesos's agent destroys containers that it does not know when it starts, and the daemon looks
// each minute for containers of the Docker engine whose executor is gone.
const movedHolderTimeout = 3 * time.Minute

const movedMessage = "its machine has registered as another agent"

// reportedHolderTimeout is for how long a device is not used that an agent's daemon has refused because another container
// holds it.
const reportedHolderTimeout = time.Minute

// recordReportedHolder holds back the devices of an attempt that its agent's daemon has refused.
func (s *State) recordReportedHolder(t *job.Task, reported string) {
	h := &holding{
		taskID: "held/" + t.ID, agentID: t.AgentID, deviceIDs: t.DeviceIDs,
		reported: cmp.Or(reported, "its agent's daemon reports that another container holds a device of "+t.ID), until: s.now.Add(reportedHolderTimeout),
	}
	s.held.add(h)
	s.timedHolders = append(s.timedHolders, h)
}

// endTimedHoldings ends the holdings whose time is over. An attempt of a machine that has registered under another id has
// then ended. If its agent was away before, it is retried at once, and only its place is kept.
func (s *State) endTimedHoldings() (ops []Operation) {
	var due []*holding
	for _, h := range s.timedHolders {
		ref, isTask := s.tasks[h.taskID]
		if isTask && h.reported == "" && h.until.After(s.now) && s.strays[h.taskID] == nil && ref.get().State.IsPlaced() && s.isDoubtful(ref.get()) {
			ops = append(ops, s.giveUpTask(ref, movedMessage)...)
			s.held.find(h.taskID, h.agentID).until = h.until
		}
	}
	s.timedHolders = slices.DeleteFunc(s.timedHolders, func(h *holding) bool {
		isOver := !h.until.After(s.now)
		if isOver {
			due = append(due, h)
		}
		return isOver
	})
	for _, h := range due {
		ref, isTask := s.tasks[h.taskID]
		switch {
		case h.reported != "":
			s.releaseHolding(h.agentID, h.taskID)
		case s.strays[h.taskID] != nil:
			s.removeStray(h.taskID)
		case isTask && ref.get().State.IsPlaced():
			u := TaskUpdate{State: job.Lost, Message: movedMessage}
			ops = append(ops, s.endAttempt(ref, attemptResultOf(ref, nextState(ref.get(), u), u))...)
			s.retireJob(ref.job)
		}
	}
	return ops
}

// explainConflict returns what an agent offers that an attempt holds, for users, and the agent with its whole offer; "" and
// nil without a conflict.
func (s *State) explainConflict(key placement.AgentKey) (text string, whole *fit.AgentResources) {
	c, ok := s.conflicts[key]
	if !ok {
		return "", nil
	}
	for a := range fit.JoinOffers([]*Offer{c.offer}) {
		s.addListed(&a)
		whole = &a
	}
	if h := s.held.find(c.holder, c.offer.AgentID); h != nil && h.reported != "" {
		return h.reported, whole
	}
	state := "not known to have ended"
	if ref, isTask := s.tasks[c.holder]; isTask && ref.get().State.IsPlaced() {
		state = string(ref.get().State)
	}
	return fmt.Sprintf("it offers %s, which task %s holds: %s", c.what, c.holder, state), whole
}

// OfferConflict is an offer of what an attempt holds that is not known to have ended.
type OfferConflict struct {
	AgentID, Hostname string
	// TaskID is the attempt that holds What.
	TaskID, What string
}
