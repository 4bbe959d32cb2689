// Package allocation decides which container gets which devices: those that its resources name,
// for a request by number devices of the stock pool, and shares of shared devices. It is pure:
// it writes no file and no cgroup. Two containers hold one device in two cases only: one
// container is nested in the other, or each holds a share of the device. A MIG device and its GPU
// count as one device, two MIG devices of one GPU do not.
package allocation

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"mesos-gpu/gpu"
)

// Allocation contains the devices and shares that one container holds. It is a value: a change
// replaces it in the Allocator.
type Allocation struct {
	// Container is Mesos's id. That of a nested container begins with its parents' ids,
	// separated by dots.
	Container string `json:"container"`
	// Named are devices requested by gpu_ids, sorted by UUID.
	Named []string `json:"named,omitempty"`
	// Stock are devices of the stock pool, in the order in which they were granted. A device is
	// never both in Named and in Stock.
	Stock []string `json:"stock,omitempty"`
	// Shares are shares of shared devices, sorted by device: UUID, MemMiB and Cores. A share
	// restored from a cgroup has no amounts, because the kernel stores none.
	Shares []gpu.DeviceShare `json:"shares,omitempty"`
	// Inherits is set for a nested container that requested no devices. It may open what its
	// nearest ancestor without Inherits may open.
	Inherits bool `json:"inherits,omitempty"`
}

// UnmarshalJSON also reads the records of release 0.1.0, which called the shares parts.
func (a *Allocation) UnmarshalJSON(text []byte) error {
	type current Allocation
	decoded := struct {
		*current
		Parts []gpu.DeviceShare `json:"parts"`
	}{current: (*current)(a)}
	if err := json.Unmarshal(text, &decoded); err != nil {
		return err
	}
	if a.Shares == nil {
		a.Shares = decoded.Parts
	}
	return nil
}

// Devices returns all devices that the container itself holds, whole or a share of.
func (a Allocation) Devices() []string { return slices.Concat(a.Named, a.Stock, shareUUIDs(a.Shares)) }

// exclusiveDevices returns the devices that no other container may open.
func (a Allocation) exclusiveDevices() []string { return slices.Concat(a.Named, a.Stock) }

// MatchesRequest reports whether the allocation contains exactly what r requests.
func (a Allocation) MatchesRequest(r DeviceRequest) bool {
	named := slices.Sorted(slices.Values(a.Named))
	return slices.Equal(named, r.Named) && len(a.Stock) == r.Stock && slices.Equal(a.Shares, r.Shares)
}

// ShareLookup reports whether shares of a device may be granted now, and the total to share:
// what is advertised of the device. If ok is false the device is granted whole.
type ShareLookup func(device string) (all gpu.DeviceShare, ok bool)

// ParentLookup returns the GPU of a MIG device, "" for other devices.
type ParentLookup func(device string) (gpu string)

// Allocator contains the allocations of one host. It is not safe for concurrent use.
type Allocator struct {
	// stockPool lists the devices for requests by number, in the order in which they are
	// granted. It never changes.
	stockPool []string
	// lookUpShare is called for each decision, because operators may share and unshare devices
	// while containers run.
	lookUpShare ShareLookup
	// lookUpParent is called for each decision, too: MIG devices come and go.
	lookUpParent ParentLookup
	// allocations is indexed by container. A container is in it from the assignment of its
	// devices until its cleanup, also if it holds none. While a transaction of package
	// containers runs, its container's allocation has the old and the new devices.
	allocations map[string]Allocation
}

// New returns an Allocator without allocations. stock lists the devices for requests by number,
// in the order in which they are granted. Without shared no device is shared, without parents no
// device is a MIG device.
func New(stock []string, shared ShareLookup, parents ParentLookup) *Allocator {
	if shared == nil {
		shared = func(string) (gpu.DeviceShare, bool) { return gpu.DeviceShare{}, false }
	}
	if parents == nil {
		parents = func(string) string { return "" }
	}
	return &Allocator{stockPool: slices.Clone(stock), lookUpShare: shared, lookUpParent: parents, allocations: map[string]Allocation{}}
}

// Stock returns the devices of the stock pool.
func (a *Allocator) Stock() []string { return slices.Clone(a.stockPool) }

// Get returns the container's own allocation.
func (a *Allocator) Get(container string) (Allocation, bool) {
	h, ok := a.allocations[container]
	return h, ok
}

// EffectiveDevices returns the devices that the container may open: its own, or those it
// inherits.
func (a *Allocator) EffectiveDevices(container string) []string {
	return a.effectiveAllocation(container).Devices()
}

// EffectiveShares returns the shares that apply to the container, and the container that they
// belong to: itself, or the ancestor from which it inherits. Both use them together.
func (a *Allocator) EffectiveShares(container string) (owner string, shares []gpu.DeviceShare) {
	h := a.effectiveAllocation(container)
	return h.Container, slices.Clone(h.Shares)
}

func (a *Allocator) effectiveAllocation(container string) Allocation {
	h, ok := a.allocations[container]
	for ok && h.Inherits || !ok && isNested(container) {
		container = ParentID(container)
		h, ok = a.allocations[container]
	}
	return h
}

// ListAll returns all allocations, parents before nested containers.
func (a *Allocator) ListAll() []Allocation {
	return slices.SortedFunc(maps.Values(a.allocations), func(a, b Allocation) int {
		return cmp.Or(cmp.Compare(nestingDepth(a.Container), nestingDepth(b.Container)), cmp.Compare(a.Container, b.Container))
	})
}

// ListNested returns the allocations of the containers nested in the container, parents first.
func (a *Allocator) ListNested(container string) []Allocation {
	return slices.DeleteFunc(a.ListAll(), func(h Allocation) bool { return !IsNestedIn(h.Container, container) })
}

// ListConflicts returns the containers that share no ancestor with the container and hold the
// device, a share of it, its GPU if it is a MIG device, or a MIG device of it, sorted.
func (a *Allocator) ListConflicts(container, device string) []string {
	related := func(held string) bool {
		return held == device || a.lookUpParent(held) == device || a.lookUpParent(device) == held
	}
	var ids []string
	for _, h := range a.ListAll() {
		if RootID(h.Container) != RootID(container) && slices.ContainsFunc(h.Devices(), related) {
			ids = append(ids, h.Container)
		}
	}
	return ids
}

// SetAllocations replaces allocations with those that AssignDevices or RestoreAllocation
// returned. It checks nothing: a container that was found with a device of another one is a
// holder, too.
func (a *Allocator) SetAllocations(holdings ...Allocation) {
	for _, h := range holdings {
		a.allocations[h.Container] = h
	}
}

// RemoveAllocation removes the container's own allocation and keeps those of nested containers.
func (a *Allocator) RemoveAllocation(container string) { delete(a.allocations, container) }

// ReleaseContainer removes the container and those nested in it. It returns their ids, nested
// ones first; none for an unknown container.
func (a *Allocator) ReleaseContainer(container string) []string {
	var gone []string
	for _, h := range slices.Backward(a.ListNested(container)) {
		gone = append(gone, h.Container)
	}
	if _, ok := a.allocations[container]; ok {
		gone = append(gone, container)
	}
	for _, id := range gone {
		delete(a.allocations, id)
	}
	return gone
}

// FindOrphans returns the containers that, or an ancestor of which, alive does not list.
func (a *Allocator) FindOrphans(alive []string) []string {
	lives := make(map[string]bool, len(alive))
	for _, id := range alive {
		lives[id] = true
	}
	var gone []string
	for _, h := range a.ListAll() {
		id := h.Container
		for lives[id] && isNested(id) && a.isKnown(ParentID(id)) {
			id = ParentID(id)
		}
		if !lives[id] {
			gone = append(gone, h.Container)
		}
	}
	return gone
}

func (a *Allocator) isKnown(container string) bool {
	_, ok := a.allocations[container]
	return ok
}

// ParentID returns the container that the container is nested in, "" if none exists.
func ParentID(container string) string {
	if dot := strings.LastIndexByte(container, '.'); dot >= 0 {
		return container[:dot]
	}
	return ""
}

// RootID returns the outermost container that the container is nested in, or the container
// itself.
func RootID(container string) string {
	root, _, _ := strings.Cut(container, ".")
	return root
}

// IsNestedIn reports whether a container is nested in another one, at any depth.
func IsNestedIn(container, other string) bool { return strings.HasPrefix(container, other+".") }

func isNested(container string) bool { return nestingDepth(container) > 0 }

func nestingDepth(container string) int { return strings.Count(container, ".") }
