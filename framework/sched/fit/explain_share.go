package fit

import (
	"fmt"
	"strings"

	"mesos-gpu/gpu"
)

// refusedDevices counts the devices that cannot serve a share for one reason.
type refusedDevices struct {
	devices int
	nearest int64 // the best value of them, for reasons with a number
}

// shareObstacles counts devices by the reason that they cannot serve a share, in
// the order in which the reasons are checked.
type shareObstacles struct {
	devices                                                                int
	otherType, notNamed, tooSmall, notShared, inUse, lackCores, lackMemory refusedDevices
	coresTaken                                                             refusedDevices // no cores are left
	singleOnly                                                             refusedDevices // MPS serves shares of one device only
	reserved                                                               refusedDevices // for jobs ahead
}

func (r *refusedDevices) addDevice(n int64) {
	r.devices++
	r.nearest = max(r.nearest, n)
}

// surveyDevices checks each device of the agents for the demand's shares.
func (q *demandExplainer) surveyDevices(agents []int) shareObstacles {
	var o shareObstacles
	for _, i := range agents {
		r := &q.capacities[i]
		for s := range r.hardware.Slots {
			o.devices++
			q.classifyDevice(&o, r, s)
		}
	}
	return o
}

// classifyDevice counts a device by the reason that it cannot serve a share, if
// there is one.
func (q *demandExplainer) classifyDevice(o *shareObstacles, r *agentCapacity, s int) {
	request, slot := &q.demand.Request, r.hardware.Slots[s]
	if !q.typeRequirement.AcceptsModel(slot.Model) {
		o.otherType.addDevice(0)
		return
	}
	if !q.class.requirement.AcceptsUUID(r.uuids[s]) {
		o.notNamed.addDevice(0)
		return
	}
	if request.MinMemMiB > slot.MemMiB {
		o.tooSmall.addDevice(slot.MemMiB)
		return
	}
	if r.hardware.Divisible {
		if free := q.sharesOf(r)[s].free; free.mem < q.class.milliPerDevice {
			o.lackMemory.addDevice(int64(free.mem))
		}
		return
	}
	if !q.isShared(r, s) {
		o.notShared.addDevice(0)
		return
	}
	free, all := q.sharesOf(r)[s].free, q.sharesOf(r)[s].total
	switch need := minShare(q.class.share, r.hardware, s, all); {
	case !r.hardware.CanEnforceShares(q.class.gpus):
		o.singleOnly.addDevice(0)
	case isEnough(q.class.share, r.hardware, s, free, all):
		if !q.slotFitsShare(r, q.class, q.class.requirement.MatchOn(r.hardware), s, true) {
			o.reserved.addDevice(0)
		}
	case isExclusive(q.class.share, r.hardware) && isEnough(q.class.share, r.hardware, s, all, all):
		o.inUse.addDevice(0)
	case free.mem < need.mem:
		o.lackMemory.addDevice(int64(free.mem))
	case need.cores > 0:
		o.lackCores.addDevice(int64(free.cores))
	default:
		o.coresTaken.addDevice(0)
	}
}

// describeObstacles returns "3 of 8 devices lack 4096 MiB of shared memory (most
// free 2048), 2 are whole (not shared)".
func (o *shareObstacles) describeObstacles(q *demandExplainer) string {
	var list []string
	add := func(r refusedDevices, one, many string, args ...any) {
		if r.devices == 0 {
			return
		}
		n := fmt.Sprint(r.devices)
		if len(list) == 0 {
			n = fmt.Sprintf("%d of %d %s", r.devices, o.devices, gpu.Plural(o.devices, "device"))
		}
		list = append(list, n+" "+fmt.Sprintf(pluralVerb(r.devices, one, many), args...))
	}
	share := &q.demand.Request.Share
	memory := fmt.Sprintf("%d MiB", share.MemMiB)
	if share.MemMiB == 0 {
		percent := share.MemPercent
		if percent == 0 {
			percent = share.Cores
		}
		memory = fmt.Sprintf("%d %%", percent)
	}
	add(o.lackMemory, "lacks %s of shared memory (most free %d)", "lack %s of shared memory (most free %d)", memory, o.lackMemory.nearest)
	add(o.lackCores, "lacks %d %% cores (most free %d %%)", "lack %d %% cores (most free %d %%)", share.Cores, o.lackCores.nearest)
	add(o.coresTaken, "has no cores left", "have no cores left")
	add(o.singleOnly, "is shared by MPS, which gives a task parts of one", "are shared by MPS, which gives a task parts of one")
	add(o.inUse, "is in use", "are in use")
	add(o.reserved, "is kept for jobs ahead", "are kept for jobs ahead")
	add(o.notShared, "is whole (not shared)", "are whole (not shared)")
	add(o.tooSmall, "has less than %d MiB in all (the largest %d)", "have less than %d MiB in all (the largest %d)", q.demand.Request.MinMemMiB, o.tooSmall.nearest)
	add(o.notNamed, "is not among %s", "are not among %s", describeSelector(q.demand.Request.Devices))
	add(o.otherType, "is of another type", "are of another type")
	if len(list) == 0 {
		return fmt.Sprintf("%d %s would do, %d are wanted on one agent", o.devices, gpu.Plural(o.devices, "device"), q.class.gpus)
	}
	if good := o.countUsable(); good > 0 && q.class.gpus > 1 {
		list = append(list, fmt.Sprintf("%d would do", good))
	}
	return strings.Join(list, ", ")
}

// countUsable counts the devices that can serve the share.
func (o *shareObstacles) countUsable() int {
	n := o.devices
	for _, r := range []refusedDevices{o.otherType, o.notNamed, o.tooSmall, o.notShared, o.inUse, o.lackCores, o.lackMemory, o.coresTaken, o.reserved, o.singleOnly} {
		n -= r.devices
	}
	return n
}
