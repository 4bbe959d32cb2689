package allocation

import (
	"slices"

	"mesos-gpu/gpu"
)

// DeviceFilter tells whether a device may be granted anew; nil lets all be.
type DeviceFilter func(device string) bool

// AssignDevices tells what holdings a container with those resources comes to: its
// own first, then those of nested containers that lose a device with it. The
// books stay as they are until Set. What the container holds and still wants
// it keeps; of stock devices it gives back the last granted first, those that
// a nested container holds after all others. The error is a *Refusal.
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

// RestoreAllocation tells what holding a container has that the kernel lets open those
// devices. Of a shared one it has a part of unknown size. The error is a
// *Refusal, where the books give one to another.
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

// isShared tells whether what a container has of a device is a part: others
// have one, or it may be shared; of a nested one its ancestor has one.
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

// CheckAllocation tells whether a holding from elsewhere, a file or a cgroup, can stand
// in the books beside the others. The error is a *Refusal.
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
		if err := s.checkNotExclusive(p.UUID, "holds a part of"); err != nil {
			return err
		}
		if _, ok := findShare(s.shares, p.UUID); s.ancestor != "" && !ok {
			return rejectf("container %s holds a part of device %s, of which container %s has none", h.Container, p.UUID, s.ancestor)
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
			return rejectf("container %s holds %d devices, and %s in it holds %s beside them", h.Container, len(h.Devices()), inner.Container, d[0])
		}
	}
	return nil
}

// deviceSource is where one container's devices come from: the host, or for a
// nested one the ancestor that holds devices.
type deviceSource struct {
	container, ancestor string
	stockPool           []string          // what a bare number is served from
	nameable            []string          // what may be named, where there is an ancestor
	shares              []gpu.DeviceShare // what parts may be taken of, where there is one
	exclusiveHolders    map[string]string // device to the other container that holds it whole
	shareHolders        map[string]string // device to one that holds a part
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

// recordHolder enters a holder of devices, of several the outermost, and of those the
// first by name.
func recordHolder(holders map[string]string, devices []string, id string) {
	for _, d := range devices {
		other := holders[d]
		if other == "" || nestingDepth(id) < nestingDepth(other) || nestingDepth(id) == nestingDepth(other) && id < other {
			holders[d] = id
		}
	}
}

// allocatingAncestor is the nearest ancestor with a holding of its own, or the outermost
// where none is in the books.
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
			return rejectf("container %s names device %s, which is shared: take a part of it, or unshare it", s.container, d)
		}
		if s.ancestor == "" && slices.Contains(s.stockPool, d) && !slices.Contains(now.Devices(), d) {
			return rejectf("container %s names device %s, one of the %d set aside for a bare number of gpus: take it from --stock, or do not name it",
				s.container, d, len(s.stockPool))
		}
	}
	return nil
}

// checkExclusive is check for a device that nobody else may open.
func (s deviceSource) checkExclusive(device, does string) error {
	if err := s.checkNotExclusive(device, does); err != nil {
		return err
	}
	if holder := s.shareHolders[device]; holder != "" {
		return rejectf("container %s %s device %s, which container %s holds a part of", s.container, does, device, holder)
	}
	if s.ancestor != "" && !slices.Contains(s.nameable, device) {
		return rejectf("container %s %s device %s, which is not among the %d of container %s", s.container, does, device, len(s.nameable), s.ancestor)
	}
	return nil
}

// checkNotExclusive refuses a device that another container holds whole.
func (s deviceSource) checkNotExclusive(device, does string) error {
	if holder := s.exclusiveHolders[device]; holder != "" {
		return rejectf("container %s %s device %s, which container %s holds", s.container, does, device, holder)
	}
	return nil
}

// takeFromPool grants n more devices of the pool, first ones first; own are those
// that the container has anyway.
func (s deviceSource) takeFromPool(n int, own []string, usable DeviceFilter) ([]string, error) {
	if n <= 0 {
		return nil, nil
	}
	free, unusable := s.freeDevices(own, usable)
	if len(free) >= n {
		return free[:n], nil
	}
	if s.ancestor != "" {
		return nil, rejectf("container %s wants %d more GPUs without names, container %s has %d free of %d",
			s.container, n, s.ancestor, len(free), len(s.stockPool))
	}
	return nil, rejectf("container %s wants %d more GPUs without names, and of the %d set aside for that %d are free and %d more unhealthy or cordoned: "+
		"set more aside with --stock, or name devices by gpu_ids", s.container, n, len(s.stockPool), len(free), unusable)
}

func (s deviceSource) freeDevices(own []string, usable DeviceFilter) (freeDevices []string, unusable int) {
	for _, d := range s.stockPool {
		switch {
		case s.exclusiveHolders[d] != "" || s.shareHolders[d] != "" || slices.Contains(own, d):
		case usable != nil && !usable(d):
			unusable++
		default:
			freeDevices = append(freeDevices, d)
		}
	}
	return freeDevices, unusable
}

// shrinkStock leaves n of the stock devices.
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

// shrinkNested takes from the containers nested in one what it no longer holds, of
// several that have parts of one device from the last ones.
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

// nearestAncestor is the nearest ancestor that is among those.
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

// SameDevices reports whether two lists name the same devices.
func SameDevices(a, b []string) bool {
	return len(excludeDevices(a, b)) == 0 && len(excludeDevices(b, a)) == 0
}
