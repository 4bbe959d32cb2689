package allocation

import (
	"slices"

	"mesos-gpu/gpu"
)

// DeviceFilter reports whether a device may be granted now. A nil filter accepts all devices.
type DeviceFilter func(device string) bool

// AssignDevices returns the allocations that satisfy the container's request: its own first,
// then those of nested containers that lose devices with it. It changes nothing: the caller
// calls SetAllocations. The container keeps devices that it holds and still requests. Of stock
// devices it gives up the last granted first, but those that a nested container holds last. The
// error is a *RejectedError.
func (l *Allocator) AssignDevices(container string, w DeviceRequest, usable DeviceFilter) ([]Allocation, error) {
	now, known := l.allocations[container]
	if isNested(container) && w.IsEmpty() && (!known || now.Inherits) {
		return []Allocation{{Container: container, Inherits: true}}, nil
	}
	s := l.deviceSourceOf(container)
	if err := l.checkNamed(s, w.Named, now); err != nil {
		return nil, err
	}
	if err := l.checkShares(s, w.Shares, now.Shares); err != nil {
		return nil, err
	}
	kept := excludeDevices(now.Stock, w.Named)
	if len(kept) > w.Stock {
		kept = l.shrinkStock(container, kept, w.Stock)
	}
	taken, err := s.takeFromPool(w.Stock-len(kept), slices.Concat(w.Named, kept), usable)
	if err != nil {
		return nil, err
	}
	h := Allocation{Container: container, Named: slices.Clone(w.Named), Stock: slices.Concat(kept, taken), Shares: slices.Clone(w.Shares)}
	return append([]Allocation{h}, l.shrinkNested(h)...), nil
}

// RestoreAllocation returns the allocation of a container whose cgroup allows those devices. Of
// a shared device the container gets a share of unknown size. The error is a *RejectedError if
// another container holds one of the devices.
func (l *Allocator) RestoreAllocation(container string, devices []string) (Allocation, error) {
	if isNested(container) && SameDevices(devices, l.EffectiveDevices(ParentID(container))) {
		return Allocation{Container: container, Inherits: true}, nil
	}
	pool := l.deviceSourceOf(container).stockPool
	h := Allocation{Container: container}
	for _, d := range devices {
		switch {
		case slices.Contains(pool, d):
			h.Stock = append(h.Stock, d)
		case l.isShared(container, d):
			h.Shares = append(h.Shares, gpu.DeviceShare{UUID: d})
		default:
			h.Named = append(h.Named, d)
		}
	}
	h.Shares = UnionShares(nil, h.Shares) // in order
	return h, l.CheckAllocation(h)
}

// isShared reports whether a container that may open a device has a share of it, rather than
// the whole device. It has if another container holds a share, or if the device is shared and
// not held. A nested container has if its ancestor has.
func (l *Allocator) isShared(container, device string) bool {
	if isNested(container) {
		_, part := findShare(l.allocations[l.allocatingAncestor(container)].Shares, device)
		return part
	}
	_, shared := l.lookUpShare(device)
	for _, h := range l.allocations {
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
func (l *Allocator) CheckAllocation(h Allocation) error {
	s := l.deviceSourceOf(h.Container)
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
	for _, inner := range l.ListNested(h.Container) {
		if d := excludeDevices(inner.Devices(), h.Devices()); len(d) > 0 {
			return rejectf("container %s holds %d devices, and %s nested in it holds %s, which is not one of them", h.Container, len(h.Devices()), inner.Container, d[0])
		}
	}
	return nil
}

// deviceSource describes where a container's devices come from: the host, or for a nested
// container the ancestor that holds devices.
type deviceSource struct {
	container, ancestor string
	stockPool           []string          // devices for requests by number
	nameable            []string          // devices that may be named, if there is an ancestor
	shares              []gpu.DeviceShare // the shares of the ancestor, if there is one
	exclusiveHolders    map[string]string // device to another container that holds it whole
	shareHolders        map[string]string // device to another container that holds a share
}

func (l *Allocator) deviceSourceOf(container string) deviceSource {
	s := deviceSource{container: container, stockPool: l.stockPool, exclusiveHolders: map[string]string{}, shareHolders: map[string]string{}}
	if isNested(container) {
		s.ancestor = l.allocatingAncestor(container)
		h := l.allocations[s.ancestor]
		s.stockPool, s.nameable, s.shares = h.Stock, h.exclusiveDevices(), h.Shares
	}
	for id, h := range l.allocations {
		if id == container || h.Inherits || IsNestedIn(id, container) || IsNestedIn(container, id) {
			continue
		}
		recordHolder(s.exclusiveHolders, h.exclusiveDevices(), id)
		recordHolder(s.shareHolders, shareUUIDs(h.Shares), id)
	}
	return s
}

// recordHolder adds a container to the holders of devices. Of several holders it keeps the
// outermost, and of those the first by name.
func recordHolder(holders map[string]string, devices []string, id string) {
	for _, d := range devices {
		other := holders[d]
		if other == "" || nestingDepth(id) < nestingDepth(other) || nestingDepth(id) == nestingDepth(other) && id < other {
			holders[d] = id
		}
	}
}

// allocatingAncestor returns the nearest ancestor with an allocation that does not inherit, or
// the outermost ancestor if none has.
func (l *Allocator) allocatingAncestor(container string) string {
	for id := ParentID(container); ; id = ParentID(id) {
		h, ok := l.allocations[id]
		if ok && !h.Inherits || !isNested(id) {
			return id
		}
	}
}

func (l *Allocator) checkNamed(s deviceSource, named []string, now Allocation) error {
	for _, d := range named {
		if err := s.checkExclusive(d, "names"); err != nil {
			return err
		}
		if _, shared := l.lookUpShare(d); shared && s.ancestor == "" && !slices.Contains(now.exclusiveDevices(), d) {
			return rejectf("container %s names device %s, which is shared: request a share of it, or unshare it", s.container, d)
		}
		if s.ancestor == "" && slices.Contains(s.stockPool, d) && !slices.Contains(now.Devices(), d) {
			return rejectf("container %s names device %s, one of the %d reserved for requests by number: remove it from --stock, or do not name it",
				s.container, d, len(s.stockPool))
		}
	}
	return nil
}

// checkExclusive returns an error unless the container may hold the device alone.
func (s deviceSource) checkExclusive(device, does string) error {
	if err := s.checkNotExclusive(device, does); err != nil {
		return err
	}
	if holder := s.shareHolders[device]; holder != "" {
		return rejectf("container %s %s device %s, of which container %s holds a share", s.container, does, device, holder)
	}
	if s.ancestor != "" && !slices.Contains(s.nameable, device) {
		return rejectf("container %s %s device %s, which is not among the %d of container %s", s.container, does, device, len(s.nameable), s.ancestor)
	}
	return nil
}

// checkNotExclusive returns an error if another container holds the whole device.
func (s deviceSource) checkNotExclusive(device, does string) error {
	if holder := s.exclusiveHolders[device]; holder != "" {
		return rejectf("container %s %s device %s, which container %s holds", s.container, does, device, holder)
	}
	return nil
}

// takeFromPool returns n free devices of the pool, first ones first, without those that the
// container has already.
func (s deviceSource) takeFromPool(n int, own []string, usable DeviceFilter) ([]string, error) {
	if n <= 0 {
		return nil, nil
	}
	free, unusable := s.freeDevices(own, usable)
	if len(free) >= n {
		return free[:n], nil
	}
	if s.ancestor != "" {
		return nil, rejectf("container %s requests %d more GPUs by number, container %s has %d free of %d",
			s.container, n, s.ancestor, len(free), len(s.stockPool))
	}
	return nil, rejectf("container %s requests %d more GPUs by number, and of the %d reserved for that %d are free and %d more unhealthy or cordoned: "+
		"reserve more with --stock, or name devices by gpu_ids", s.container, n, len(s.stockPool), len(free), unusable)
}

func (s deviceSource) freeDevices(own []string, usable DeviceFilter) (free []string, unusable int) {
	for _, d := range s.stockPool {
		switch {
		case s.exclusiveHolders[d] != "" || s.shareHolders[d] != "" || slices.Contains(own, d):
		case usable != nil && !usable(d):
			unusable++
		default:
			free = append(free, d)
		}
	}
	return free, unusable
}

// shrinkStock returns n of the container's stock devices. It drops devices that nested
// containers hold last.
func (l *Allocator) shrinkStock(container string, stock []string, n int) []string {
	lent := map[string]bool{}
	for id, h := range l.allocations {
		if IsNestedIn(id, container) {
			for _, d := range h.Devices() {
				lent[d] = true
			}
		}
	}
	drop := func(stock []string, may func(string) bool) []string {
		for i := len(stock) - 1; i >= 0 && len(stock) > n; i-- {
			if may(stock[i]) {
				stock = slices.Delete(slices.Clone(stock), i, i+1)
			}
		}
		return stock
	}
	stock = drop(stock, func(d string) bool { return !lent[d] })
	return drop(stock, func(string) bool { return true })
}

// shrinkNested returns the allocations of nested containers that lose devices because the
// container no longer holds them. If shares no longer fit, the last containers lose them.
func (l *Allocator) shrinkNested(h Allocation) []Allocation {
	var changed []Allocation
	all := h.exclusiveDevices()
	left := map[string][]gpu.DeviceShare{h.Container: slices.Clone(h.Shares)}
	for _, n := range l.ListNested(h.Container) {
		if n.Inherits {
			continue
		}
		less := n
		less.Named, less.Stock = keepDevices(n.Named, all), keepDevices(n.Stock, all)
		less.Shares = takeShares(left[nearestAncestor(n.Container, left)], n.Shares)
		left[n.Container] = slices.Clone(less.Shares)
		if len(less.Devices()) < len(n.Devices()) || !slices.Equal(less.Shares, n.Shares) {
			changed = append(changed, less)
		}
	}
	return changed
}

// nearestAncestor returns the container's nearest ancestor that is a key of among, "" if there
// is none.
func nearestAncestor(container string, among map[string][]gpu.DeviceShare) string {
	id := ParentID(container)
	for ; id != ""; id = ParentID(id) {
		if _, ok := among[id]; ok {
			break
		}
	}
	return id
}

func excludeDevices(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(d string) bool { return slices.Contains(other, d) })
}

func keepDevices(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(d string) bool { return !slices.Contains(other, d) })
}

// SameDevices reports whether two lists contain the same devices, in any order.
func SameDevices(a, b []string) bool {
	return len(excludeDevices(a, b)) == 0 && len(excludeDevices(b, a)) == 0
}
