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
	"mesos-gpu/isolator/mesosagent"
	"mesos-gpu/isolator/share"
)

// deviceSharing is which devices are shared, and what holds tasks to their parts.
type deviceSharing struct {
	*share.ModeStore
	limiter share.Limiter
	devices []gpu.Device
}

// Set is share.ModeStore.Set, for devices that the limiter can hold tasks to parts
// of.
func (s deviceSharing) Set(uuid string, shared bool) error {
	for _, d := range s.devices {
		if !shared || d.UUID != uuid && (d.MIG == nil || d.MIG.Parent != uuid) {
			continue
		}
		if err := s.limiter.CheckDevice(context.Background(), d); err != nil {
			return fmt.Errorf("share device %s: %w by %s: %w", uuid, share.ErrNoLimiter, s.limiter.Method(), err)
		}
	}
	return s.ModeStore.RequestMode(uuid, shared)
}

// openSharing reads the configuration's side of it. What was kept is read too.
func (d *Daemon) openSharing(ctx context.Context, named gpu.Host, books func() map[string]share.DeviceUse) (deviceSharing, error) {
	forms, err := share.OpenModes(share.ModeConfig{
		Host: named, List: d.cfg.SharedDevices, Scaling: d.cfg.Scaling, StateDir: d.cfg.StateDir, Live: d.cfg.Provider, ContainerUse: books, Log: d.cfg.Log,
	})
	if err != nil {
		return deviceSharing{}, err
	}
	limiter, err := ChooseLimiter(ctx, d.cfg.ShareLimit, d.cfg.Limiters, named.Devices, func(uuid string) bool {
		_, shared := forms.SharedCapacity(uuid)
		return shared
	})
	if err != nil {
		return deviceSharing{}, err
	}
	if parts := forms.AllShared(); len(parts) > 0 {
		d.cfg.Log.WithFields(logrus.Fields{"gpus": len(parts), "limit": limiter.Method()}).Info("GPUs are shared")
		if limiter.Method() == gpu.NotEnforced {
			d.cfg.Log.Warn("GPUs are shared and nothing holds tasks to their parts (--share-limit none): each can take all of a GPU's memory and time")
		}
	}
	return deviceSharing{ModeStore: forms, limiter: limiter, devices: named.Devices}, nil
}

// ChooseLimiter chooses what holds tasks to their parts of the devices that are
// shared, or of any where none is yet.
func ChooseLimiter(ctx context.Context, method string, limiters []share.Limiter, all []gpu.Device, shared func(uuid string) bool) (share.Limiter, error) {
	devices := slices.DeleteFunc(slices.Clone(all), func(d gpu.Device) bool { return !shared(d.UUID) })
	if len(devices) == 0 {
		devices = all
	}
	if method == "" {
		method = share.AutoMethod
	}
	return share.ChooseLimiter(ctx, method, append(limiters, share.NoLimiter{}), devices)
}

// discoveredContainers are the containers with parts of devices that the books do not know,
// since no module tells of them: those of which the Mesos agent does.
type discoveredContainers struct {
	limiter   share.Limiter
	agent     *mesosagent.AgentClient
	isManaged func(container string) bool
	log       logrus.FieldLogger

	mu       sync.Mutex
	admitted map[string]discoveredContainer
}

type discoveredContainer struct {
	shares []gpu.DeviceShare
	seenAt time.Time
}

func newDiscoveredContainers(admitted map[string]discoveredContainer, l share.Limiter, agent *mesosagent.AgentClient, booked func(string) bool, log logrus.FieldLogger) *discoveredContainers {
	return &discoveredContainers{limiter: l, agent: agent, isManaged: booked, log: log, admitted: admitted}
}

// Share is as of containers.Manager: for a container that is not known the
// agent is asked.
func (g *discoveredContainers) Share(ctx context.Context, container string) (containers.ContainerShare, error) {
	if err := g.agent.RefreshState(ctx); err != nil {
		return containers.ContainerShare{}, fmt.Errorf("learn what container %s holds: %w", container, err)
	}
	all, asked := g.agent.DeviceShares()
	parts, ok := all[container]
	if !ok {
		return containers.ContainerShare{}, &containers.UnknownContainerError{Container: container}
	}
	setup, err := g.admitShares(ctx, container, parts, asked)
	return containers.NewContainerShare(g.limiter.Method(), parts, setup), err
}

func (g *discoveredContainers) admitShares(ctx context.Context, container string, parts []gpu.DeviceShare, asked time.Time) (share.LimitSetup, error) {
	setup, err := share.LimitContainer(ctx, g.limiter, g.log, container, parts)
	if err != nil {
		return setup, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.admitted[container] = discoveredContainer{parts, asked}
	return setup, nil
}

// discoveryInterval is how often containers are looked at that nobody tells of.
const discoveryInterval = 10 * time.Second

// runDiscovery finds the containers of an earlier daemon again, before another's end
// could end what holds them, and releases those that have ended.
func (g *discoveredContainers) runDiscovery(ctx context.Context) error {
	if err := g.agent.RefreshState(ctx); err == nil { // else the agent is asked again soon, and that is logged
		g.reconcileAdmitted(ctx)
	}
	tick := time.NewTicker(discoveryInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			g.reconcileAdmitted(ctx)
		}
	}
}

func (g *discoveredContainers) reconcileAdmitted(ctx context.Context) {
	told, asked := g.agent.DeviceShares()
	g.mu.Lock()
	admitted := maps.Clone(g.admitted)
	g.mu.Unlock()
	for id, parts := range told {
		if _, known := admitted[id]; known || g.isManaged(id) {
			continue
		}
		if _, err := g.admitShares(ctx, id, parts, asked); err != nil {
			g.log.WithError(err).WithField("container", id).Error("container runs and may not be held to its part")
		}
	}
	for id, was := range admitted {
		if _, alive := told[id]; alive || !asked.After(was.seenAt) {
			continue
		}
		if err := g.limiter.ReleaseContainer(ctx, id); err != nil {
			g.log.WithError(err).WithField("container", id).Warn("limit of a container that is gone stays behind")
			continue
		}
		g.mu.Lock()
		delete(g.admitted, id)
		g.mu.Unlock()
	}
}

// listHolders are the guests, each with its parts.
func (g *discoveredContainers) listHolders() []gpu.ContainerDevices {
	g.mu.Lock()
	defer g.mu.Unlock()
	var list []gpu.ContainerDevices
	for id, guest := range g.admitted {
		h := gpu.ContainerDevices{Container: id, Devices: []string{}, Shares: guest.shares}
		for _, p := range guest.shares {
			h.Devices = append(h.Devices, p.UUID)
		}
		list = append(list, h)
	}
	return list
}

// Share implements socket.ContainerManager: those in the books, and else guests.
func (b managedContainers) Share(ctx context.Context, container string) (containers.ContainerShare, error) {
	s, err := b.Manager.Share(ctx, container)
	if unknown := (*containers.UnknownContainerError)(nil); errors.As(err, &unknown) {
		return b.discovered.Share(ctx, container)
	}
	return s, err
}

// Holders implements socket.ContainerManager.
func (b managedContainers) Holders() []gpu.ContainerDevices {
	return append(b.Manager.Holders(), b.discovered.listHolders()...)
}

// isKnown tells whether the books have a container.
func (b managedContainers) isKnown(container string) bool {
	_, err := b.Manager.Devices(container)
	return err == nil
}
