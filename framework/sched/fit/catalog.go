package fit

import "mesos-gpu/gpu"

// findRequirement returns what a request demands of each device and host. The
// number of GPUs and the share do not matter to it.
func (x *clusterIndex) findRequirement(r gpu.Request) *deviceRequirement {
	r = normalizeRequest(r)
	return x.requirements.Get(appendRequest(x.requirements.Scratch(), r), func(int32) *deviceRequirement { return newRequirement(r) })
}

// findHardwareClass returns the hardware of an agent that has these devices.
func (x *clusterIndex) findHardwareClass(a *AgentResources, devices []gpu.Device) *hardwareClass {
	t := &x.hardwareClasses
	return t.Get(appendHardwareKey(t.Scratch(), a, devices), func(id int32) *hardwareClass { return newHardwareClass(id, a, devices) })
}

// deviceChoiceKey contains everything that a choice of devices depends on, for hardware of at most 64 slots.
type deviceChoiceKey struct {
	hardware, gpus   int32
	candidates, free uint64
	topology         gpu.Topology
}

// chooseDevices chooses n of the candidates: free slots, at least n of them. The caller must not change the result.
func (x *clusterIndex) chooseDevices(k *hardwareClass, n int, candidates, free []uint64, topology gpu.Topology) chosenDevices {
	compute := func() chosenDevices {
		return k.chooseSlots(n, listBits(candidates, nil), listBits(free, nil), topology)
	}
	if len(candidates) != 1 {
		return compute()
	}
	key := deviceChoiceKey{hardware: k.id, gpus: int32(n), candidates: candidates[0], free: free[0], topology: topology}
	return x.deviceChoices.Get(key, compute)
}
