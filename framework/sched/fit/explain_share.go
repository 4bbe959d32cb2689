package fit

import (
	"fmt"
	"strings"

	"mesos-gpu/gpu"
)

// shareObstacle is the reason why a device cannot serve a share, in the order of the explanation.
type shareObstacle int

const (
	lacksMemory shareObstacle = iota
	lacksCores
	hasNoCores // of a share without a number of cores
	servesSingle
	isInUse
	isReserved
	isWhole
	isTooSmall
	isNotNamed
	isOtherType
	noObstacle
)

// shareSurvey counts devices by obstacle. nearest is the best value among the devices with an obstacle, for obstacles
// with a number: free MiB, free percent of cores, or MiB in total.
type shareSurvey struct {
	devices, nearest [noObstacle + 1]int64
	total            int
}

// surveyDevices checks each device of the agents for the demand's shares.
func (e *demandExplainer) surveyDevices(agents []int) *shareSurvey {
	v := &shareSurvey{}
	for _, i := range agents {
		r := &e.capacities[i]
		for s := range r.hardware.Slots {
			obstacle, nearest := e.findObstacle(r, s)
			v.total++
			v.devices[obstacle]++
			v.nearest[obstacle] = max(v.nearest[obstacle], nearest)
		}
	}
	return v
}

// findObstacle returns the reason that a device cannot serve a share, and what it has of the number that it lacks.
func (e *demandExplainer) findObstacle(r *agentCapacity, s int) (o shareObstacle, has int64) {
	class, request, slot := e.class, &e.demand.Request, r.hardware.Slots[s]
	switch {
	case !e.typeRequirement.AcceptsProduct(slot.Product()):
		return isOtherType, 0
	case !class.requirement.AcceptsUUID(r.uuids[s]):
		return isNotNamed, 0
	case request.MinMemMiB > slot.MemMiB:
		return isTooSmall, slot.MemMiB
	case r.hardware.Divisible && e.sharesOf(r)[s].free.mem < class.milliPerDevice:
		return lacksMemory, int64(e.sharesOf(r)[s].free.mem)
	case r.hardware.Divisible:
		return noObstacle, 0
	case !e.isShared(r, s):
		return isWhole, 0
	case !r.hardware.CanEnforceShares(class.gpus):
		return servesSingle, 0
	}
	free, all := e.sharesOf(r)[s].free, e.sharesOf(r)[s].total
	switch need := minShare(class.share, r.hardware, s, all); {
	case isEnough(class.share, r.hardware, s, free, all):
		if !e.slotFitsShare(r, class, class.requirement.MatchOn(r.hardware), s, true) {
			return isReserved, 0
		}
		return noObstacle, 0
	case isExclusive(class.share, r.hardware) && isEnough(class.share, r.hardware, s, all, all):
		return isInUse, 0
	case free.mem < need.mem:
		return lacksMemory, int64(free.mem)
	case need.cores > 0:
		return lacksCores, int64(free.cores)
	default:
		return hasNoCores, 0
	}
}

// describe returns "3 of 8 devices lack 4096 MiB of shared memory (most free 2048), 2 are whole (not shared: see mesos-gpu agent share)".
func (v *shareSurvey) describe(q *demandExplainer) string {
	share := &q.demand.Request.Share
	memory := fmt.Sprintf("%d MiB", share.MemMiB)
	if share.MemMiB == 0 {
		percent := share.MemPercent
		if percent == 0 {
			percent = share.Cores
		}
		memory = fmt.Sprintf("%d %%", percent)
	}
	notNamed := "excluded"
	if len(q.demand.Request.Devices.Include) > 0 {
		notNamed = "not " + describeSelector(q.demand.Request.Devices)
	}
	are := func(rest string) [2]string { return [2]string{"is " + rest, "are " + rest} }
	have := func(rest string) [2]string { return [2]string{"has " + rest, "have " + rest} }
	lack := func(format string, args ...any) [2]string {
		rest := fmt.Sprintf(format, args...)
		return [2]string{"lacks " + rest, "lack " + rest}
	}
	texts := [noObstacle][2]string{
		lacksMemory:  lack("%s of shared memory (most free %d)", memory, v.nearest[lacksMemory]),
		lacksCores:   lack("%d %% cores (most free %d %%)", share.Cores, v.nearest[lacksCores]),
		hasNoCores:   have("no cores left"),
		servesSingle: are("shared by MPS, which limits a task to one device"),
		isInUse:      are("in use"),
		isReserved:   are("reserved for jobs ahead"),
		isWhole:      are("whole (not shared: see mesos-gpu agent share)"),
		isTooSmall:   have(fmt.Sprintf("less than %d MiB in total (the largest %d)", q.demand.Request.MinMemMiB, v.nearest[isTooSmall])),
		isNotNamed:   are(notNamed),
		isOtherType:  are("of another type"),
	}
	var list []string
	for o, text := range texts {
		n := int(v.devices[o])
		if n == 0 {
			continue
		}
		of := ""
		if len(list) == 0 {
			of = fmt.Sprintf(" of %d %s", v.total, gpu.Plural(v.total, "device"))
		}
		list = append(list, fmt.Sprintf("%d%s %s", n, of, pluralVerb(n, text[0], text[1])))
	}
	good := int(v.devices[noObstacle])
	if len(list) == 0 {
		return fmt.Sprintf("%d %s suitable, %d are needed on one agent", good, pluralVerb(good, "device is", "devices are"), q.class.gpus)
	}
	if good > 0 && q.class.gpus > 1 {
		list = append(list, fmt.Sprintf("%d %s suitable", good, pluralVerb(good, "is", "are")))
	}
	return strings.Join(list, ", ")
}
