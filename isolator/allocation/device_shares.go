package allocation

import (
	"cmp"
	"math"
	"slices"

	"mesos-gpu/gpu"
)

// parseShares adds up the scalar resources of shared devices.
func parseShares(resources []MesosResource) ([]gpu.DeviceShare, error) {
	mem, cores := map[string]float64{}, map[string]float64{}
	for _, r := range resources {
		switch uuid, isCores, ok := gpu.ShareResource(r.Name); {
		case ok && isCores:
			cores[uuid] += r.Scalar
		case ok:
			mem[uuid] += r.Scalar
		}
	}
	var shares []gpu.DeviceShare
	for uuid, n := range mem {
		if !isWholeAmount(n) || n < 1 {
			return nil, rejectf("%s:%v is not a whole number of MiB of at least 1", gpu.MemResource(uuid), n)
		}
		if !isWholeAmount(cores[uuid]) {
			return nil, rejectf("%s:%v is not a whole number of percent of at least 0", gpu.CoresResource(uuid), cores[uuid])
		}
		shares = append(shares, gpu.DeviceShare{UUID: uuid, MemMiB: int64(n), Cores: int(cores[uuid])})
		delete(cores, uuid)
	}
	for uuid, n := range cores {
		if n != 0 {
			return nil, rejectf("%s:%v without %s: request memory of the device, too", gpu.CoresResource(uuid), n, gpu.MemResource(uuid))
		}
	}
	slices.SortFunc(shares, func(a, b gpu.DeviceShare) int { return cmp.Compare(a.UUID, b.UUID) })
	return shares, nil
}

// maxAmount bounds what a scalar may request of one device. No device has as much.
const maxAmount = 1 << 40

func isWholeAmount(n float64) bool { return n == math.Trunc(n) && n >= 0 && n <= maxAmount }

func shareUUIDs(shares []gpu.DeviceShare) []string {
	if len(shares) == 0 {
		return nil
	}
	ids := make([]string, len(shares))
	for i, p := range shares {
		ids[i] = p.UUID
	}
	return ids
}

func findShare(shares []gpu.DeviceShare, device string) (gpu.DeviceShare, bool) {
	if i := slices.IndexFunc(shares, func(p gpu.DeviceShare) bool { return p.UUID == device }); i >= 0 {
		return shares[i], true
	}
	return gpu.DeviceShare{}, false
}

// fitsWithin reports whether a share is contained in another one.
func fitsWithin(p, within gpu.DeviceShare) bool {
	return p.MemMiB <= within.MemMiB && p.Cores <= within.Cores
}

// UnionShares returns the shares of both lists, for each device the larger amounts, sorted by
// device.
func UnionShares(a, b []gpu.DeviceShare) []gpu.DeviceShare {
	all := slices.Clone(b)
	for _, p := range a {
		i := slices.IndexFunc(all, func(q gpu.DeviceShare) bool { return q.UUID == p.UUID })
		if i < 0 {
			all = append(all, p)
			continue
		}
		all[i].MemMiB, all[i].Cores = max(all[i].MemMiB, p.MemMiB), max(all[i].Cores, p.Cores)
	}
	slices.SortFunc(all, func(a, b gpu.DeviceShare) int { return cmp.Compare(a.UUID, b.UUID) })
	return all
}

// checkShares returns an error if the shares cannot be granted to a container that has the
// shares now. Each must be of a shared device, or of a device that the ancestor has a share of,
// and must fit next to the shares of other containers.
func (a *Allocator) checkShares(s deviceSource, shares, current []gpu.DeviceShare) error {
	for _, p := range shares {
		if err := s.checkNotExclusive(p.UUID, "requests a share of"); err != nil {
			return err
		}
		has, holds := findShare(current, p.UUID)
		if holds && fitsWithin(p, has) {
			continue
		}
		all, ok := a.lookUpShare(p.UUID)
		if s.ancestor != "" {
			all, ok = findShare(s.shares, p.UUID)
		}
		if !ok && !holds {
			return rejectf("container %s requests a share of device %s, which is not shared%s", s.container, p.UUID, s.ancestorNote())
		}
		if err := s.checkCapacity(p, all, a.sumOtherShares(s, p.UUID)); err != nil {
			return err
		}
	}
	return nil
}

// checkCapacity returns an error if a share does not fit next to the shares of other containers.
func (s deviceSource) checkCapacity(p, all, others gpu.DeviceShare) error {
	if free := all.MemMiB - others.MemMiB; p.MemMiB > free {
		return rejectHeld(p.UUID, "container %s requests %d MiB of device %s, %d of its %d MiB are free%s",
			s.container, p.MemMiB, p.UUID, max(0, free), all.MemMiB, s.ancestorNote())
	}
	if free := all.Cores - others.Cores; p.Cores > free {
		return rejectHeld(p.UUID, "container %s requests %d %% of the cores of device %s, %d of %d %% are free%s",
			s.container, p.Cores, p.UUID, max(0, free), all.Cores, s.ancestorNote())
	}
	return nil
}

func (s deviceSource) ancestorNote() string {
	if s.ancestor == "" {
		return ""
	}
	return " in container " + s.ancestor
}

// sumOtherShares adds up the shares of the device that other containers have from the same
// source.
func (a *Allocator) sumOtherShares(s deviceSource, device string) gpu.DeviceShare {
	sum := gpu.DeviceShare{UUID: device}
	for id, h := range a.allocations {
		if id == s.container || h.Inherits || IsNestedIn(id, s.container) || isNested(id) != isNested(s.container) {
			continue
		}
		if isNested(id) && a.allocatingAncestor(id) != s.ancestor {
			continue
		}
		p, _ := findShare(h.Shares, device)
		sum.MemMiB, sum.Cores = sum.MemMiB+p.MemMiB, sum.Cores+p.Cores
	}
	return sum
}

// takeShares returns shares, reduced to what is left, and subtracts them from left.
func takeShares(left, shares []gpu.DeviceShare) []gpu.DeviceShare {
	var taken []gpu.DeviceShare
	for _, p := range shares {
		i := slices.IndexFunc(left, func(q gpu.DeviceShare) bool { return q.UUID == p.UUID })
		if i < 0 || left[i].MemMiB == 0 && p.MemMiB > 0 {
			continue
		}
		p.MemMiB, p.Cores = min(p.MemMiB, left[i].MemMiB), min(p.Cores, left[i].Cores)
		left[i].MemMiB, left[i].Cores = left[i].MemMiB-p.MemMiB, left[i].Cores-p.Cores
		taken = append(taken, p)
	}
	return taken
}
