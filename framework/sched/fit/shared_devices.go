package fit

import (
	"cmp"
	"slices"

	"mesos-gpu/gpu"
)

// SharedDevice is an amount of a shared device: memory in MiB and cores in percent
// of the device.
type SharedDevice struct {
	UUID   string
	MemMiB int64
	Cores  int
}

// MilliShare returns a request for n thousandths of each device of a divisible agent.
func MilliShare(n int) gpu.ShareRequest { return gpu.ShareRequest{MemMiB: int64(n)} }

// mergeShared adds up the amounts of each device and sorts by UUID. It modifies
// the list.
func mergeShared(list []SharedDevice) []SharedDevice {
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b SharedDevice) int {
		return cmp.Or(cmp.Compare(a.UUID, b.UUID), cmp.Compare(a.MemMiB, b.MemMiB), cmp.Compare(a.Cores, b.Cores))
	})
	joined := list[:1]
	for _, s := range list[1:] {
		if last := &joined[len(joined)-1]; last.UUID == s.UUID {
			last.MemMiB += s.MemMiB
			last.Cores += s.Cores
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// SubtractShares returns the list without the shares that tasks took. It does
// not modify the list.
func SubtractShares(list []SharedDevice, parts []gpu.DeviceShare) []SharedDevice {
	left := slices.Clone(list)
	for _, p := range parts {
		if i := slices.IndexFunc(left, func(s SharedDevice) bool { return s.UUID == p.UUID }); i >= 0 {
			left[i].MemMiB -= p.MemMiB
			left[i].Cores -= p.Cores
		}
	}
	return left
}

// shareAmount is an amount of a slot: MiB of memory and percent of cores. For a
// divisible slot, mem counts thousandths.
type shareAmount struct{ mem, cores int32 }

func (p shareAmount) plus(q shareAmount) shareAmount {
	return shareAmount{p.mem + q.mem, p.cores + q.cores}
}
func (p shareAmount) minus(q shareAmount) shareAmount {
	return shareAmount{p.mem - q.mem, p.cores - q.cores}
}

// maxShareAmount bounds a scalar of a shared device.
const maxShareAmount = 1 << 28

func newShareAmount(mem int64, cores int) shareAmount {
	return shareAmount{int32(min(max(mem, 0), maxShareAmount)), int32(min(max(cores, 0), maxShareAmount))}
}

// trackShares allocates free and total amounts for an agent's slots, none of
// which is shared yet.
func (c *Cluster) trackShares(r *agentCapacity) {
	if r.shareOffset >= 0 {
		return
	}
	r.shareOffset = int32(len(c.freeShares))
	c.freeShares = append(c.freeShares, make([]shareAmount, len(r.hardware.slots))...)
	c.totalShares = append(c.totalShares, make([]shareAmount, len(r.hardware.slots))...)
}

// freeSharesOf returns what is free of each slot, totalSharesOf how much there
// is; both are 0 for slots that tasks take whole. They are empty if no slot of
// the agent was ever shared.
func (c *Cluster) freeSharesOf(r *agentCapacity) []shareAmount {
	if r.shareOffset < 0 {
		return nil
	}
	return c.freeShares[r.shareOffset : int(r.shareOffset)+len(r.hardware.slots)]
}

func (c *Cluster) totalSharesOf(r *agentCapacity) []shareAmount {
	if r.shareOffset < 0 {
		return nil
	}
	return c.totalShares[r.shareOffset : int(r.shareOffset)+len(r.hardware.slots)]
}

// isShared reports whether tasks share the slot. Divisible slots are not shared.
func (c *Cluster) isShared(r *agentCapacity, s int) bool {
	return r.shareOffset >= 0 && !r.hardware.divisible && c.totalShares[int(r.shareOffset)+s].mem > 0
}

// markShared makes a slot shared. If the total is unknown (0), it is the device's
// memory and all of its cores.
func (c *Cluster) markShared(r *agentCapacity, s int, all shareAmount) {
	c.trackShares(r)
	if all.mem == 0 {
		all = shareAmount{max(newShareAmount(r.hardware.slots[s].memMiB, 0).mem, 1), gpu.AllCores}
	}
	c.totalShares[int(r.shareOffset)+s] = all
}

// freeShare adds to what is free of a shared slot. The total is at least that.
func (c *Cluster) freeShare(r *agentCapacity, s int, p shareAmount) {
	free, all := &c.freeShares[int(r.shareOffset)+s], &c.totalShares[int(r.shareOffset)+s]
	*free = free.plus(p)
	all.mem, all.cores = max(all.mem, free.mem), max(all.cores, free.cores)
}

// initShared marks the devices that the agent shares. A device that is also
// offered whole is not shared.
func (c *Cluster) initShared(a *AgentResources, r *agentCapacity) {
	for _, all := range a.AllShared {
		if !slices.Contains(a.DeviceIDs, all.UUID) {
			c.markShared(r, slotOf(r.uuids, all.UUID), newShareAmount(all.MemMiB, all.Cores))
		}
	}
	for _, free := range a.Shared {
		s := slotOf(r.uuids, free.UUID)
		if slices.Contains(a.DeviceIDs, free.UUID) {
			continue
		}
		if !c.isShared(r, s) {
			c.markShared(r, s, shareAmount{})
		}
		c.freeShare(r, s, newShareAmount(free.MemMiB, free.Cores))
	}
}

// deviceMemory returns the memory that percentages refer to: that of the
// inventory, or else the total to share.
func deviceMemory(k *hardwareClass, s int, all shareAmount) int64 {
	if k.slots[s].memMiB > 0 {
		return k.slots[s].memMiB
	}
	return int64(all.mem)
}

// isExclusive reports whether such a share excludes other tasks from its device. A MIG device serves one task,
// whatever the size of its share.
func isExclusive(share gpu.ShareRequest, k *hardwareClass) bool {
	return share.IsExclusive() || k.shareLimit == gpu.EnforcedByMIG
}

// shareTaken returns what a task with the share takes of a slot.
func shareTaken(share gpu.ShareRequest, k *hardwareClass, s int, all shareAmount) shareAmount {
	if isExclusive(share, k) {
		return all
	}
	return minShare(share, k, s, all)
}

// minShare returns the least that the share accepts of a slot.
func minShare(share gpu.ShareRequest, k *hardwareClass, s int, all shareAmount) shareAmount {
	if share.IsExclusive() {
		return all
	}
	return newShareAmount(max(share.MemOf(deviceMemory(k, s, all)), 1), share.Cores)
}

// canEnforceShares reports whether the agent can limit one task to shares of that many devices. MPS cannot for two: a
// process uses one MPS server, and each device has its own.
func (k *hardwareClass) canEnforceShares(devices int32) bool {
	return devices <= 1 || k.shareLimit != gpu.EnforcedByMPS
}

// milliOfShare returns what a share takes of a divisible device.
func milliOfShare(share gpu.ShareRequest) int32 {
	return int32(min(max(share.MemOf(wholeDevice), 1), wholeDevice))
}

// isEnough reports whether the share fits into what is free of a slot. An
// exclusive share needs all of it. A share without cores needs a slot that has
// some cores left.
func isEnough(share gpu.ShareRequest, k *hardwareClass, s int, free, all shareAmount) bool {
	need := minShare(share, k, s, all)
	switch {
	case isExclusive(share, k) && free != all:
		return false
	case free.mem < need.mem || free.cores < need.cores:
		return false
	default:
		return need.cores > 0 || free.cores > 0 || all.cores == 0
	}
}

// milliOfAmount returns the thousandths of a device that an amount counts for.
func milliOfAmount(p shareAmount, memory int64) int {
	n := int64(p.cores) * wholeDevice / gpu.AllCores
	if memory > 0 {
		n = max(n, int64(p.mem)*wholeDevice/memory)
	}
	return int(min(max(n, 1), wholeDevice))
}

// freeMilliOf returns how much of a slot is free, independent of its size: the sum
// of the thousandths of memory and of cores.
func (c *Cluster) freeMilliOf(r *agentCapacity, s int) int32 {
	free, all := c.freeShares[int(r.shareOffset)+s], c.totalShares[int(r.shareOffset)+s]
	if r.hardware.divisible {
		return free.mem
	}
	return milliRatio(free.mem, all.mem) + milliRatio(free.cores, all.cores)
}

// milliRatio returns thousandths, rounded down: below 1000 if free is below all.
func milliRatio(free, all int32) int32 {
	if all == 0 {
		return 0
	}
	return int32(int64(free) * wholeDevice / int64(all))
}

// idleMilliOf returns how much of a slot is idle, in thousandths: its memory for
// tasks without cores, and the larger of memory and cores for tasks with cores.
// For those, what is left of only one of the two is wasted.
func (c *Cluster) idleMilliOf(r *agentCapacity, s int, free shareAmount) (mem, both int32) {
	if !c.isShared(r, s) {
		return free.mem, free.mem // counted in thousandths
	}
	all := c.totalShares[int(r.shareOffset)+s]
	mem = milliRatio(free.mem, all.mem)
	return mem, max(mem, milliRatio(free.cores, all.cores))
}

// isUnused reports whether no task has a share of the slot.
func (c *Cluster) isUnused(r *agentCapacity, s int) bool {
	return c.freeShares[int(r.shareOffset)+s] == c.totalShares[int(r.shareOffset)+s]
}
