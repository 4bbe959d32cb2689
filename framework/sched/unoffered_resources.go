package sched

import (
	"slices"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/gpu"
)

// unofferedResources are the resources of an agent that no attempt holds, by what Mesos has offered of them.
type unofferedResources struct {
	// idle are the resources that no attempt holds. all are those of them in no offer to any role, and byRole those in no
	// offer to one role that has a freed place there.
	idle, all resourceSet
	byRole    map[string]*resourceSet
}

// takePlace removes the place of an ended task of a role, and returns the part of it that is in no offer, and the part that
// is only in offers to other roles. It leaves out what is in use again. After the GPUs of a place have been offered, its CPUs
// and memory count as not offered only while isRecent is set, also if the agent does not list these.
func (u *unofferedResources) takePlace(role string, place *fit.TaskResources, isRecent bool) (unoffered, elsewhere fit.TaskResources) {
	idle := u.idle.common(place)
	unoffered = u.all.common(place)
	left := subtractResources(place, &unoffered)
	if isRecent || !hasDevices(place) || hasDevices(&unoffered) {
		unoffered.Amount = u.all.commonAmount(place.Amount, !hasDevices(place) || hasDevices(&idle))
	}
	u.idle.remove(&idle)
	u.all.remove(&unoffered)
	u.removeFromRoles(&unoffered)
	of := u.byRole[role]
	elsewhere = of.common(&left)
	if isRecent || !hasDevices(place) || hasDevices(&elsewhere) {
		elsewhere.Amount = of.commonAmount(place.Amount.Minus(unoffered.Amount), hasDevices(&elsewhere))
	}
	u.removeFromRoles(&elsewhere)
	return unoffered, elsewhere
}

// removeFromRoles removes resources that no role may get from the sets of roles.
func (u *unofferedResources) removeFromRoles(r *fit.TaskResources) {
	for _, set := range u.byRole {
		set.remove(r)
	}
}

// resourceSet is a part of an agent's resources.
type resourceSet struct {
	// listed is the agent as the master has listed it. A set has any amount of CPUs, memory, disk, GPUs without ids and shared
	// devices that are not listed.
	listed *Agent
	// amount, gpus and shares are what the set has of the listed totals.
	amount fit.Amount
	gpus   int
	shares []gpu.DeviceShare
	// devices and ports are the device ids and ports that the set does not have.
	devices []string
	ports   []PortRange
}

// newResourceSet returns all resources of an agent.
func newResourceSet(listed *Agent) resourceSet {
	s := resourceSet{listed: listed, amount: listed.Total, gpus: listed.GPUs}
	for _, d := range listed.Shared {
		s.shares = append(s.shares, gpu.DeviceShare{UUID: d.UUID, MemMiB: d.MemMiB, Cores: d.Cores})
	}
	return s
}

func (s *resourceSet) clone() resourceSet {
	c := *s
	c.shares, c.devices, c.ports = slices.Clone(s.shares), slices.Clip(s.devices), slices.Clip(s.ports)
	return c
}

func (s *resourceSet) remove(r *fit.TaskResources) {
	s.amount, s.gpus = s.amount.Minus(r.Amount), s.gpus-r.GPUs
	s.shares = subtractShares(s.shares, r.Shares)
	s.devices = append(s.devices, r.DeviceIDs...)
	for _, port := range r.Ports {
		s.ports = append(s.ports, PortRange{First: port, Last: port})
	}
}

// removeFree removes what an agent has offered.
func (s *resourceSet) removeFree(a *fit.AgentResources) {
	r := placement.FreeResources(a)
	s.remove(&r)
	s.ports = append(s.ports, a.Ports...)
}

// common returns the devices and ports of a place that may be in the set.
func (s *resourceSet) common(place *fit.TaskResources) (in fit.TaskResources) {
	for _, id := range place.DeviceIDs {
		if !slices.Contains(s.devices, id) {
			in.DeviceIDs = append(in.DeviceIDs, id)
		}
	}
	switch {
	case len(place.DeviceIDs) > 0:
		in.GPUs = len(in.DeviceIDs)
	case s.listed.GPUs == 0:
		in.GPUs = place.GPUs
	default:
		in.GPUs = max(min(place.GPUs, s.gpus), 0)
	}
	for _, share := range place.Shares {
		if i := indexOfShare(s.shares, share.UUID); i >= 0 {
			share.MemMiB, share.Cores = min(share.MemMiB, s.shares[i].MemMiB), min(share.Cores, s.shares[i].Cores)
		}
		if share.MemMiB > 0 || share.Cores > 0 {
			in.Shares = append(in.Shares, share)
		}
	}
	for _, port := range place.Ports {
		if !slices.ContainsFunc(s.ports, func(r PortRange) bool { return r.First <= port && port <= r.Last }) {
			in.Ports = append(in.Ports, port)
		}
	}
	return in
}

// commonAmount returns how much of an amount may be in the set. withUnlisted decides for what the agent does not list.
func (s *resourceSet) commonAmount(a fit.Amount, withUnlisted bool) fit.Amount {
	limit := func(amount *float64, left, total float64) {
		switch {
		case total > 0:
			*amount = min(*amount, left)
		case !withUnlisted:
			*amount = 0
		}
	}
	limit(&a.CPUs, s.amount.CPUs, s.listed.Total.CPUs)
	limit(&a.MemMiB, s.amount.MemMiB, s.listed.Total.MemMiB)
	limit(&a.DiskMiB, s.amount.DiskMiB, s.listed.Total.DiskMiB)
	return a
}

// hasDevices reports whether resources include GPUs or parts of them.
func hasDevices(r *fit.TaskResources) bool { return r.GPUs > 0 || len(r.Shares) > 0 }

// subtractResources returns the devices and ports of a place without a part of them.
func subtractResources(place, part *fit.TaskResources) fit.TaskResources {
	return fit.TaskResources{
		GPUs:      place.GPUs - part.GPUs,
		DeviceIDs: slices.DeleteFunc(slices.Clone(place.DeviceIDs), func(id string) bool { return slices.Contains(part.DeviceIDs, id) }),
		Shares:    subtractShares(slices.Clone(place.Shares), part.Shares),
		Ports:     slices.DeleteFunc(slices.Clone(place.Ports), func(port int) bool { return slices.Contains(part.Ports, port) }),
	}
}

// subtractShares subtracts shares from those of a list, down to zero. It modifies the list.
func subtractShares(list, parts []gpu.DeviceShare) []gpu.DeviceShare {
	for _, p := range parts {
		if i := indexOfShare(list, p.UUID); i >= 0 {
			list[i].MemMiB, list[i].Cores = max(list[i].MemMiB-p.MemMiB, 0), max(list[i].Cores-p.Cores, 0)
		}
	}
	return list
}

func indexOfShare(list []gpu.DeviceShare, uuid string) int {
	return slices.IndexFunc(list, func(s gpu.DeviceShare) bool { return s.UUID == uuid })
}
