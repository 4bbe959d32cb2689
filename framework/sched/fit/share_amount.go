package fit

import (
	"cmp"
	"slices"

	"mesos-gpu/framework/sched/fit/hardware"
	"mesos-gpu/gpu"
)

// wholeDevice is one device in the thousandths that tasks may take of it.
const wholeDevice = 1000

// maxGPUs bounds the gpus scalar of one agent.
const maxGPUs = 1 << 20

// SharedDevice is an amount of a shared device: memory in MiB and cores in percent
// of the device.
type SharedDevice struct {
	// UUID identifies the device; the amounts are the offered ones.
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

func (a shareAmount) plus(q shareAmount) shareAmount {
	return shareAmount{a.mem + q.mem, a.cores + q.cores}
}
func (a shareAmount) minus(q shareAmount) shareAmount {
	return shareAmount{a.mem - q.mem, a.cores - q.cores}
}

// slotShares contains the free and the total amount of a slot. Both are 0 for slots that are not shared. The
// total of a divisible slot is not used.
type slotShares struct {
	free, total shareAmount
	// isTotalListed is set if the agent's list has the total. Otherwise the total is a guess, and may be too low.
	isTotalListed bool
}

// isUnused reports whether no task has a share of the slot.
func (s *slotShares) isUnused() bool { return s.free == s.total }

// isIdle reports whether certainly no task has a share of the slot, so that one task may take all of it.
func (s *slotShares) isIdle() bool { return s.isTotalListed && s.free == s.total }

// maxShareAmount bounds a scalar of a shared device.
const maxShareAmount = 1 << 28

func newShareAmount(mem int64, cores int) shareAmount {
	return shareAmount{int32(min(max(mem, 0), maxShareAmount)), int32(min(max(cores, 0), maxShareAmount))}
}

// isExclusive reports whether such a share excludes other tasks from its device. A MIG device serves one task,
// whatever the size of its share.
func isExclusive(share gpu.ShareRequest, k *hardware.Class) bool {
	return share.IsExclusive() || k.ShareLimit == gpu.EnforcedByMIG
}

// shareTaken returns what a task with the share takes of a slot.
func shareTaken(share gpu.ShareRequest, k *hardware.Class, s int, all shareAmount) shareAmount {
	if isExclusive(share, k) {
		return all
	}
	return minShare(share, k, s, all)
}

// minShare returns the least that the share accepts of a slot.
func minShare(share gpu.ShareRequest, k *hardware.Class, s int, all shareAmount) shareAmount {
	if share.IsExclusive() {
		return all
	}
	return newShareAmount(max(share.MemOf(deviceMemory(k, s, all)), 1), share.Cores)
}

// milliOfShare returns what a share takes of a divisible device.
func milliOfShare(share gpu.ShareRequest) int32 {
	return int32(min(max(share.MemOf(wholeDevice), 1), wholeDevice))
}

// isEnough reports whether the share fits into what is free of a slot. An
// exclusive share needs all of it. A share without cores needs a slot that has
// some cores left.
func isEnough(share gpu.ShareRequest, k *hardware.Class, s int, free, all shareAmount) bool {
	if isExclusive(share, k) && free != all {
		return false
	}
	need := minShare(share, k, s, all)
	return free.mem >= need.mem && free.cores >= need.cores && (need.cores > 0 || free.cores > 0 || all.cores == 0)
}

// milliOfAmount returns the thousandths of a device that an amount counts for.
func milliOfAmount(p shareAmount, memory int64) int {
	n := int64(p.cores) * wholeDevice / gpu.AllCores
	if memory > 0 {
		n = max(n, int64(p.mem)*wholeDevice/memory)
	}
	return int(min(max(n, 1), wholeDevice))
}

// milliRatio returns thousandths, rounded down: below 1000 if free is below all.
func milliRatio(free, all int32) int32 {
	if all == 0 {
		return 0
	}
	return int32(int64(free) * wholeDevice / int64(all))
}

// deviceMemory returns the memory that percentages refer to: that of the
// inventory, or else the total to share.
func deviceMemory(k *hardware.Class, s int, all shareAmount) int64 {
	if k.Slots[s].MemMiB > 0 {
		return k.Slots[s].MemMiB
	}
	return int64(all.mem)
}
