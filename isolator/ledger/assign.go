package ledger

import (
	"slices"

	"mesos-gpu/gpu"
)

// Usable tells whether a device may be granted anew; nil lets all be.
type Usable func(device string) bool

// Assign tells what holdings a container with those resources comes to: its
// own first, then those of nested containers that lose a device with it. The
// books stay as they are until Set. What the container holds and still wants
// it keeps; of stock devices it gives back the last granted first, those that
// a nested container holds after all others. The error is a *Refusal.
func (l *Ledger) Assign(container string, w Want, usable Usable) ([]Holding, error) {
	now, known := l.held[container]
	if nested(container) && w.Empty() && (!known || now.Inherits) {
		return []Holding{{Container: container, Inherits: true}}, nil
	}
	s := l.source(container)
	if err := l.checkNamed(s, w.Named, now); err != nil {
		return nil, err
	}
	if err := l.checkParts(s, w.Parts, now.Parts); err != nil {
		return nil, err
	}
	kept := without(now.Stock, w.Named)
	if len(kept) > w.Stock {
		kept = l.giveBack(container, kept, w.Stock)
	}
	taken, err := s.take(w.Stock-len(kept), slices.Concat(w.Named, kept), usable)
	if err != nil {
		return nil, err
	}
	h := Holding{Container: container, Named: slices.Clone(w.Named), Stock: slices.Concat(kept, taken), Parts: slices.Clone(w.Parts)}
	return append([]Holding{h}, l.narrow(h)...), nil
}

// Restore tells what holding a container has that the kernel lets open those
// devices. Of a shared one it has a part of unknown size. The error is a
// *Refusal, where the books give one to another.
func (l *Ledger) Restore(container string, devices []string) (Holding, error) {
	if nested(container) && Same(devices, l.Devices(Parent(container))) {
		return Holding{Container: container, Inherits: true}, nil
	}
	pool := l.source(container).pool
	h := Holding{Container: container}
	for _, d := range devices {
		switch {
		case slices.Contains(pool, d):
			h.Stock = append(h.Stock, d)
		case l.isShared(container, d):
			h.Parts = append(h.Parts, gpu.Part{UUID: d})
		default:
			h.Named = append(h.Named, d)
		}
	}
	h.Parts = Union(nil, h.Parts) // in order
	return h, l.Check(h)
}

// isShared tells whether what a container has of a device is a part: others
// have one, or it may be shared; of a nested one its ancestor has one.
func (l *Ledger) isShared(container, device string) bool {
	if nested(container) {
		_, part := partOf(l.held[l.lender(container)].Parts, device)
		return part
	}
	_, shared := l.shared(device)
	for _, h := range l.held {
		if _, part := partOf(h.Parts, device); part {
			return true
		}
		if slices.Contains(h.whole(), device) {
			return false
		}
	}
	return shared
}

// Check tells whether a holding from elsewhere, a file or a cgroup, can stand
// in the books beside the others. The error is a *Refusal.
func (l *Ledger) Check(h Holding) error {
	s := l.source(h.Container)
	if d := twice(h.Devices()); d != "" {
		return refuse("container %s holds device %s twice", h.Container, d)
	}
	for _, d := range h.whole() {
		if err := s.checkWhole(d, "holds"); err != nil {
			return err
		}
	}
	for _, p := range h.Parts {
		if err := s.check(p.UUID, "holds a part of"); err != nil {
			return err
		}
		if _, ok := partOf(s.parts, p.UUID); s.ancestor != "" && !ok {
			return refuse("container %s holds a part of device %s, of which container %s has none", h.Container, p.UUID, s.ancestor)
		}
		if p.MemMiB < 0 || p.Cores < 0 {
			return refuse("container %s holds %d MiB and %d %% of the cores of device %s", h.Container, p.MemMiB, p.Cores, p.UUID)
		}
	}
	if h.Inherits {
		return nil
	}
	for _, inner := range l.Under(h.Container) {
		if d := without(inner.Devices(), h.Devices()); len(d) > 0 {
			return refuse("container %s holds %d devices, and %s in it holds %s beside them", h.Container, len(h.Devices()), inner.Container, d[0])
		}
	}
	return nil
}

// source is where one container's devices come from: the host, or for a
// nested one the ancestor that holds devices.
type source struct {
	container, ancestor string
	pool                []string          // what a bare number is served from
	all                 []string          // what may be named, where there is an ancestor
	parts               []gpu.Part        // what parts may be taken of, where there is one
	taken               map[string]string // device to the other container that holds it whole
	parted              map[string]string // device to one that holds a part
}

func (l *Ledger) source(container string) source {
	s := source{container: container, pool: l.pool, taken: map[string]string{}, parted: map[string]string{}}
	if nested(container) {
		s.ancestor = l.lender(container)
		h := l.held[s.ancestor]
		s.pool, s.all, s.parts = h.Stock, h.whole(), h.Parts
	}
	for id, h := range l.held {
		if id == container || h.Inherits || Within(id, container) || Within(container, id) {
			continue
		}
		note(s.taken, h.whole(), id)
		note(s.parted, partsOf(h.Parts), id)
	}
	return s
}

// note enters a holder of devices, of several the outermost, and of those the
// first by name.
func note(holders map[string]string, devices []string, id string) {
	for _, d := range devices {
		other := holders[d]
		if other == "" || depth(id) < depth(other) || depth(id) == depth(other) && id < other {
			holders[d] = id
		}
	}
}

// lender is the nearest ancestor with a holding of its own, or the outermost
// where none is in the books.
func (l *Ledger) lender(container string) string {
	for id := Parent(container); ; id = Parent(id) {
		h, ok := l.held[id]
		if ok && !h.Inherits || !nested(id) {
			return id
		}
	}
}

func (l *Ledger) checkNamed(s source, named []string, now Holding) error {
	for _, d := range named {
		if err := s.checkWhole(d, "names"); err != nil {
			return err
		}
		if _, shared := l.shared(d); shared && s.ancestor == "" && !slices.Contains(now.whole(), d) {
			return refuse("container %s names device %s, which is shared: take a part of it, or unshare it", s.container, d)
		}
		if s.ancestor == "" && slices.Contains(s.pool, d) && !slices.Contains(now.Devices(), d) {
			return refuse("container %s names device %s, one of the %d set aside for a bare number of gpus: take it from --stock, or do not name it",
				s.container, d, len(s.pool))
		}
	}
	return nil
}

// checkWhole is check for a device that nobody else may open.
func (s source) checkWhole(device, does string) error {
	if err := s.check(device, does); err != nil {
		return err
	}
	if holder := s.parted[device]; holder != "" {
		return refuse("container %s %s device %s, which container %s holds a part of", s.container, does, device, holder)
	}
	if s.ancestor != "" && !slices.Contains(s.all, device) {
		return refuse("container %s %s device %s, which is not among the %d of container %s", s.container, does, device, len(s.all), s.ancestor)
	}
	return nil
}

// check refuses a device that another container holds whole.
func (s source) check(device, does string) error {
	if holder := s.taken[device]; holder != "" {
		return refuse("container %s %s device %s, which container %s holds", s.container, does, device, holder)
	}
	return nil
}

// take grants n more devices of the pool, first ones first; own are those
// that the container has anyway.
func (s source) take(n int, own []string, usable Usable) ([]string, error) {
	if n <= 0 {
		return nil, nil
	}
	free, unusable := s.free(own, usable)
	if len(free) >= n {
		return free[:n], nil
	}
	if s.ancestor != "" {
		return nil, refuse("container %s wants %d more GPUs without names, container %s has %d free of %d",
			s.container, n, s.ancestor, len(free), len(s.pool))
	}
	return nil, refuse("container %s wants %d more GPUs without names, and of the %d set aside for that %d are free and %d more unhealthy or cordoned: "+
		"set more aside with --stock, or name devices by gpu_ids", s.container, n, len(s.pool), len(free), unusable)
}

func (s source) free(own []string, usable Usable) (free []string, unusable int) {
	for _, d := range s.pool {
		switch {
		case s.taken[d] != "" || s.parted[d] != "" || slices.Contains(own, d):
		case usable != nil && !usable(d):
			unusable++
		default:
			free = append(free, d)
		}
	}
	return free, unusable
}

// giveBack leaves n of the stock devices.
func (l *Ledger) giveBack(container string, stock []string, n int) []string {
	lent := map[string]bool{}
	for id, h := range l.held {
		if Within(id, container) {
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

// narrow takes from the containers nested in one what it no longer holds, of
// several that have parts of one device from the last ones.
func (l *Ledger) narrow(h Holding) []Holding {
	var changed []Holding
	all := h.whole()
	left := map[string][]gpu.Part{h.Container: slices.Clone(h.Parts)}
	for _, n := range l.Under(h.Container) {
		if n.Inherits {
			continue
		}
		less := n
		less.Named, less.Stock = within(n.Named, all), within(n.Stock, all)
		less.Parts = take(left[nearest(n.Container, left)], n.Parts)
		left[n.Container] = slices.Clone(less.Parts)
		if len(less.Devices()) < len(n.Devices()) || !slices.Equal(less.Parts, n.Parts) {
			changed = append(changed, less)
		}
	}
	return changed
}

// nearest is the nearest ancestor that is among those.
func nearest(container string, among map[string][]gpu.Part) string {
	id := Parent(container)
	for ; id != ""; id = Parent(id) {
		if _, ok := among[id]; ok {
			break
		}
	}
	return id
}

func without(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(d string) bool { return slices.Contains(other, d) })
}

func within(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(d string) bool { return !slices.Contains(other, d) })
}

// Same reports whether two lists name the same devices.
func Same(a, b []string) bool { return len(without(a, b)) == 0 && len(without(b, a)) == 0 }
