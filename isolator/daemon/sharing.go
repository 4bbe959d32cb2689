package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/holders"
	"mesos-gpu/isolator/share"
)

// sharing is which devices are shared, and what holds tasks to their parts.
type sharing struct {
	*share.Forms
	limiter share.Limiter
	devices []gpu.Device
}

// Set is share.Forms.Set, for devices that the limiter can hold tasks to parts
// of.
func (s sharing) Set(uuid string, shared bool) error {
	for _, d := range s.devices {
		if !shared || d.UUID != uuid && (d.MIG == nil || d.MIG.Parent != uuid) {
			continue
		}
		if err := s.limiter.Check(context.Background(), d); err != nil {
			return fmt.Errorf("share device %s: %w by %s: %w", uuid, share.ErrUnheld, s.limiter.Method(), err)
		}
	}
	return s.Forms.Set(uuid, shared)
}

// share reads the configuration's side of it. What was kept is read too.
func (d *Daemon) share(ctx context.Context, named gpu.Host, books func() map[string]share.Use) (sharing, error) {
	forms, err := share.Open(share.Config{
		Host: named, List: d.cfg.Share, Scaling: d.cfg.Scaling, StateDir: d.cfg.StateDir, Live: d.cfg.Provider, Books: books, Log: d.cfg.Log,
	})
	if err != nil {
		return sharing{}, err
	}
	limiter, err := Limiter(ctx, d.cfg.ShareLimit, d.cfg.Limiters, named.Devices, func(uuid string) bool {
		_, shared := forms.Shared(uuid)
		return shared
	})
	if err != nil {
		return sharing{}, err
	}
	if parts := forms.All(); len(parts) > 0 {
		d.cfg.Log.WithFields(logrus.Fields{"gpus": len(parts), "limit": limiter.Method()}).Info("GPUs are shared")
		if limiter.Method() == gpu.NotHeld {
			d.cfg.Log.Warn("GPUs are shared and nothing holds tasks to their parts (--share-limit none): each can take all of a GPU's memory and time")
		}
	}
	return sharing{Forms: forms, limiter: limiter, devices: named.Devices}, nil
}

// Limiter chooses what holds tasks to their parts of the devices that are
// shared, or of any where none is yet.
func Limiter(ctx context.Context, method string, limiters []share.Limiter, all []gpu.Device, shared func(uuid string) bool) (share.Limiter, error) {
	devices := slices.DeleteFunc(slices.Clone(all), func(d gpu.Device) bool { return !shared(d.UUID) })
	if len(devices) == 0 {
		devices = all
	}
	if method == "" {
		method = share.Auto
	}
	return share.Choose(ctx, method, append(limiters, share.None{}), devices)
}

// guests are the containers with parts of devices that the books do not know,
// since no module tells of them: those of which the Mesos agent does.
type guests struct {
	limiter share.Limiter
	agent   *holders.Agent
	booked  func(container string) bool
	log     logrus.FieldLogger

	mu       sync.Mutex
	admitted map[string]guest
}

type guest struct {
	parts []gpu.Part
	since time.Time
}

func newGuests(admitted map[string]guest, l share.Limiter, agent *holders.Agent, booked func(string) bool, log logrus.FieldLogger) *guests {
	return &guests{limiter: l, agent: agent, booked: booked, log: log, admitted: admitted}
}

// Share is as of containers.Containers: for a container that is not known the
// agent is asked.
func (g *guests) Share(ctx context.Context, container string) (containers.Share, error) {
	if err := g.agent.Refresh(ctx); err != nil {
		return containers.Share{}, fmt.Errorf("learn what container %s holds: %w", container, err)
	}
	all, asked := g.agent.Parts()
	parts, ok := all[container]
	if !ok {
		return containers.Share{}, &containers.Unknown{Container: container}
	}
	setup, err := g.admit(ctx, container, parts, asked)
	return containers.ShareOf(g.limiter.Method(), parts, setup), err
}

func (g *guests) admit(ctx context.Context, container string, parts []gpu.Part, asked time.Time) (share.Setup, error) {
	setup, err := share.Hold(ctx, g.limiter, g.log, container, parts)
	if err != nil {
		return setup, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.admitted[container] = guest{parts, asked}
	return setup, nil
}

// guestsEvery is how often containers are looked at that nobody tells of.
const guestsEvery = 10 * time.Second

// run finds the containers of an earlier daemon again, before another's end
// could end what holds them, and releases those that have ended.
func (g *guests) run(ctx context.Context) error {
	if err := g.agent.Refresh(ctx); err == nil { // else the agent is asked again soon, and that is logged
		g.settle(ctx)
	}
	tick := time.NewTicker(guestsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			g.settle(ctx)
		}
	}
}

func (g *guests) settle(ctx context.Context) {
	told, asked := g.agent.Parts()
	g.mu.Lock()
	admitted := maps.Clone(g.admitted)
	g.mu.Unlock()
	for id, parts := range told {
		if _, known := admitted[id]; known || g.booked(id) {
			continue
		}
		if _, err := g.admit(ctx, id, parts, asked); err != nil {
			g.log.WithError(err).WithField("container", id).Error("container runs and may not be held to its part")
		}
	}
	for id, was := range admitted {
		if _, alive := told[id]; alive || !asked.After(was.since) {
			continue
		}
		if err := g.limiter.Release(ctx, id); err != nil {
			g.log.WithError(err).WithField("container", id).Warn("limit of a container that is gone stays behind")
			continue
		}
		g.mu.Lock()
		delete(g.admitted, id)
		g.mu.Unlock()
	}
}

// holders are the guests, each with its parts.
func (g *guests) holders() []gpu.Holder {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []gpu.Holder
	for id, guest := range g.admitted {
		h := gpu.Holder{Container: id, Devices: []string{}, Parts: guest.parts}
		for _, p := range guest.parts {
			h.Devices = append(h.Devices, p.UUID)
		}
		list = append(list, h)
	}
	return list
}

// Share implements socket.Containers: those in the books, and else guests.
func (b books) Share(ctx context.Context, container string) (containers.Share, error) {
	s, err := b.Containers.Share(ctx, container)
	if unknown := (*containers.Unknown)(nil); errors.As(err, &unknown) {
		return b.guests.Share(ctx, container)
	}
	return s, err
}

// Holders implements socket.Containers.
func (b books) Holders() []gpu.Holder {
	return append(b.Containers.Holders(), b.guests.holders()...)
}

// knows tells whether the books have a container.
func (b books) knows(container string) bool {
	_, err := b.Containers.Devices(container)
	return err == nil
}
