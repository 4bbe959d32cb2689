package containers

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"mesos-gpu/isolator/ledger"
	"mesos-gpu/isolator/rules"
	"mesos-gpu/isolator/share"
)

// Prepare claims devices for a container and tells what it is launched with.
// Prepared again with the same resources it gets the same. The error is a
// *ledger.Refusal or *Invalid where the launch is at fault.
func (c *Containers) Prepare(ctx context.Context, l Launch) (Setup, error) {
	if err := CheckID(l.Container); err != nil {
		return Setup{}, err
	}
	want, err := ledger.Read(l.Resources)
	if err != nil {
		return Setup{}, fmt.Errorf("prepare container %s: %w", l.Container, err)
	}
	// The driver's files come before the claim: what fails claims nothing. They
	// may take their time, and others wait for the container's turn.
	mounts, err := c.mounts(ctx, l, !want.Empty() || c.inheritsAny(l.Container))
	if err != nil {
		return Setup{}, fmt.Errorf("prepare container %s: %w", l.Container, err)
	}
	defer c.enter(l.Container)()
	claimed, err := c.claim(ctx, l, want)
	if err != nil {
		return Setup{}, fmt.Errorf("prepare container %s: %w", l.Container, err)
	}
	env := environment(claimed.devices, mounts, l.Image.Environment)
	maps.Copy(env, claimed.limit.Environment)
	return Setup{Devices: listed(claimed.devices), Nodes: named(claimed.nodes), Mounts: append(mounts, claimed.limit.Mounts...), Environment: env}, nil
}

// claimed is what a container was granted.
type claimed struct {
	devices []string
	nodes   []rules.Node
	limit   share.Setup
}

func (c *Containers) inheritsAny(container string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.books.Devices(ledger.Parent(container))) > 0
}

// claim enters the container in the books and its file.
func (c *Containers) claim(ctx context.Context, l Launch, want ledger.Want) (got claimed, err error) {
	var change change
	for again := true; ; again = false {
		change, got.devices, err = c.enterClaim(l, want)
		if refused := (*ledger.Refusal)(nil); !again || !errors.As(err, &refused) {
			break
		}
		// What is in the way may be a container whose end nobody told.
		if err := c.sweep(); err != nil {
			return claimed{}, err
		}
	}
	if err != nil {
		return claimed{}, err
	}
	got.devices = c.present(got.devices)
	if err = c.fits(l, got.devices); err == nil {
		got.nodes, err = c.cfg.Kernel.Nodes(got.devices)
	}
	if err == nil {
		got.limit, err = c.limit(ctx, l, change.after)
	}
	if err == nil {
		err = c.save(change.after...)
	}
	if err != nil {
		c.undo(change)
		return claimed{}, err
	}
	c.settle(change.after)
	return got, nil
}

// limit has a container that has those holdings, or else is in the books, held
// to its parts. One without a file system of its own gets no mounts: an
// executor does not need them, and sees to its task's; a task that does is
// refused.
func (c *Containers) limit(ctx context.Context, l Launch, after []ledger.Holding) (share.Setup, error) {
	c.mu.Lock()
	owner, parts := c.books.Parts(l.Container)
	c.mu.Unlock()
	if len(after) > 0 && !after[0].Inherits {
		parts = after[0].Parts
	}
	setup, err := c.admit(ctx, owner, parts)
	if err != nil || l.Rootfs {
		return setup, err
	}
	if setup.OwnRootfs && (l.Task != "" || ledger.Parent(l.Container) != "") {
		return share.Setup{}, &ledger.Refusal{Why: fmt.Sprintf("it has part of a GPU and no image, and %s holds processes only in a file system of their own: give the task an image, or run this agent with another --share-limit", c.cfg.Limiter.Method())}
	}
	setup.Mounts = nil
	return setup, nil
}

// change is what holdings and facts were and are; a container that is new has
// no holding before.
type change struct {
	container     string
	before, after []ledger.Holding
	facts         facts
}

// undo takes a change of the books back.
func (c *Containers) undo(ch change) {
	if len(ch.before) == 0 {
		c.dismiss([]string{ch.container})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(ch.before) == 0 {
		c.books.Release(ch.container)
		delete(c.facts, ch.container)
		return
	}
	c.books.Set(ch.before...)
	c.facts[ch.container] = ch.facts
}

func (c *Containers) enterClaim(l Launch, want ledger.Want) (ch change, devices []string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := l.Container
	now, known := c.books.Get(id)
	ch = change{container: id, facts: c.facts[id]}
	f := facts{Framework: l.Framework, Executor: l.Executor, Task: l.Task, Job: l.Job, Isolated: ch.facts.Isolated}
	same := known && (now.Meets(want) || now.Inherits && want.Empty())
	if known && !same && (f.Isolated || len(c.books.Under(id)) > 0) {
		return ch, nil, &ledger.Refusal{Why: fmt.Sprintf("it runs already, with %d GPUs and not the %d asked for: update it instead",
			len(now.Devices()), want.Count())}
	}
	if ch.after, err = c.books.Assign(id, want, c.cfg.Usable); err != nil {
		return ch, nil, err
	}
	ch.before = c.current(ch.after)
	if !f.Isolated { // one that runs goes on without what the host has lost
		if _, err := c.cfg.Kernel.Nodes(ch.after[0].Devices()); err != nil {
			return ch, nil, &ledger.Refusal{Why: err.Error()}
		}
	}
	c.books.Set(ch.after...)
	devices = c.books.Devices(id)
	c.books.Set(both(ch.before, ch.after)...) // until its file is written
	if same && f == ch.facts {
		ch.after = nil // nothing to write
	}
	c.facts[id] = f
	return ch, devices, nil
}

// current is what the books have of the containers of those holdings. The
// caller holds mu.
func (c *Containers) current(holdings []ledger.Holding) []ledger.Holding {
	var now []ledger.Holding
	for _, h := range holdings {
		if n, ok := c.books.Get(h.Container); ok {
			now = append(now, n)
		}
	}
	return now
}
