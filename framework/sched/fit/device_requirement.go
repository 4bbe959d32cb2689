package fit

import (
	"math/bits"

	"mesos-gpu/framework/sched/fit/index"
	"mesos-gpu/gpu"
)

// deviceRequirement is what a demand asks of devices, with the answers it had: a cluster
// has few kinds of agents and many agents.
type deviceRequirement struct {
	request      gpu.Request
	topology     gpu.Topology
	includeUUIDs map[string]bool // by UUID; nil: any
	excludeUUIDs map[string]bool
	namesDevices bool // it names devices
	// matches stores computeMatch by hardware class, models what the types accept.
	matches index.Numbered[requirementMatch]
	models  index.Memo[string, bool]
}

// requirementMatch is how a wish fares on one kind of agent, devices named by UUID aside.
type requirementMatch struct {
	hostMatches bool     // driver and CUDA will do
	slotMask    []uint64 // slots that will do
	allSlots    bool     // every slot does
	// allCounted: every GPU of an agent that hands them out by count will do.
	// Where one would not, nobody can say which the task would get.
	allCounted bool
	anyDevice  bool // it has GPUs that would do if they were free
}

// normalizeRequest removes what does not matter to a single device or host.
func normalizeRequest(r gpu.Request) gpu.Request {
	n := r.GPUs
	if r.GPUs = 0; n == 0 {
		r = gpu.Request{} // work without GPUs asks nothing of them
	}
	if n <= 1 || r.Topology == gpu.AnyTopology || !r.Share.IsWhole() {
		r.Topology = "" // one device always hangs together, and parts never do
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

// acceptsUUID reports whether the device of that name will do by its name.
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

// acceptsDevice reports whether a device will do but for its name. One of no known
// model will do for who takes any; one of unknown memory has no minimum.
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

// acceptsSomeCounted: an agent of which only types are known has some that will do.
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

func wordCount(slots int) int { return (slots + 63) / 64 }

func countBits(mask []uint64) int {
	n := 0
	for _, m := range mask {
		n += bits.OnesCount64(m)
	}
	return n
}

// listBits lists the slots of a mask in order.
func listBits(mask []uint64, to []int) []int {
	for w, m := range mask {
		for ; m != 0; m &= m - 1 {
			to = append(to, w*64+bits.TrailingZeros64(m))
		}
	}
	return to
}
