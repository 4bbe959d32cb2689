package fit

import (
	"mesos-gpu/framework/sched/fit/index"
	"mesos-gpu/gpu"
)

// deviceRequirement is what a demand requires of devices and their host, for any
// number of devices.
type deviceRequirement struct {
	request      gpu.Request
	topology     gpu.Topology
	includeUUIDs map[string]bool // nil: all
	excludeUUIDs map[string]bool
	namesDevices bool // by UUID
	// matches stores computeMatch by hardware class, models which ones the
	// types accept.
	matches index.Numbered[requirementMatch]
	models  index.Memo[string, bool]
}

// requirementMatch is which slots of a hardware class satisfy a requirement. It
// ignores UUIDs, which differ between agents of the class.
type requirementMatch struct {
	hostMatches bool     // driver and CUDA are new enough
	slotMask    []uint64 // slots that satisfy it
	allSlots    bool     // all slots do
	// allCounted is set if every GPU of an agent that offers GPUs by count
	// satisfies it. Otherwise it is not known which GPU the task would get.
	allCounted bool
	anyDevice  bool // some GPU satisfies it, free or not
}

// normalizeRequest removes what does not matter to a single device or host.
func normalizeRequest(r gpu.Request) gpu.Request {
	n := r.GPUs
	if r.GPUs = 0; n == 0 {
		r = gpu.Request{} // a demand without GPUs requires nothing of them
	}
	if n <= 1 || r.Topology == gpu.AnyTopology || !r.Share.IsWhole() {
		r.Topology = "" // it has no meaning for one device or for shares
	}
	r.Share = gpu.ShareRequest{}
	return r
}

// newRequirement returns the requirement of a normalized request.
func newRequirement(r gpu.Request) *deviceRequirement {
	it := &deviceRequirement{request: r, topology: r.Topology, namesDevices: !r.Devices.AcceptsAny()}
	it.includeUUIDs, it.excludeUUIDs = stringSet(r.Devices.Include), stringSet(r.Devices.Exclude)
	return it
}

func stringSet(list []string) map[string]bool {
	if len(list) == 0 {
		return nil
	}
	m := make(map[string]bool, len(list))
	for _, s := range list {
		m[s] = true
	}
	return m
}

// acceptsUUID reports whether the requirement accepts the device by its UUID.
func (w *deviceRequirement) acceptsUUID(id string) bool {
	return !w.excludeUUIDs[id] && (w.includeUUIDs == nil || w.includeUUIDs[id])
}

// computeMatch compares the requirement with a hardware class; see matchOn.
func (w *deviceRequirement) computeMatch(k *hardwareClass) requirementMatch {
	r := &w.request
	m := requirementMatch{hostMatches: k.driver.isAtLeast(r.MinDriver) && k.cuda.isAtLeast(r.MinCUDA), slotMask: make([]uint64, wordCount(len(k.slots))), allSlots: true}
	for i, s := range k.slots {
		if w.acceptsDevice(s) {
			m.slotMask[i/64] |= 1 << (i % 64)
			m.anyDevice = true
		} else {
			m.allSlots = false
		}
	}
	m.allCounted = !w.namesDevices && w.topology == "" && w.acceptsAllCounted(k)
	if !k.hasInventory && !m.anyDevice {
		m.anyDevice = w.acceptsSomeCounted(k)
	}
	if !m.hostMatches {
		m.slotMask, m.allSlots, m.allCounted, m.anyDevice = make([]uint64, len(m.slotMask)), false, false, false
	}
	return m
}

// acceptsDevice reports whether a device satisfies the requirement, its UUID
// ignored. A device of unknown model satisfies only requirements for any type,
// one of unknown memory only those without a minimum.
func (w *deviceRequirement) acceptsDevice(s deviceSlot) bool {
	return w.acceptsModel(s.model) && (w.request.MinMemMiB <= 0 || s.memMiB >= w.request.MinMemMiB)
}

func (w *deviceRequirement) acceptsAllCounted(k *hardwareClass) bool {
	if k.hasInventory {
		for _, s := range k.slots {
			if !w.acceptsDevice(s) {
				return false
			}
		}
		return true
	}
	for _, model := range k.models {
		if !w.acceptsDevice(deviceSlot{model: model, memMiB: k.memMiB}) {
			return false
		}
	}
	return len(k.models) > 0 || w.acceptsDevice(deviceSlot{memMiB: k.memMiB})
}

// acceptsSomeCounted reports whether an agent of which only types are known has
// a GPU that satisfies the requirement.
func (w *deviceRequirement) acceptsSomeCounted(k *hardwareClass) bool {
	if !k.hasGPUs {
		return false
	}
	for _, model := range k.models {
		if w.acceptsDevice(deviceSlot{model: model, memMiB: k.memMiB}) {
			return true
		}
	}
	return len(k.models) == 0 && w.acceptsDevice(deviceSlot{memMiB: k.memMiB})
}

// matchOn returns which devices of a hardware class satisfy the requirement.
func (w *deviceRequirement) matchOn(k *hardwareClass) *requirementMatch {
	return w.matches.Get(k.id, func() requirementMatch { return w.computeMatch(k) })
}

// acceptsModel reports whether a model satisfies the types of the requirement.
// The answer is cached because types are regular expressions.
func (w *deviceRequirement) acceptsModel(model string) bool {
	types := &w.request.Types
	if types.AcceptsAny() {
		return true
	}
	return model != "" && w.models.Get(model, func() bool { return types.Match(model) })
}

// asksMoreThanType reports whether the requirement is about more than types.
func (w *deviceRequirement) asksMoreThanType() bool {
	r := &w.request
	return w.namesDevices || w.topology != "" || r.MinMemMiB > 0 || r.MinDriver != "" || r.MinCUDA != ""
}
