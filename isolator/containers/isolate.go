package containers

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/ledger"
)

// Isolate confines a prepared container's cgroup and moves its first process
// there. A nested container that has no cgroup of its own shares its
// parent's: nothing is to do. The error is *Unknown for a container that was
// not prepared.
func (c *Containers) Isolate(container string, pid int) error {
	if err := CheckID(container); err != nil {
		return err
	}
	if pid <= 0 {
		return &Invalid{fmt.Sprintf("isolate container %s: process %d is none, want a number above 0", container, pid)}
	}
	defer c.enter(container)()
	c.mu.Lock()
	h, known := c.books.Get(container)
	devices := c.books.Devices(container)
	owner, parts := c.books.Parts(container)
	way := append(c.above(container), confinement{cgroup: c.cgroup(container), devices: devices})
	c.mu.Unlock()
	if !known {
		return &Unknown{container}
	}
	group := c.cgroup(container)
	if h.Inherits {
		if _, err := c.cfg.Kernel.Rules(group); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	if err := c.markIsolated(h); err != nil {
		return fmt.Errorf("isolate container %s: %w", container, err)
	}
	if err := c.confine(way); err != nil {
		return fmt.Errorf("isolate container %s: %w", container, err)
	}
	if err := c.cfg.Kernel.Enter(group, pid); err != nil {
		return fmt.Errorf("isolate container %s: %w", container, err)
	}
	if c.cfg.Limiter.Method() != gpu.HeldByDriver {
		return nil
	}
	// What the driver limits is the cgroup, which was not there before.
	if err := c.readmit(owner, parts); err != nil {
		return fmt.Errorf("isolate container %s: %w", container, err)
	}
	return nil
}

// markIsolated comes before the kernel lets the container open anything: what
// is open is closed again only for one that is marked.
func (c *Containers) markIsolated(h ledger.Holding) error {
	c.mu.Lock()
	f := c.facts[h.Container]
	c.mu.Unlock()
	if f.Isolated {
		return nil
	}
	f.Isolated = true
	if err := c.files.write(entry{Holding: h, Facts: f}); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.facts[h.Container] = f
	return nil
}

// Update makes the container's devices those of its new resources, and
// returns them. Where that cannot be done it keeps what it had. The error is
// *Unknown, *Invalid or *ledger.Refusal where the call is at fault.
func (c *Containers) Update(container string, resources []ledger.Resource) ([]string, error) {
	if err := CheckID(container); err != nil {
		return nil, err
	}
	want, err := ledger.Read(resources)
	if err != nil {
		return nil, fmt.Errorf("update container %s: %w", container, err)
	}
	defer c.enter(container)()
	if err := c.findAgain(container, true); err != nil {
		return nil, fmt.Errorf("update container %s: %w", container, err)
	}
	c.mu.Lock()
	_, booked := c.books.Get(container)
	known, devices := c.knows(container), c.books.Devices(container)
	c.mu.Unlock()
	switch {
	case !booked && want.Empty():
		return listed(devices), nil
	case !known:
		return nil, &Unknown{container}
	}
	if err := c.regrant(container, want); err != nil {
		return nil, fmt.Errorf("update container %s: %w", container, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return listed(c.books.Devices(container)), nil
}

// listed is a list for JSON: empty rather than absent.
func listed(devices []string) []string {
	if devices == nil {
		return []string{}
	}
	return devices
}

// regrant claims what is new, has the kernel allow just what is wanted, and
// then gives back what is no longer. Wherever that stops, the books hold all
// that the kernel allows or a file claims: made again, the call goes on there.
func (c *Containers) regrant(container string, want ledger.Want) error {
	u, err := c.plan(container, want)
	if refused := (*ledger.Refusal)(nil); errors.As(err, &refused) {
		if err := c.sweep(); err != nil {
			return err
		}
		u, err = c.plan(container, want)
	}
	if err != nil {
		return err
	}
	if !u.changes() {
		return nil
	}
	// Nested ones lose devices only: their files claim enough.
	if err := c.readmit(container, u.after[0].Parts); err != nil {
		c.settle(u.before)
		return err
	}
	if err := c.save(u.claimed[0]); err != nil {
		c.settle(u.before)
		return errors.Join(err, c.readmit(container, u.before[0].Parts))
	}
	if err := c.confine(u.to); err != nil {
		if back := c.confine(u.from); back != nil {
			return errors.Join(err, back)
		}
		return errors.Join(err, c.conclude(u.before), c.readmit(container, u.before[0].Parts))
	}
	if len(u.after[0].Parts) == 0 && len(u.before[0].Parts) > 0 {
		c.dismiss([]string{container})
	}
	return c.conclude(u.after)
}

// conclude has the books claim no less than the files do.
func (c *Containers) conclude(holdings []ledger.Holding) error {
	if err := c.save(holdings...); err != nil {
		return err
	}
	c.settle(holdings)
	return nil
}

// update is one container's way, with those nested in it, from what they hold
// to what they will.
type update struct {
	before, claimed, after []ledger.Holding
	from, to               []confinement
}

// confinement is what the kernel is to allow a cgroup.
type confinement struct {
	cgroup  string
	devices []string
	// between marks a cgroup that no container has to itself: one above a
	// nested container's. In version 1 it begins with what its parent could
	// and does not grow with it.
	between bool
}

func (u update) changes() bool {
	return !slices.EqualFunc(u.before, u.after, func(a, b ledger.Holding) bool {
		return slices.Equal(a.Named, b.Named) && slices.Equal(a.Stock, b.Stock) && slices.Equal(a.Parts, b.Parts)
	})
}

// plan leaves the books with what is held before and after together, so that
// nobody else is given any of it.
func (c *Containers) plan(container string, want ledger.Want) (update, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	after, err := c.books.Assign(container, want, c.cfg.Usable)
	if err != nil {
		return update{}, err
	}
	u := update{after: after, before: c.current(after), from: c.confinements(container)}
	if len(u.before) < len(after) { // one that shares an ancestor's cgroup, past Prepare
		u.before = slices.Insert(u.before, 0, ledger.Holding{Container: container, Inherits: true})
	}
	c.books.Set(u.after...)
	u.to = c.confinements(container)
	isNew := slices.DeleteFunc(u.after[0].Devices(), func(d string) bool { return slices.Contains(u.before[0].Devices(), d) })
	if _, err := c.cfg.Kernel.Nodes(isNew); err != nil {
		c.books.Set(u.before...)
		return update{}, &ledger.Refusal{Why: err.Error()}
	}
	u.claimed = both(u.before, u.after)
	c.books.Set(u.claimed...)
	return u, nil
}

// both are the holdings after, each with what it held before.
func both(before, after []ledger.Holding) []ledger.Holding {
	all := slices.Clone(after)
	for i, h := range all {
		if j := slices.IndexFunc(before, func(b ledger.Holding) bool { return b.Container == h.Container }); j >= 0 {
			all[i] = union(before[j], h)
		}
	}
	return all
}

// union holds all that either does.
func union(a, b ledger.Holding) ledger.Holding {
	u := b
	u.Named, u.Stock, u.Parts = slices.Clone(b.Named), slices.Clone(b.Stock), ledger.Union(a.Parts, b.Parts)
	for _, d := range a.Named {
		if !slices.Contains(u.Devices(), d) {
			u.Named = append(u.Named, d)
		}
	}
	for _, d := range a.Stock {
		if !slices.Contains(u.Devices(), d) {
			u.Stock = append(u.Stock, d)
		}
	}
	return u
}

// confinements are those of the container and of the containers nested in it
// that have cgroups of their own, parents first. The caller holds mu.
func (c *Containers) confinements(container string) []confinement {
	ids := []string{container}
	for _, h := range c.books.Under(container) {
		ids = append(ids, h.Container)
	}
	var list []confinement
	for _, id := range ids {
		if c.facts[id].Isolated {
			list = append(list, c.above(id)...)
			list = append(list, confinement{cgroup: c.cgroup(id), devices: c.books.Devices(id)})
		}
	}
	return list
}

// above are the cgroups between the outermost container's and a nested one's,
// outermost first. The caller holds mu.
func (c *Containers) above(container string) []confinement {
	var list []confinement
	for i, r := range container {
		if r != '.' {
			continue
		}
		ancestor := container[:i]
		devices := c.books.Devices(ancestor)
		if ledger.Parent(ancestor) != "" && !c.facts[ancestor].Isolated {
			list = append(list, confinement{c.cgroup(ancestor), devices, true})
		}
		list = append(list, confinement{path.Join(c.cgroup(ancestor), separator), devices, true})
	}
	return list
}

func (c *Containers) confine(list []confinement) error {
	for _, step := range list {
		devices := c.present(step.devices)
		if step.between {
			held, err := c.cfg.Kernel.Holding(step.cgroup)
			if err != nil || ledger.Same(held, devices) {
				continue // it is still to be made, or is as it should
			}
		}
		if err := c.cfg.Kernel.Confine(step.cgroup, devices); err != nil {
			return err
		}
	}
	return nil
}

func (c *Containers) settle(holdings []ledger.Holding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.books.Set(holdings...)
}
