package containers

import (
	"context"
	"fmt"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/ledger"
	"mesos-gpu/isolator/share"
)

// dismissTime bounds what a limiter may take to forget a container.
const dismissTime = 10 * time.Second

// Parts are those that the container has, its own or its ancestor's. The error
// is *Unknown for one that is not known.
func (c *Containers) Parts(container string) ([]gpu.Part, error) {
	if err := CheckID(container); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.knows(container) {
		return nil, &Unknown{container}
	}
	_, parts := c.books.Parts(container)
	return parts, nil
}

// Share is what the processes of a container need so that they are held to its
// parts; the zero Setup where it has none. The error is *Unknown for a
// container that is not known, and else says why no limit can be had.
func (c *Containers) Share(ctx context.Context, container string) (Share, error) {
	if err := CheckID(container); err != nil {
		return Share{}, err
	}
	defer c.enter(container)()
	c.mu.Lock()
	known := c.knows(container)
	owner, parts := c.books.Parts(container)
	c.mu.Unlock()
	if !known {
		return Share{}, &Unknown{container}
	}
	setup, err := c.admit(ctx, owner, parts)
	return ShareOf(c.cfg.Limiter.Method(), parts, setup), err
}

// ShareOf puts together how a container's parts are held.
func ShareOf(m gpu.Method, parts []gpu.Part, s share.Setup) Share {
	answer := Share{Method: m, Parts: parts, Mounts: s.Mounts, Environment: s.Environment}
	if answer.Parts == nil {
		answer.Parts = []gpu.Part{}
	}
	if answer.Mounts == nil {
		answer.Mounts = []Mount{}
	}
	if answer.Environment == nil {
		answer.Environment = map[string]string{}
	}
	if m == gpu.NotHeld && len(parts) > 0 {
		answer.Warning = share.Unlimited
	}
	return answer
}

// Uses tells in which form containers hold devices.
func (c *Containers) Uses() map[string]share.Use {
	c.mu.Lock()
	defer c.mu.Unlock()
	uses := map[string]share.Use{}
	for _, h := range c.books.All() {
		for _, d := range append(h.Named, h.Stock...) {
			uses[d] = share.Use{Whole: true, Part: uses[d].Part}
		}
		for _, p := range h.Parts {
			uses[p.UUID] = share.Use{Whole: uses[p.UUID].Whole, Part: true}
		}
	}
	return uses
}

// admit has those parts of a container held to.
func (c *Containers) admit(ctx context.Context, container string, parts []gpu.Part) (share.Setup, error) {
	if len(parts) == 0 {
		return share.Setup{}, nil
	}
	for _, p := range parts {
		if p.MemMiB == 0 {
			return share.Setup{}, &ledger.Refusal{Why: fmt.Sprintf("how much container %s has of device %s is not known: it was found again from its cgroup, and holds its part until it ends", container, p.UUID)}
		}
	}
	return share.Hold(ctx, c.cfg.Limiter, c.cfg.Log, container, parts)
}

// admitAgain has the containers of an earlier daemon held to their parts
// still. One for which that fails runs on: ending it helps nobody.
func (c *Containers) admitAgain() {
	for _, h := range c.books.All() {
		if _, err := c.admit(context.Background(), h.Container, h.Parts); err != nil {
			c.cfg.Log.WithError(err).WithField("container", h.Container).Error("container runs on and may not be held to its part")
		}
	}
}

// readmit changes what a running container is held to. One whose parts are all
// gone is dismissed once its devices are closed to it.
func (c *Containers) readmit(container string, parts []gpu.Part) error {
	ctx, cancel := context.WithTimeout(context.Background(), dismissTime)
	defer cancel()
	_, err := c.admit(ctx, container, parts)
	return err
}

// dismiss has the limiter forget containers. What it cannot let go of is no
// reason to keep their devices.
func (c *Containers) dismiss(ids []string) {
	ctx, cancel := context.WithTimeout(context.Background(), dismissTime)
	defer cancel()
	for _, id := range ids {
		if err := c.cfg.Limiter.Release(ctx, id); err != nil {
			c.cfg.Log.WithError(err).WithField("container", id).Warn("limit of a container that is gone stays behind")
		}
	}
}
