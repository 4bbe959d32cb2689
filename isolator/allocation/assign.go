package allocation

import (
	"cmp"
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
func (a *Allocator) AssignDevices(container string, request DeviceRequest, usable DeviceFilter) ([]Allocation, error) {
	// 1. A nested container that requests nothing inherits.
	current, known := a.allocations[container]
	if isNested(container) && request.IsEmpty() && (!known || current.Inherits) {
		return []Allocation{{Container: container, Inherits: true}}, nil
	}
	// 2. Check devices that the request names, whole or a share of.
	source := a.deviceSourceOf(container)
	if err := a.checkNamed(source, request.Named, current); err != nil {
		return nil, err
	}
	if err := a.checkShares(source, request.Shares, current.Shares); err != nil {
		return nil, err
	}
	// 3. Keep or choose devices for a request by number.
	kept := excludeDevices(current.Stock, request.Named)
	if len(kept) > request.Stock {
		kept = a.shrinkStock(container, kept, request.Stock)
	}
	taken, err := source.takeFromPool(request.Stock-len(kept), slices.Concat(request.Named, kept), usable)
	if err != nil {
		return nil, err
	}
	// 4. Nested containers lose what the container gives up.
	next := Allocation{Container: container, Named: slices.Clone(request.Named), Stock: slices.Concat(kept, taken), Shares: slices.Clone(request.Shares)}
	return append([]Allocation{next}, a.shrinkNested(next)...), nil
}

// deviceSource describes where a container's devices come from: the host, or for a nested
// container the ancestor that holds devices. It is computed for one request and does not follow
// later changes of the allocator.
type deviceSource struct {
	// container is the container that requests devices. ancestor is the container whose devices
	// it may get, or empty if it may get those of the host.
	container, ancestor string
	// stockPool lists the devices for a request by number: the host's stock pool, or the stock
	// devices of the ancestor.
	stockPool []string
	// nameable are the ancestor's whole devices, and shares are its shares. Both are empty
	// without an ancestor: the container may then name any device, and ShareLookup returns what
	// there is to share.
	nameable []string
	shares   []gpu.DeviceShare
	// exclusiveHolders maps a device to the container that holds it whole, shareHolders to one
	// that holds a share of it. Neither contains the container itself, its ancestors or the
	// containers nested in it, because these may hold a device together.
	exclusiveHolders map[string]string
	shareHolders     map[string]string
	// sliceHolders maps a GPU to such a container that holds a MIG device of it, or a share of
	// one. lookUpParent is the Allocator's.
	sliceHolders map[string]string
	lookUpParent ParentLookup
}

func (a *Allocator) deviceSourceOf(container string) deviceSource {
	s := deviceSource{
		container: container, stockPool: a.stockPool, lookUpParent: a.lookUpParent,
		exclusiveHolders: map[string]string{}, shareHolders: map[string]string{}, sliceHolders: map[string]string{},
	}
	if isNested(container) {
		s.ancestor = a.allocatingAncestor(container)
		h := a.allocations[s.ancestor]
		s.stockPool, s.nameable, s.shares = h.Stock, h.exclusiveDevices(), h.Shares
	}
	for id, h := range a.allocations {
		if id == container || h.Inherits || IsNestedIn(id, container) || IsNestedIn(container, id) {
			continue
		}
		recordHolder(s.exclusiveHolders, h.exclusiveDevices(), id)
		recordHolder(s.shareHolders, shareUUIDs(h.Shares), id)
		for _, d := range h.Devices() {
			if parent := a.lookUpParent(d); parent != "" {
				recordHolder(s.sliceHolders, []string{parent}, id)
			}
		}
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
func (a *Allocator) allocatingAncestor(container string) string {
	for id := ParentID(container); ; id = ParentID(id) {
		h, ok := a.allocations[id]
		if ok && !h.Inherits || !isNested(id) {
			return id
		}
	}
}

// checkNamed returns an error if the container, with its current allocation, may not name one of
// the devices.
func (a *Allocator) checkNamed(s deviceSource, named []string, current Allocation) error {
	for _, d := range named {
		if err := s.checkExclusive(d, "names"); err != nil {
			return err
		}
		if _, shared := a.lookUpShare(d); shared && s.ancestor == "" && !slices.Contains(current.exclusiveDevices(), d) {
			return rejectf("container %s names device %s, which is shared: request a share of it, or unshare it", s.container, d)
		}
		if s.ancestor == "" && slices.Contains(s.stockPool, d) && !slices.Contains(current.Devices(), d) {
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
		return rejectHeld(device, "container %s %s device %s, of which container %s holds a share", s.container, does, device, holder)
	}
	if s.ancestor != "" && !slices.Contains(s.nameable, device) {
		return rejectf("container %s %s device %s, which is not among the %d of container %s", s.container, does, device, len(s.nameable), s.ancestor)
	}
	return nil
}

// checkNotExclusive returns an error if another container holds the whole device, or its GPU or a
// MIG device of it.
func (s deviceSource) checkNotExclusive(device, does string) error {
	if holder := s.exclusiveHolders[device]; holder != "" {
		return rejectHeld(device, "container %s %s device %s, which container %s holds", s.container, does, device, holder)
	}
	if holder := s.sliceHolders[device]; holder != "" {
		return rejectHeld(device, "container %s %s device %s, of which container %s holds a MIG device", s.container, does, device, holder)
	}
	parent := s.lookUpParent(device)
	if parent == "" {
		return nil
	}
	if holder := cmp.Or(s.exclusiveHolders[parent], s.shareHolders[parent]); holder != "" {
		return rejectHeld(device, "container %s %s MIG device %s, whose GPU %s container %s holds", s.container, does, device, parent, holder)
	}
	return nil
}

// takeFromPool returns n free devices of the pool, first ones first, without those that the
// container has already.
func (s deviceSource) takeFromPool(n int, own []string, usable DeviceFilter) ([]string, error) {
	if n <= 0 {
		return nil, nil
	}
	var free []string
	unusable := 0
	for _, d := range s.stockPool {
		switch {
		case s.checkNotExclusive(d, "requests") != nil || s.shareHolders[d] != "" || slices.Contains(own, d):
		case usable != nil && !usable(d):
			unusable++
		default:
			free = append(free, d)
		}
	}
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

// shrinkStock returns n of the container's stock devices. It drops devices that nested
// containers hold last.
func (a *Allocator) shrinkStock(container string, stock []string, n int) []string {
	lent := map[string]bool{}
	for id, h := range a.allocations {
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
func (a *Allocator) shrinkNested(h Allocation) []Allocation {
	var changed []Allocation
	all := h.exclusiveDevices()
	left := map[string][]gpu.DeviceShare{h.Container: slices.Clone(h.Shares)}
	for _, n := range a.ListNested(h.Container) {
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

// nearestAncestor returns the container's nearest ancestor that is a key of among, or "".
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
