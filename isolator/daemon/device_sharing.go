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

// deviceSharing combines which devices are shared with the limiter that enforces shares.
type deviceSharing struct {
	*share.ModeStore
	limiter share.Limiter
	devices []gpu.Device
}

// Set changes whether a device is shared. It fails if the limiter cannot enforce shares of the
// device.
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

// openSharing reads which devices are shared, from the configuration and from the saved
// changes.
func (d *Daemon) openSharing(ctx context.Context, named gpu.Host, containerUse func() map[string]share.DeviceUse) (deviceSharing, error) {
	modes, err := share.OpenModes(share.ModeConfig{
		Host: named, List: d.cfg.SharedDevices, Scaling: d.cfg.Scaling, StateDir: d.cfg.StateDir, Live: d.cfg.Provider, ContainerUse: containerUse, Log: d.cfg.Log,
	})
	if err != nil {
		return deviceSharing{}, err
	}
	limiter, err := ChooseLimiter(ctx, d.cfg.ShareLimit, d.cfg.Limiters, named.Devices, func(uuid string) bool {
		_, shared := modes.SharedCapacity(uuid)
		return shared
	})
	if err != nil {
		return deviceSharing{}, err
	}
	if shares := modes.AllShared(); len(shares) > 0 {
		d.cfg.Log.WithFields(logrus.Fields{"gpus": len(shares), "limit": limiter.Method()}).Info("GPUs are shared")
		if limiter.Method() == gpu.NotEnforced {
			d.cfg.Log.Warn("GPUs are shared and no limits are enforced (--share-limit none): a task can use all of a GPU's memory and time")
		}
	}
	return deviceSharing{ModeStore: modes, limiter: share.ExemptWholeDevices(limiter, modes.SharedCapacity), devices: named.Devices}, nil
}

// ChooseLimiter chooses the limiter for the devices that are shared, or for all devices if none
// is shared yet.
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

// discoveredContainers are containers with shares of devices that no module reported. They are
// found through the Mesos agent's API.
type discoveredContainers struct {
	limiter   share.Limiter
	agent     *mesosagent.AgentClient
	isManaged func(container string) bool
	log       logrus.FieldLogger

	mu sync.Mutex
	// admitted is Daemon.admitted. A container is added when the agent reports
	// it with shares or calls Share for it, and removed when the agent no
	// longer reports it.
	admitted map[string]discoveredContainer
	// released are containers that were managed and have ended, with the time. The agent may
	// still report them: its report may be older than their end, and it removes a container
	// only after the module has released it. An entry is removed once a later report lacks
	// the container.
	released map[string]time.Time
}

// discoveredContainer is a container that was admitted to the limiter, and when the agent last
// reported it.
type discoveredContainer struct {
	shares []gpu.DeviceShare
	seenAt time.Time
}

func newDiscoveredContainers(
	admitted map[string]discoveredContainer, l share.Limiter, agent *mesosagent.AgentClient,
	devicesInUseHere func(string) bool, log logrus.FieldLogger,
) *discoveredContainers {
	return &discoveredContainers{limiter: l, agent: agent, isManaged: devicesInUseHere, log: log, admitted: admitted, released: map[string]time.Time{}}
}

// ignoreReleased keeps a managed container that ends from being discovered. It must be called
// before the container is released.
func (c *discoveredContainers) ignoreReleased(container string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.released[container] = time.Now()
}

// forgetAdmitted leaves a container, which stays admitted to the limiter, to its allocation.
func (c *discoveredContainers) forgetAdmitted(container string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.admitted, container)
}

func (c *discoveredContainers) isReleased(container string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, released := c.released[container]
	return released
}

// Share does the same as containers.Manager.Share. It queries the agent for the container
// first.
func (c *discoveredContainers) Share(ctx context.Context, container string) (containers.ContainerShare, error) {
	if err := c.agent.RefreshState(ctx); err != nil {
		return containers.ContainerShare{}, fmt.Errorf("query the agent for the devices of container %s: %w", container, err)
	}
	all, queriedAt := c.agent.DeviceShares()
	shares, ok := all[container]
	if !ok || c.isReleased(container) {
		return containers.ContainerShare{}, &containers.UnknownContainerError{Container: container}
	}
	setup, err := c.admitShares(ctx, container, shares, queriedAt)
	return containers.NewContainerShare(c.limiter.Method(), shares, setup), err
}

func (c *discoveredContainers) admitShares(ctx context.Context, container string, shares []gpu.DeviceShare, queriedAt time.Time) (share.LimitSetup, error) {
	setup, err := share.LimitContainer(ctx, c.limiter, c.log, container, shares)
	if err != nil {
		return setup, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isManaged(container) { // its executor may have claimed it meanwhile, before forgetAdmitted
		c.admitted[container] = discoveredContainer{shares, queriedAt}
	}
	return setup, nil
}

// discoveryInterval is how often containers are compared with the agent's last report if the agent
// does not answer: processes of containers that it does not report may have ended.
const discoveryInterval = 10 * time.Second

// runDiscovery reconciles the claims, and then the discovered containers. It admits those of an
// earlier daemon at once, before the end of another container could stop what enforces their
// limits. It releases those that have ended.
func (c *deviceClaims) runDiscovery(ctx context.Context) error {
	g := c.discovered
	_ = g.agent.RefreshState(ctx) // AgentClient.Run retries and logs the error
	tick := time.NewTicker(discoveryInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-g.agent.Answered():
		}
		c.reconcileAll(ctx)
		g.reconcileAdmitted(ctx)
	}
}

func (c *discoveredContainers) reconcileAdmitted(ctx context.Context) {
	reported, queriedAt := c.agent.DeviceShares()
	c.mu.Lock()
	admitted := maps.Clone(c.admitted)
	c.mu.Unlock()
	for id, shares := range reported {
		if _, known := admitted[id]; known || c.isManaged(id) || c.isReleased(id) {
			continue
		}
		if _, err := c.admitShares(ctx, id, shares, queriedAt); err != nil {
			c.log.WithError(err).WithField("container", id).Error("container runs, but its share may not be enforced")
		}
	}
	c.forgetReleased()
	for id, was := range admitted {
		if _, alive := reported[id]; alive || !queriedAt.After(was.seenAt) {
			continue
		}
		if err := c.limiter.ReleaseContainer(ctx, id); err != nil {
			c.log.WithError(err).WithField("container", id).Warn("cannot release the limit of an ended container")
			continue
		}
		c.mu.Lock()
		delete(c.admitted, id)
		c.mu.Unlock()
	}
}

// forgetReleased removes the released containers that the agent no longer reports.
func (c *discoveredContainers) forgetReleased() {
	reported, queriedAt := c.agent.Containers()
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.released, func(id string, at time.Time) bool {
		alive := slices.ContainsFunc(reported, func(r mesosagent.ReportedContainer) bool { return r.Container == id })
		return !alive && queriedAt.After(at)
	})
}

// listHolders returns the discovered containers with their shares.
func (c *discoveredContainers) listHolders() []gpu.ContainerDevices {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []gpu.ContainerDevices
	for id, container := range c.admitted {
		h := gpu.ContainerDevices{Container: id, Devices: []string{}, Shares: container.shares}
		for _, p := range container.shares {
			h.Devices = append(h.Devices, p.UUID)
		}
		list = append(list, h)
	}
	return list
}

// Share looks for the container among the managed ones, then among the discovered ones.
func (c managedContainers) Share(ctx context.Context, container string) (containers.ContainerShare, error) {
	s, err := c.Manager.Share(ctx, container)
	if unknown := (*containers.UnknownContainerError)(nil); errors.As(err, &unknown) {
		return c.discovered.Share(ctx, container)
	}
	return s, err
}

// Holders returns the managed and the discovered containers.
func (c managedContainers) Holders() []gpu.ContainerDevices {
	return append(c.Manager.Holders(), c.discovered.listHolders()...)
}

// isKnown reports whether the daemon manages the container.
func (c managedContainers) isKnown(container string) bool {
	_, err := c.Manager.Devices(container)
	return err == nil
}
