// Package ledger decides which container holds which devices: those its
// resources name, for a bare number of gpus some of the stock pool, and parts
// of shared ones. It is pure: it writes no file and no cgroup. That two
// containers hold one device happens in two cases only: where one is nested in
// the other, and where each holds a part of it.
package allocation

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"mesos-gpu/gpu"
)

// Allocation is what one container holds.
type Allocation struct {
	// Container is Mesos's id; a nested one's has its parents before it, with
	// dots between.
	Container string `json:"container"`
	// Named are devices that gpu_ids named, Stock those of the stock pool, in
	// the order in which they were granted.
	Named []string `json:"named,omitempty"`
	Stock []string `json:"stock,omitempty"`
	// Shares are what it holds of shared devices, in the order of their names:
	// UUID, MemMiB and Cores. One found again from a cgroup has no amounts, for
	// the kernel knows none.
	Shares []gpu.DeviceShare `json:"parts,omitempty"`
	// Inherits is set for a nested container that asked for no devices: it
	// may open what its nearest ancestor that does not inherit may.
	Inherits bool `json:"inherits,omitempty"`
}

// Devices are all that the container holds itself, wholly or a part of.
func (h Allocation) Devices() []string { return slices.Concat(h.Named, h.Stock, shareUUIDs(h.Shares)) }

// exclusiveDevices are the devices that nobody else may open.
func (h Allocation) exclusiveDevices() []string { return slices.Concat(h.Named, h.Stock) }

// MatchesRequest reports whether the holding is just what is wanted.
func (h Allocation) MatchesRequest(w DeviceRequest) bool {
	named := slices.Sorted(slices.Values(h.Named))
	return slices.Equal(named, w.Named) && len(h.Stock) == w.Stock && slices.Equal(h.Shares, w.Shares)
}

// ShareLookup tells whether parts of a device may be granted now, and of how much:
// what is advertised of it. One for which it says no is granted whole.
type ShareLookup func(device string) (all gpu.DeviceShare, ok bool)

// Allocator is the books of one host. It is not safe for concurrent use.
type Allocator struct {
	stockPool   []string
	lookUpShare ShareLookup
	allocations map[string]Allocation
}

// New opens empty books. stock are the devices set aside for a bare number of
// gpus, in the order in which they are handed out. Without shared, no device
// is.
func New(stock []string, shared ShareLookup) *Allocator {
	if shared == nil {
		shared = func(string) (gpu.DeviceShare, bool) { return gpu.DeviceShare{}, false }
	}
	return &Allocator{stockPool: slices.Clone(stock), lookUpShare: shared, allocations: map[string]Allocation{}}
}

// Stock are the devices of the stock pool.
func (l *Allocator) Stock() []string { return slices.Clone(l.stockPool) }

// Get is what the container holds itself.
func (l *Allocator) Get(container string) (Allocation, bool) {
	h, ok := l.allocations[container]
	return h, ok
}

// EffectiveDevices are what the container may open: its own, or its ancestors'.
func (l *Allocator) EffectiveDevices(container string) []string {
	return l.effectiveAllocation(container).Devices()
}

// EffectiveShares are those that the container has, and whose they are: its own, or an
// ancestor's, which both then take from together.
func (l *Allocator) EffectiveShares(container string) (owner string, parts []gpu.DeviceShare) {
	h := l.effectiveAllocation(container)
	return h.Container, slices.Clone(h.Shares)
}

func (l *Allocator) effectiveAllocation(container string) Allocation {
	h, ok := l.allocations[container]
	for ok && h.Inherits || !ok && isNested(container) {
		container = ParentID(container)
		h, ok = l.allocations[container]
	}
	return h
}

// ListAll are the holdings, parents before the nested.
func (l *Allocator) ListAll() []Allocation {
	return slices.SortedFunc(maps.Values(l.allocations), func(a, b Allocation) int {
		return cmp.Or(cmp.Compare(nestingDepth(a.Container), nestingDepth(b.Container)), cmp.Compare(a.Container, b.Container))
	})
}

// ListNested are the holdings of the containers nested in that one, parents first.
func (l *Allocator) ListNested(container string) []Allocation {
	return slices.DeleteFunc(l.ListAll(), func(h Allocation) bool { return !IsNestedIn(h.Container, container) })
}

// HoldersOf are the containers that hold the device themselves, or a part of it,
// parents first.
func (l *Allocator) HoldersOf(device string) []string {
	var ids []string
	for _, h := range l.ListAll() {
		if slices.Contains(h.Devices(), device) {
			ids = append(ids, h.Container)
		}
	}
	return ids
}

// SetAllocations enters holdings, as Assign or Restore gave them.
func (l *Allocator) SetAllocations(holdings ...Allocation) {
	for _, h := range holdings {
		l.allocations[h.Container] = h
	}
}

// ReleaseContainer strikes a container and those nested in it, and returns them,
// nested ones first. One it does not know is none.
func (l *Allocator) ReleaseContainer(container string) []string {
	var gone []string
	for _, h := range slices.Backward(l.ListNested(container)) {
		gone = append(gone, h.Container)
	}
	if _, ok := l.allocations[container]; ok {
		gone = append(gone, container)
	}
	for _, id := range gone {
		delete(l.allocations, id)
	}
	return gone
}

// FindOrphans are the containers in the books that alive does not name, or an
// ancestor of which it does not.
func (l *Allocator) FindOrphans(alive []string) []string {
	lives := make(map[string]bool, len(alive))
	for _, id := range alive {
		lives[id] = true
	}
	var gone []string
	for _, h := range l.ListAll() {
		id := h.Container
		for lives[id] && isNested(id) && l.isKnown(ParentID(id)) {
			id = ParentID(id)
		}
		if !lives[id] {
			gone = append(gone, h.Container)
		}
	}
	return gone
}

func (l *Allocator) isKnown(container string) bool {
	_, ok := l.allocations[container]
	return ok
}

// ParentID is the container that one is nested in, "" for none.
func ParentID(container string) string {
	if dot := strings.LastIndexByte(container, '.'); dot >= 0 {
		return container[:dot]
	}
	return ""
}

// RootID is the outermost container that one is nested in, or itself.
func RootID(container string) string {
	root, _, _ := strings.Cut(container, ".")
	return root
}

// IsNestedIn reports whether a container is nested in another, however deep.
func IsNestedIn(container, other string) bool { return strings.HasPrefix(container, other+".") }

func isNested(container string) bool { return nestingDepth(container) > 0 }

func nestingDepth(container string) int { return strings.Count(container, ".") }
