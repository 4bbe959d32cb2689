package hardware

import (
	"slices"

	"mesos-gpu/framework/sched/fit/index"
	"mesos-gpu/gpu"
)

// Catalog stores the classes and requirements of one cluster, so that equal ones are compared once, and the device
// choices made for them. It is not safe for concurrent use.
type Catalog struct {
	// classes are numbered hardware classes, requirements those of all requests so far.
	classes      index.Table[*Class]
	requirements index.Table[*Requirement]
	choices      index.Memo[choiceKey, Choice]
}

// choiceKey contains everything that a choice of devices depends on, for hardware of at most 64 slots.
type choiceKey struct {
	class, count     int32
	candidates, free uint64
	topology         gpu.Topology
}

// maxStored bounds the classes and requirements of a catalog that is still useful.
const maxStored = 4096

// IsOverfull reports whether the catalog stores so many values, most of them for earlier states of the agents, that a
// new catalog is better.
func (c *Catalog) IsOverfull() bool {
	return c.requirements.Len()+c.classes.Len() > maxStored || c.choices.Len() > 16*maxStored
}

// FindRequirement returns what a request demands of each device and its host. The number of GPUs and the share do not
// matter to it.
func (c *Catalog) FindRequirement(r gpu.Request) *Requirement {
	r = normalizeRequest(r)
	return c.requirements.Get(AppendRequest(c.requirements.Scratch(), r), func(int32) *Requirement { return newRequirement(r) })
}

// FindClass returns the class of an agent with the given devices, which are sorted by slot.
func (c *Catalog) FindClass(d *Description, devices []gpu.Device) *Class {
	return c.classes.Get(d.appendKey(c.classes.Scratch(), devices), func(id int32) *Class { return newClass(id, d, devices) })
}

// Classes returns all classes by ID. The caller must not change the slice.
func (c *Catalog) Classes() []*Class { return c.classes.Values() }

// ChooseDevices chooses n of the candidates: free slots, at least n of them. The caller must not change the result.
func (c *Catalog) ChooseDevices(k *Class, n int, candidates, free index.Bits, topology gpu.Topology) Choice {
	compute := func() Choice {
		return k.chooseSlots(n, slices.Collect(candidates.All()), slices.Collect(free.All()), topology)
	}
	if len(candidates) != 1 {
		return compute()
	}
	return c.choices.Get(choiceKey{k.ID, int32(n), candidates[0], free[0], topology}, compute)
}
