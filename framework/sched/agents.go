package sched

import (
	"reflect"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/pending"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/gpu"
)

// agentTable contains the known facts about agents, apart from held offers.
type agentTable struct {
	// listedAgents are the agents of the master's last list, by id; nil before the first list.
	listedAgents map[string]Agent
	// absentTotals are agents as they were last listed: those that were removed since the last list, and all on which attempts
	// hold something.
	absentTotals map[string]Agent
	// lastOffered has each agent's free resources in one role when its last offer arrived or left, less launches
	// since. An agent that is no longer listed is removed.
	lastOffered map[placement.AgentKey]*agentSnapshot
	// recordedOffers counts the sets of offers that lastOffered has seen.
	recordedOffers int
	// changedAgents are the agents of which offers have arrived or left the pool since the last plan. The next plan reads
	// these agents again, and marks those with held offers.
	changedAgents map[placement.AgentKey]bool
	// cordons are the cordons by host. Operators change them; they apply to agents that register later too.
	cordons map[string]CordonState
	// launchLosses are the agents that lost their last launches, by id.
	launchLosses map[string]launchLosses
}

// agentSnapshot contains the free resources of an agent in one role at a time. A rescinded offer leaves a snapshot with a zero time and
// nothing free.
type agentSnapshot struct {
	fit.AgentResources
	// at is when the last offer arrived. number orders the snapshots, also those of one time; it is 0 after an offer was
	// rescinded.
	at     time.Time
	number int
}

// isNewer reports whether the offer of a is newer than that of another role of the agent. Of two that were recorded
// together, the role's name decides.
func (a *agentSnapshot) isNewer(other *agentSnapshot) bool {
	return a.number > other.number || a.number == other.number && a.Role < other.Role
}

func newAgentTable() agentTable {
	return agentTable{
		absentTotals:  map[string]Agent{},
		lastOffered:   map[placement.AgentKey]*agentSnapshot{},
		changedAgents: map[placement.AgentKey]bool{},
		cordons:       map[string]CordonState{},
		launchLosses:  map[string]launchLosses{},
	}
}

// CordonOf returns the cordon of a host, or the zero value.
func (t *agentTable) CordonOf(host string) CordonState { return t.cordons[host] }

// ResolveHost returns the name by which an agent is cordoned, given its id or hostname. It returns "" if no such agent
// is known and no such host is cordoned.
func (t *agentTable) ResolveHost(agent string) string {
	if agent == "" {
		return ""
	}
	if a, ok := t.listedAgents[agent]; ok {
		return cordonHost(a.Hostname, agent)
	}
	if _, ok := t.cordons[agent]; ok {
		return agent
	}
	for id, a := range t.listedAgents {
		if a.Hostname == agent {
			return cordonHost(a.Hostname, id)
		}
	}
	for key, a := range t.lastOffered {
		if key.ID == agent || a.Hostname == agent {
			return cordonHost(a.Hostname, key.ID)
		}
	}
	return ""
}

// isClosed reports whether an agent accepts no tasks, because it is cordoned or Mesos drains it.
func (t *agentTable) isClosed(hostname, agentID string) bool {
	_, cordoned := FindCordon(t.cordons, hostname, agentID)
	return cordoned || t.listedAgents[agentID].Draining
}

func (t *agentTable) driverOf(agentID string) string {
	if a := t.listedAgents[agentID]; a.Driver != "" {
		return a.Driver
	}
	for key, a := range t.lastOffered {
		if key.ID == agentID && a.Driver != "" {
			return a.Driver
		}
	}
	return ""
}

// setListedAgents replaces the registered agents, and reports whether anything known of an agent has changed. Agents that
// are no longer listed are gone.
func (t *agentTable) setListedAgents(list []Agent) (changed bool) {
	before := t.listedAgents
	t.listedAgents = make(map[string]Agent, len(list))
	for _, a := range list {
		t.listedAgents[a.ID] = a
		changed = changed || !reflect.DeepEqual(before[a.ID], a)
	}
	changed = changed || len(t.listedAgents) != len(before)
	for key := range t.lastOffered {
		if _, ok := t.listedAgents[key.ID]; !ok {
			delete(t.lastOffered, key)
			changed = true
		}
	}
	for id := range t.launchLosses {
		if _, ok := t.listedAgents[id]; !ok {
			delete(t.launchLosses, id)
		}
	}
	return changed
}

func (t *agentTable) removeAgent(id string) {
	delete(t.listedAgents, id)
	delete(t.launchLosses, id)
	for key := range t.lastOffered {
		if key.ID == id {
			delete(t.lastOffered, key)
		}
	}
}

// recordOffers sets the snapshots of agents from offers that have left the pool.
func (t *agentTable) recordOffers(now time.Time, offers []*Offer) {
	t.recordedOffers++
	for a := range fit.JoinOffers(offers) {
		t.setSnapshot(agentSnapshot{a, now, t.recordedOffers})
	}
}

// recordRescinded records that what an offer had is no longer free.
func (t *agentTable) recordRescinded(o *Offer) {
	for a := range fit.JoinOffers([]*Offer{o}) {
		pending.ClearFree(&a)
		t.setSnapshot(agentSnapshot{AgentResources: a})
	}
}

// setSnapshot replaces the snapshot of an agent, in the same memory.
func (t *agentTable) setSnapshot(a agentSnapshot) {
	key := placement.KeyOfAgent(&a.AgentResources)
	t.changedAgents[key] = false
	last := t.lastOffered[key]
	if last == nil {
		last = &agentSnapshot{}
		t.lastOffered[key] = last
	}
	*last = a
}

// subtractLaunch removes what a launch takes from the last known free resources of its agent.
func (t *agentTable) subtractLaunch(key placement.AgentKey, l *TaskLaunch) {
	a := t.lastOffered[key]
	if a == nil {
		return
	}
	need := queue.TaskAmount(l.Spec, l.Overhead)
	a.Free = Amount{CPUs: a.Free.CPUs - need.CPUs, MemMiB: a.Free.MemMiB - need.MemMiB, DiskMiB: a.Free.DiskMiB - need.DiskMiB}
	gpus, ids := gpu.ExcludeShared(l.Spec.Request.GPUs, l.DeviceIDs, l.Shares)
	a.GPUs -= gpus
	a.Ports = fit.WithoutPorts(a.Ports, l.Ports)
	a.DeviceIDs = slices.DeleteFunc(slices.Clone(a.DeviceIDs), func(id string) bool { return slices.Contains(ids, id) })
	a.Shared = fit.SubtractShares(a.Shared, l.Shares)
}

// leftoverValidity is how long the free resources of an agent's last offer are assumed to be free when they are not
// offered. Other frameworks may have taken them.
const leftoverValidity = time.Minute

// leftover returns the snapshot of an agent's last offer. It is nil if the snapshot is no longer valid, or if the
// agent gets no tasks now.
func (t *agentTable) leftover(key placement.AgentKey, now time.Time) *agentSnapshot {
	last := t.lastOffered[key]
	if last == nil || last.at.Add(leftoverValidity).Before(now) || t.isClosed(last.Hostname, last.ID) {
		return nil
	}
	if pause, _ := t.launchPause(key.ID, now); pause != 0 {
		return nil
	}
	return last
}

// leftoverOf returns what an agent without offers had free in its last offer. It returns nothing once that is no
// longer valid.
func (t *agentTable) leftoverOf(a *fit.AgentResources, now time.Time) fit.TaskResources {
	last := t.leftover(placement.KeyOfAgent(a), now)
	if last == nil {
		return fit.TaskResources{}
	}
	return placement.FreeResources(&last.AgentResources)
}

// newestOffers returns the role of each agent's newest offer that has left the pool, by agent id.
func (t *agentTable) newestOffers() map[string]string {
	newest := make(map[string]placement.AgentKey, len(t.lastOffered))
	for key, a := range t.lastOffered {
		n, ok := newest[key.ID]
		if !ok || a.isNewer(t.lastOffered[n]) {
			newest[key.ID] = key
		}
	}
	roles := make(map[string]string, len(newest))
	for id, key := range newest {
		roles[id] = key.Role
	}
	return roles
}

// addListed sets what only the master's list has of an agent.
func (t *agentTable) addListed(a *fit.AgentResources) {
	listed := t.listedAgents[a.ID]
	a.TotalGPUs, a.AllShared = listed.GPUs, listed.Shared
}

// knownAgents returns all agents except some, sorted by id and role: those that have offered, and those that only the
// master's list has, because other frameworks use all of their resources. roles are the framework's roles.
func (t *agentTable) knownAgents(except map[placement.AgentKey]bool, roles []string) []fit.AgentResources {
	keys := make([]placement.AgentKey, 0, len(t.lastOffered))
	hasOffered := make(map[string]bool, len(t.lastOffered))
	for key := range t.lastOffered {
		hasOffered[key.ID] = true
		keys = append(keys, key)
	}
	for id := range t.listedAgents {
		if hasOffered[id] {
			continue
		}
		for _, role := range roles {
			keys = append(keys, placement.AgentKey{ID: id, Role: role})
		}
	}
	keys = slices.DeleteFunc(keys, func(key placement.AgentKey) bool { return except[key] })
	slices.SortFunc(keys, placement.AgentKey.Compare) // an agent is too large to be moved by a sort
	all := make([]fit.AgentResources, len(keys))
	for i, key := range keys {
		if last, ok := t.lastOffered[key]; ok {
			all[i] = last.AgentResources
			t.addListed(&all[i])
			continue
		}
		a := t.listedAgents[key.ID]
		all[i] = fit.AgentResources{
			ID: key.ID, Role: key.Role, Hostname: a.Hostname, Types: a.Types, Inventory: a.Inventory, TotalGPUs: a.GPUs, AllShared: a.Shared,
			Driver: a.Driver, CUDA: a.CUDA, Attributes: a.Attributes, Region: a.Region, Zone: a.Zone, Ports: slices.Clone(defaultPorts),
		}
	}
	return all
}

// defaultPorts lists the ports that a Mesos agent offers by default. The ports of an agent are unknown until it offers
// something, which may not be before tasks have ended for a job that needs ports.
var defaultPorts = []PortRange{{First: 31000, Last: 32000}}

// sharedDevicesOf returns the devices of an agent that tasks share.
func (t *agentTable) sharedDevicesOf(agentID string) []SharedDevice {
	return t.listedAgents[agentID].Shared
}
