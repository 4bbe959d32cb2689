// Package ledger decides which container holds which devices: those its
// resources name, for a bare number of gpus some of the stock pool, and parts
// of shared ones. It is pure: it writes no file and no cgroup. That two
// containers hold one device happens in two cases only: where one is nested in
// the other, and where each holds a part of it.
package ledger

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"mesos-gpu/gpu"
)

// Holding is what one container holds.
type Holding struct {
	// Container is Mesos's id; a nested one's has its parents before it, with
	// dots between.
	Container string `json:"container"`
	// Named are devices that gpu_ids named, Stock those of the stock pool, in
	// the order in which they were granted.
	Named []string `json:"named,omitempty"`
	Stock []string `json:"stock,omitempty"`
	// Parts are what it holds of shared devices, in the order of their names:
	// UUID, MemMiB and Cores. One found again from a cgroup has no amounts, for
	// the kernel knows none.
	Parts []gpu.Part `json:"parts,omitempty"`
	// Inherits is set for a nested container that asked for no devices: it
	// may open what its nearest ancestor that does not inherit may.
	Inherits bool `json:"inherits,omitempty"`
}

// Devices are all that the container holds itself, wholly or a part of.
func (h Holding) Devices() []string { return slices.Concat(h.Named, h.Stock, partsOf(h.Parts)) }

// whole are the devices that nobody else may open.
func (h Holding) whole() []string { return slices.Concat(h.Named, h.Stock) }

// Meets reports whether the holding is just what is wanted.
func (h Holding) Meets(w Want) bool {
	named := slices.Sorted(slices.Values(h.Named))
	return slices.Equal(named, w.Named) && len(h.Stock) == w.Stock && slices.Equal(h.Parts, w.Parts)
}

// Shared tells whether parts of a device may be granted now, and of how much:
// what is advertised of it. One for which it says no is granted whole.
type Shared func(device string) (all gpu.Part, ok bool)

// Ledger is the books of one host. It is not safe for concurrent use.
type Ledger struct {
	pool   []string
	shared Shared
	held   map[string]Holding
}

// New opens empty books. stock are the devices set aside for a bare number of
// gpus, in the order in which they are handed out. Without shared, no device
// is.
func New(stock []string, shared Shared) *Ledger {
	if shared == nil {
		shared = func(string) (gpu.Part, bool) { return gpu.Part{}, false }
	}
	return &Ledger{pool: slices.Clone(stock), shared: shared, held: map[string]Holding{}}
}

// Stock are the devices of the stock pool.
func (l *Ledger) Stock() []string { return slices.Clone(l.pool) }

// Get is what the container holds itself.
func (l *Ledger) Get(container string) (Holding, bool) {
	h, ok := l.held[container]
	return h, ok
}

// Devices are what the container may open: its own, or its ancestors'.
func (l *Ledger) Devices(container string) []string { return l.effective(container).Devices() }

// Parts are those that the container has, and whose they are: its own, or an
// ancestor's, which both then take from together.
func (l *Ledger) Parts(container string) (owner string, parts []gpu.Part) {
	h := l.effective(container)
	return h.Container, slices.Clone(h.Parts)
}

func (l *Ledger) effective(container string) Holding {
	h, ok := l.held[container]
	for ok && h.Inherits || !ok && nested(container) {
		container = Parent(container)
		h, ok = l.held[container]
	}
	return h
}

// All are the holdings, parents before the nested.
func (l *Ledger) All() []Holding {
	return slices.SortedFunc(maps.Values(l.held), func(a, b Holding) int {
		return cmp.Or(cmp.Compare(depth(a.Container), depth(b.Container)), cmp.Compare(a.Container, b.Container))
	})
}

// Under are the holdings of the containers nested in that one, parents first.
func (l *Ledger) Under(container string) []Holding {
	return slices.DeleteFunc(l.All(), func(h Holding) bool { return !Within(h.Container, container) })
}

// Holders are the containers that hold the device themselves, or a part of it,
// parents first.
func (l *Ledger) Holders(device string) []string {
	var ids []string
	for _, h := range l.All() {
		if slices.Contains(h.Devices(), device) {
			ids = append(ids, h.Container)
		}
	}
	return ids
}

// Set enters holdings, as Assign or Restore gave them.
func (l *Ledger) Set(holdings ...Holding) {
	for _, h := range holdings {
		l.held[h.Container] = h
	}
}

// Release strikes a container and those nested in it, and returns them,
// nested ones first. One it does not know is none.
func (l *Ledger) Release(container string) []string {
	var gone []string
	for _, h := range slices.Backward(l.Under(container)) {
		gone = append(gone, h.Container)
	}
	if _, ok := l.held[container]; ok {
		gone = append(gone, container)
	}
	for _, id := range gone {
		delete(l.held, id)
	}
	return gone
}

// Strangers are the containers in the books that alive does not name, or an
// ancestor of which it does not.
func (l *Ledger) Strangers(alive []string) []string {
	lives := make(map[string]bool, len(alive))
	for _, id := range alive {
		lives[id] = true
	}
	var gone []string
	for _, h := range l.All() {
		id := h.Container
		for lives[id] && nested(id) && l.knows(Parent(id)) {
			id = Parent(id)
		}
		if !lives[id] {
			gone = append(gone, h.Container)
		}
	}
	return gone
}

func (l *Ledger) knows(container string) bool {
	_, ok := l.held[container]
	return ok
}

// Parent is the container that one is nested in, "" for none.
func Parent(container string) string {
	if dot := strings.LastIndexByte(container, '.'); dot >= 0 {
		return container[:dot]
	}
	return ""
}

// Root is the outermost container that one is nested in, or itself.
func Root(container string) string {
	root, _, _ := strings.Cut(container, ".")
	return root
}

// Within reports whether a container is nested in another, however deep.
func Within(container, other string) bool { return strings.HasPrefix(container, other+".") }

func nested(container string) bool { return depth(container) > 0 }

func depth(container string) int { return strings.Count(container, ".") }
