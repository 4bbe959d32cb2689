package fit

import (
	"fmt"
	"strings"

	"mesos-gpu/gpu"
)

// refused counts the devices that one thing keeps from giving a part.
type refused struct {
	devices int
	most    int64 // what comes nearest, where that is a number
}

// obstacles are what may be in a part's way, in the order in which a device
// is held against them.
type obstacles struct {
	devices                                             int
	another, unnamed, small, whole, used, cores, memory refused
	busy                                                refused // its cores are all taken
	one                                                 refused // MPS gives a task no part of a second
	kept                                                refused // for jobs ahead
}

func (r *refused) add(n int64) {
	r.devices++
	r.most = max(r.most, n)
}

// survey holds each device of the agents against the demand for parts.
func (q *asked) survey(agents []int) obstacles {
	var o obstacles
	for _, i := range agents {
		r := &q.rooms[i]
		for s := range r.kind.slots {
			o.devices++
			q.meet(&o, r, s)
		}
	}
	return o
}

// meet counts what keeps one device from giving a part; nothing where it can.
func (q *asked) meet(o *obstacles, r *room, s int) {
	request, slot := &q.d.Request, r.kind.slots[s]
	if !q.world.types(request.Types, slot.model) {
		o.another.add(0)
		return
	}
	if !q.cl.wish.uuid(r.uuids[s]) {
		o.unnamed.add(0)
		return
	}
	if request.MinMemMiB > slot.mem {
		o.small.add(slot.mem)
		return
	}
	if r.kind.divisible {
		if free := q.partsOf(r)[s]; free.mem < q.cl.milli {
			o.memory.add(int64(free.mem))
		}
		return
	}
	if !q.isShared(r, s) {
		o.whole.add(0)
		return
	}
	free, all := q.partsOf(r)[s], q.allsOf(r)[s]
	switch need := wanted(q.cl.share, r.kind, s, all); {
	case !r.kind.gives(q.cl.gpus):
		o.one.add(0)
	case enough(q.cl.share, r.kind, s, free, all):
		if !q.partFits(r, q.cl, q.cl.wish.on(r.kind, q.world), s, true) {
			o.kept.add(0)
		}
	case alone(q.cl.share, r.kind) && enough(q.cl.share, r.kind, s, all, all):
		o.used.add(0)
	case free.mem < need.mem:
		o.memory.add(int64(free.mem))
	case need.cores > 0:
		o.cores.add(int64(free.cores))
	default:
		o.busy.add(0)
	}
}

// text reads "3 of 8 devices lack 4096 MiB of shared memory (most free
// 2048), 2 are whole (not shared)".
func (o *obstacles) text(q *asked) string {
	var list []string
	add := func(r refused, one, many string, args ...any) {
		if r.devices == 0 {
			return
		}
		n := fmt.Sprint(r.devices)
		if len(list) == 0 {
			n = fmt.Sprintf("%d of %d %s", r.devices, o.devices, gpu.Plural(o.devices, "device"))
		}
		list = append(list, n+" "+fmt.Sprintf(areAgents(r.devices, one, many), args...))
	}
	share := &q.d.Request.Share
	memory := fmt.Sprintf("%d MiB", share.MemMiB)
	if share.MemMiB == 0 {
		percent := share.MemPercent
		if percent == 0 {
			percent = share.Cores
		}
		memory = fmt.Sprintf("%d %%", percent)
	}
	add(o.memory, "lacks %s of shared memory (most free %d)", "lack %s of shared memory (most free %d)", memory, o.memory.most)
	add(o.cores, "lacks %d %% cores (most free %d %%)", "lack %d %% cores (most free %d %%)", share.Cores, o.cores.most)
	add(o.busy, "has no cores left", "have no cores left")
	add(o.one, "is shared by MPS, which gives a task parts of one", "are shared by MPS, which gives a task parts of one")
	add(o.used, "is in use", "are in use")
	add(o.kept, "is kept for jobs ahead", "are kept for jobs ahead")
	add(o.whole, "is whole (not shared)", "are whole (not shared)")
	add(o.small, "has less than %d MiB in all (the largest %d)", "have less than %d MiB in all (the largest %d)", q.d.Request.MinMemMiB, o.small.most)
	add(o.unnamed, "is not among %s", "are not among %s", named(q.d.Request.Devices))
	add(o.another, "is of another type", "are of another type")
	if len(list) == 0 {
		return fmt.Sprintf("%d %s would do, %d are wanted on one agent", o.devices, gpu.Plural(o.devices, "device"), q.cl.gpus)
	}
	if good := o.good(); good > 0 && q.cl.gpus > 1 {
		list = append(list, fmt.Sprintf("%d would do", good))
	}
	return strings.Join(list, ", ")
}

// good counts the devices that nothing is in the way of.
func (o *obstacles) good() int {
	n := o.devices
	for _, r := range []refused{o.another, o.unnamed, o.small, o.whole, o.used, o.cores, o.memory, o.busy, o.kept, o.one} {
		n -= r.devices
	}
	return n
}

// wantedParts reads "4096 MiB and 30 % cores of one shared V100".
func (q *asked) wantedParts() string {
	of := "one shared "
	if q.cl.gpus > 1 {
		of = fmt.Sprintf("each of %d shared ", q.cl.gpus)
	}
	share := q.d.Request.Share
	if share.Exclusive() {
		return "all of " + of + q.devices()
	}
	return share.String() + " of " + of + q.devices()
}
