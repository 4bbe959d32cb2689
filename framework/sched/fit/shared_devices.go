package fit

import (
	"cmp"
	"slices"

	"mesos-gpu/gpu"
)

// SharedDevice is some of a device that tasks share: memory in MiB, and cores in
// percent of one device's.
type SharedDevice struct {
	UUID   string
	MemMiB int64
	Cores  int
}

// MilliShare asks for so many thousandths of each device of a Divisible
// agent.
func MilliShare(n int) gpu.ShareRequest { return gpu.ShareRequest{MemMiB: int64(n)} }

// mergeShared adds up what several offers have of one device, and sorts by
// UUID.
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

// SubtractShares is what the list has beside the parts that somebody took. It does not
// modify the list.
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

// shareAmount is some of a slot: MiB of memory and percent of cores. Of a divisible
// one, memory counts thousandths.
type shareAmount struct{ mem, cores int32 }

func (p shareAmount) plus(q shareAmount) shareAmount {
	return shareAmount{p.mem + q.mem, p.cores + q.cores}
}
func (p shareAmount) minus(q shareAmount) shareAmount {
	return shareAmount{p.mem - q.mem, p.cores - q.cores}
}

// maxShareAmount bounds what a scalar may mean.
const maxShareAmount = 1 << 28

func newShareAmount(mem int64, cores int) shareAmount {
	return shareAmount{int32(min(max(mem, 0), maxShareAmount)), int32(min(max(cores, 0), maxShareAmount))}
}

// trackShares gives a room books for parts of its slots, none of which is shared
// yet.
func (c *Cluster) trackShares(r *agentCapacity) {
	if r.shareOffset >= 0 {
		return
	}
	r.shareOffset = int32(len(c.freeShares))
	c.freeShares = append(c.freeShares, make([]shareAmount, len(r.hardware.slots))...)
	c.totalShares = append(c.totalShares, make([]shareAmount, len(r.hardware.slots))...)
}

// freeSharesOf are what is free of each slot, totalSharesOf what there is of it: nothing
// of slots that go whole. Both are empty where no slot was ever shared.
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

// isShared reports whether tasks share the slot.
func (c *Cluster) isShared(r *agentCapacity, s int) bool {
	return r.shareOffset >= 0 && !r.hardware.divisible && c.totalShares[int(r.shareOffset)+s].mem > 0
}

// markShared makes a slot one that tasks share, of which there is so much. Where
// nobody told, that is the device's memory and its cores.
func (c *Cluster) markShared(r *agentCapacity, s int, all shareAmount) {
	c.trackShares(r)
	if all.mem == 0 {
		all = shareAmount{max(newShareAmount(r.hardware.slots[s].memMiB, 0).mem, 1), gpu.AllCores}
	}
	c.totalShares[int(r.shareOffset)+s] = all
}

// freeShare makes some of a shared slot free. There is at least what is free.
func (c *Cluster) freeShare(r *agentCapacity, s int, p shareAmount) {
	free, all := &c.freeShares[int(r.shareOffset)+s], &c.totalShares[int(r.shareOffset)+s]
	*free = free.plus(p)
	all.mem, all.cores = max(all.mem, free.mem), max(all.cores, free.cores)
}

// initShared makes the slots of a room shared that its agent shares.
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

// deviceMemory is the device's own, which percents are of: by inventory, else all
// that there is to share.
func deviceMemory(k *hardwareClass, s int, all shareAmount) int64 {
	if k.slots[s].memMiB > 0 {
		return k.slots[s].memMiB
	}
	return int64(all.mem)
}

// isExclusive reports whether a share of a device of that kind leaves nothing to
// others. A MIG device goes to one task, whatever part of it would do.
func isExclusive(share gpu.ShareRequest, k *hardwareClass) bool {
	return share.IsExclusive() || k.shareLimit == gpu.EnforcedByMIG
}

// shareTaken is what the share takes of a slot.
func shareTaken(share gpu.ShareRequest, k *hardwareClass, s int, all shareAmount) shareAmount {
	if isExclusive(share, k) {
		return all
	}
	return minShare(share, k, s, all)
}

// minShare is the least of a slot that the share is content with.
func minShare(share gpu.ShareRequest, k *hardwareClass, s int, all shareAmount) shareAmount {
	if share.IsExclusive() {
		return all
	}
	return newShareAmount(max(share.MemOf(deviceMemory(k, s, all)), 1), share.Cores)
}

// canEnforceShares reports whether the agent can hold one task to parts of so many
// devices: a process reaches one MPS server, and each device has its own.
func (k *hardwareClass) canEnforceShares(devices int32) bool {
	return devices <= 1 || k.shareLimit != gpu.EnforcedByMPS
}

// milliOfShare is what a share takes of a divisible device.
func milliOfShare(share gpu.ShareRequest) int32 {
	return int32(min(max(share.MemOf(wholeDevice), 1), wholeDevice))
}

// isEnough reports whether so much that is free will do: all of the slot for
// one who gets it alone, and for who claims no cores, a slot that has some
// left.
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

// milliOfAmount is what a part counts for, in thousandths of its device.
func milliOfAmount(p shareAmount, memory int64) int {
	n := int64(p.cores) * wholeDevice / gpu.AllCores
	if memory > 0 {
		n = max(n, int64(p.mem)*wholeDevice/memory)
	}
	return int(min(max(n, 1), wholeDevice))
}

// freeMilliOf is how much of a slot is free, whatever its size: the thousandths
// of its memory and those of its cores.
func (c *Cluster) freeMilliOf(r *agentCapacity, s int) int32 {
	free, all := c.freeShares[int(r.shareOffset)+s], c.totalShares[int(r.shareOffset)+s]
	if r.hardware.divisible {
		return free.mem
	}
	return milliRatio(free.mem, all.mem) + milliRatio(free.cores, all.cores)
}

// milliRatio is in thousandths, rounded down: less than all is less than 1000.
func milliRatio(free, all int32) int32 {
	if all == 0 {
		return 0
	}
	return int32(int64(free) * wholeDevice / int64(all))
}

// idleMilliOf is how much of a slot is free, in thousandths, to tasks that ask for
// memory alone, and to those that ask for cores too: memory or cores, whichever
// is more. To those, what is left of the one alone is lost.
func (c *Cluster) idleMilliOf(r *agentCapacity, s int, free shareAmount) (mem, both int32) {
	if !c.isShared(r, s) {
		return free.mem, free.mem // in thousandths already
	}
	all := c.totalShares[int(r.shareOffset)+s]
	mem = milliRatio(free.mem, all.mem)
	return mem, max(mem, milliRatio(free.cores, all.cores))
}

// isUnused reports whether nobody has any of the slot.
func (c *Cluster) isUnused(r *agentCapacity, s int) bool {
	return c.freeShares[int(r.shareOffset)+s] == c.totalShares[int(r.shareOffset)+s]
}
