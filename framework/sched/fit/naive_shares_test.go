package fit

import (
	"maps"
	"slices"

	"mesos-gpu/gpu"
)

// naiveShared is a shared device: what is free, in total and reserved. listed is set if the agent's list has the total.
type naiveShared struct {
	mem, cores, allMem, allCores, heldMem, heldCores int64
	listed                                           bool
}

// isIdle reports whether a task may take all of the device.
func (n *naiveShared) isIdle() bool { return n.listed && n.mem == n.allMem && n.cores == n.allCores }

// fitsWithShared reports whether the agent has whole GPUs for a task if it takes all of shared devices, too.
func (a *naiveAgent) fitsWithShared(d *Demand) bool {
	good := a.unsharedDevices(d)
	good = good[:min(max(a.unreservedGPUs(d), 0), len(good))]
	for id, s := range a.shared {
		if s.isIdle() && a.mayTakeWhole(d, id) {
			good = append(good, a.findDevice(id))
		}
	}
	return a.hasSubset(d.Request, good, nil)
}

// mayTakeWhole reports whether the demand accepts a device and nothing of it is reserved from the demand.
func (a *naiveAgent) mayTakeWhole(d *Demand, id string) bool {
	s := a.shared[id]
	isReserved := d.AvoidReserved && (a.heldID[id] || s.heldMem > 0 || s.heldCores > 0)
	return !isReserved && naiveAcceptsDevice(d.Request, a.findDevice(id))
}

func (n *naiveShared) release(mem int64, cores int) {
	n.mem, n.cores = n.mem+mem, n.cores+int64(cores)
	n.allMem, n.allCores = max(n.allMem, n.mem), max(n.allCores, n.cores)
}

// findShare returns a shared device, and makes the device shared if necessary.
func (a *naiveAgent) findShare(id string) *naiveShared {
	if a.shared[id] == nil {
		a.shared[id] = &naiveShared{allMem: max(a.findDevice(id).MemMiB, 1), allCores: 100}
	}
	return a.shared[id]
}

// isLimitedBy reports whether the agent limits shares with that method.
func (a *naiveAgent) isLimitedBy(method string) bool {
	return slices.Contains(a.facts.Attributes, Attribute{"gpu_share_limit", method})
}

// shareTaken returns what a task takes of a device.
func (a *naiveAgent) shareTaken(share gpu.ShareRequest, id string) (mem, cores int64) {
	if a.isLimitedBy("mig") {
		return a.shared[id].allMem, a.shared[id].allCores
	}
	return a.minShare(share, id)
}

// minShare returns what the share needs of a device.
func (a *naiveAgent) minShare(share gpu.ShareRequest, id string) (mem, cores int64) {
	s := a.shared[id]
	if share.Cores == 100 {
		return s.allMem, s.allCores
	}
	own := a.findDevice(id).MemMiB
	if own == 0 {
		own = s.allMem
	}
	switch {
	case share.MemMiB > 0:
		mem = share.MemMiB
	case share.MemPercent > 0:
		mem = own * int64(share.MemPercent) / 100
	default:
		mem = own * int64(share.Cores) / 100
	}
	return max(mem, 1), int64(share.Cores)
}

// shareFits reports whether the device has room for the share.
func (a *naiveAgent) shareFits(d *Demand, id string) bool {
	if a.facts.Divisible {
		return a.parts[id] > 0 && a.parts[id] >= min(max(int(d.Request.Share.MemOf(wholeDevice)), 1), wholeDevice)
	}
	s := a.shared[id]
	if s == nil || s.mem == 0 {
		return false
	}
	mem, cores := a.minShare(d.Request.Share, id)
	freeMem, freeCores := s.mem, s.cores
	if d.AvoidReserved {
		freeMem, freeCores = freeMem-s.heldMem, freeCores-s.heldCores
	}
	if d.Request.GPUs > 1 && a.isLimitedBy("mps") {
		return false
	}
	if (d.Request.Share.Cores == 100 || a.isLimitedBy("mig")) && (freeMem != s.allMem || freeCores != s.allCores) {
		return false
	}
	return freeMem >= mem && freeCores >= cores && (cores > 0 || freeCores > 0 || s.allCores == 0)
}

// applyShare takes a share, or returns it if sign is 1. It returns what is wrong, or "".
func (a *naiveAgent) applyShare(p gpu.DeviceShare, sign int64) string {
	if a.facts.Divisible {
		if sign < 0 && a.parts[p.UUID] == wholeDevice {
			a.gpus--
		}
		if a.parts[p.UUID] += int(sign * p.MemMiB); a.parts[p.UUID] < 0 {
			return "takes more of " + p.UUID + " than is free"
		}
		if sign > 0 && a.parts[p.UUID] == wholeDevice {
			a.gpus++
		}
		return ""
	}
	s := a.shared[p.UUID]
	if s == nil {
		return "takes part of " + p.UUID + ", which is not shared"
	}
	if s.release(sign*p.MemMiB, int(sign)*p.Cores); sign > 0 {
		return ""
	}
	if s.mem < 0 || s.cores < 0 {
		return "takes more of " + p.UUID + " than is free"
	}
	return ""
}

// shareSlots returns the devices with room for one task's shares. Of whole devices it uses at most left.
func (a *naiveAgent) shareSlots(d *Demand, left int) (ids []string) {
	all := slices.Collect(maps.Keys(a.shared))
	if a.facts.Divisible {
		all = slices.Collect(maps.Keys(a.parts))
	}
	slices.Sort(all)
	for _, id := range all {
		if d.AvoidReserved && a.heldID[id] || !naiveAcceptsDevice(d.Request, a.findDevice(id)) || !a.shareFits(d, id) {
			continue
		}
		if a.parts[id] == wholeDevice {
			if left--; left < 0 {
				continue
			}
		}
		ids = append(ids, id)
	}
	return ids
}

// countShareSlots counts the devices with room for a task's shares if all is free.
func (a *naiveAgent) countShareSlots(d *Demand) (n int) {
	if a.facts.Divisible {
		ids := maps.Clone(a.parts)
		for _, dev := range a.facts.Inventory {
			ids[dev.UUID] += 0
		}
		for id := range ids {
			if naiveAcceptsDevice(d.Request, a.findDevice(id)) {
				n++
			}
		}
		return n
	}
	for id, s := range a.shared {
		empty := naiveAgent{facts: a.facts, shared: map[string]*naiveShared{id: {mem: s.allMem, cores: s.allCores, allMem: s.allMem, allCores: s.allCores}}}
		if naiveAcceptsDevice(d.Request, a.findDevice(id)) && empty.shareFits(d, id) {
			n++
		}
	}
	return n
}
