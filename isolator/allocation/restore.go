package allocation

import (
	"slices"

	"mesos-gpu/gpu"
)

// RestoreAllocation returns the allocation of a container whose cgroup allows those devices. Of
// a shared device the container gets a share of unknown size. The error is a *RejectedError if
// another container holds one of the devices.
func (a *Allocator) RestoreAllocation(container string, devices []string) (Allocation, error) {
	if isNested(container) && SameDevices(devices, a.EffectiveDevices(ParentID(container))) {
		return Allocation{Container: container, Inherits: true}, nil
	}
	pool := a.deviceSourceOf(container).stockPool
	h := Allocation{Container: container}
	for _, d := range devices {
		switch {
		case slices.Contains(pool, d):
			h.Stock = append(h.Stock, d)
		case a.isShared(container, d):
			h.Shares = append(h.Shares, gpu.DeviceShare{UUID: d})
		default:
			h.Named = append(h.Named, d)
		}
	}
	h.Shares = UnionShares(nil, h.Shares) // in order
	return h, a.CheckAllocation(h)
}

// isShared reports whether a container that may open a device has a share of it, rather than
// the whole device. It has if another container holds a share, or if the device is shared and
// not held. A nested container has if its ancestor has.
func (a *Allocator) isShared(container, device string) bool {
	if isNested(container) {
		_, part := findShare(a.allocations[a.allocatingAncestor(container)].Shares, device)
		return part
	}
	_, shared := a.lookUpShare(device)
	for _, h := range a.allocations {
		if _, part := findShare(h.Shares, device); part {
			return true
		}
		if slices.Contains(h.exclusiveDevices(), device) {
			return false
		}
	}
	return shared
}

// CheckAllocation checks that an allocation from a file or a cgroup does not contradict the
// other allocations. The error is a *RejectedError.
func (a *Allocator) CheckAllocation(h Allocation) error {
	s := a.deviceSourceOf(h.Container)
	if d := findDuplicate(h.Devices()); d != "" {
		return rejectf("container %s holds device %s twice", h.Container, d)
	}
	for _, d := range h.exclusiveDevices() {
		if err := s.checkExclusive(d, "holds"); err != nil {
			return err
		}
	}
	for _, p := range h.Shares {
		if err := s.checkNotExclusive(p.UUID, "holds a share of"); err != nil {
			return err
		}
		if _, ok := findShare(s.shares, p.UUID); s.ancestor != "" && !ok {
			return rejectf("container %s holds a share of device %s, of which container %s has none", h.Container, p.UUID, s.ancestor)
		}
		if p.MemMiB < 0 || p.Cores < 0 {
			return rejectf("container %s holds %d MiB and %d %% of the cores of device %s", h.Container, p.MemMiB, p.Cores, p.UUID)
		}
	}
	if h.Inherits {
		return nil
	}
	for _, inner := range a.ListNested(h.Container) {
		if d := excludeDevices(inner.Devices(), h.Devices()); len(d) > 0 {
			return rejectf("container %s holds %d devices, and %s nested in it holds %s, which is not one of them", h.Container, len(h.Devices()), inner.Container, d[0])
		}
	}
	return nil
}
