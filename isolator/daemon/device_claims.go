package daemon

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/mesosagent"
)

// claimQueryInterval is the shortest time between two queries of the agent. Each claim waits for a
// query that starts after it, so a longer one would delay tasks.
const claimQueryInterval = 100 * time.Millisecond

// engineTimeout bounds a list of the Docker engine's containers, and removalTimeout the removal of
// orphans. Claims wait for them, but only while the agent does not report a container.
const (
	engineTimeout  = 5 * time.Second
	removalTimeout = 20 * time.Second
)

// deviceClaims keeps the allocations of containers that no module prepares. An executor claims the
// devices of its task before it starts it. Containers that never claim, those of other frameworks,
// are found in the Mesos agent's report once a task of theirs runs. A container that the agent
// does not report stays until no process and no Docker container of it is left: an agent that has
// started under a new id knows nothing of the containers of the old one. Meanwhile its devices
// are withheld from the offers.
type deviceClaims struct {
	manager    *containers.Manager
	agent      *mesosagent.AgentClient
	discovered *discoveredContainers
	host       gpu.Host
	processes  processFinder
	// setHolders publishes which devices are held by containers that the agent does not report.
	setHolders func(holders map[string]string)
	// listDocker returns the Docker containers of this agent's executors with their devices, and
	// removeOrphans removes those whose executor has ended. Both may be nil.
	listDocker    func(context.Context) ([]gpu.ContainerDevices, error)
	removeOrphans func(context.Context) error
	log           logrus.FieldLogger

	// mu is held while containers are claimed, adopted and released.
	mu sync.Mutex
	// seen is when each claim was made or found. A report of the agent that is older does not
	// show that the container has ended.
	seen map[string]time.Time
	// searchedAt is when Docker containers were searched for.
	searchedAt time.Time
	// strays describe the containers that are withheld, for the log.
	strays map[string]string
}

// Claim implements socket.DeviceClaimer. The devices come from the agent's report about
// the container, so a caller can obtain no others for it.
func (c *deviceClaims) Claim(ctx context.Context, request containers.ClaimRequest) (gpu.ContainerDevices, error) {
	if holder, prepared, err := c.manager.CheckPrepared(request.Container, request.Devices); prepared || err != nil {
		return holder, err
	}
	if err := c.agent.RefreshState(ctx); err != nil {
		return gpu.ContainerDevices{}, fmt.Errorf("query the agent for the devices of container %s: %w", request.Container, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reconcile(ctx, &engineView{claims: c}, false)
	reported, _ := c.agent.Containers()
	i := slices.IndexFunc(reported, func(r mesosagent.ReportedContainer) bool { return r.Container == request.Container })
	if i < 0 {
		return gpu.ContainerDevices{}, fmt.Errorf("claim devices for container %s: the agent reports %d containers, and not this one: "+
			"permit the daemon's principal (--credential) to view executors, containers and tasks", request.Container, len(reported))
	}
	r := reported[i]
	for _, d := range request.Devices {
		if !slices.Contains(r.Devices, d) {
			return gpu.ContainerDevices{}, &allocation.RejectedError{
				Why: fmt.Sprintf("claim devices for container %s: the agent gave it %d GPUs, and %s is not one of them",
					request.Container, len(r.Devices), d),
			}
		}
	}
	if len(r.Devices) == 0 {
		return r.ContainerDevices, nil
	}
	if err := c.manager.ClaimDevices(c.newClaim(r.ContainerDevices, r.PID)); err != nil {
		return gpu.ContainerDevices{}, err
	}
	c.discovered.forgetAdmitted(request.Container)
	c.seen[request.Container] = time.Now()
	return r.ContainerDevices, nil
}

func (c *deviceClaims) newClaim(holder gpu.ContainerDevices, pid int) containers.ContainerClaim {
	claim := containers.ContainerClaim{ContainerDevices: holder}
	if ticks := c.processes.startTicks(pid); ticks != 0 {
		claim.PID, claim.StartTicks = pid, ticks
	}
	return claim
}

// reconcileAll is reconcile with a search for Docker containers, at most once in discoveryInterval.
func (c *deviceClaims) reconcileAll(ctx context.Context) {
	c.mu.Lock()
	search := time.Since(c.searchedAt) >= discoveryInterval
	if search {
		c.searchedAt = time.Now()
	}
	c.mu.Unlock()
	engine := &engineView{claims: c}
	if search {
		engine.list(ctx) // an engine that hangs must not delay claims
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reconcile(ctx, engine, search)
}

// releaseEnded queries the agent and releases what has ended, before a decision that needs idle
// devices. If the agent does not answer, the claims stay.
func (c *deviceClaims) releaseEnded(ctx context.Context) {
	if len(c.manager.ListClaims()) == 0 {
		return
	}
	if err := c.agent.RefreshState(ctx); err == nil {
		c.reconcileAll(ctx)
	}
}

// reconcile compares the claims with the agent's last report: it adopts containers that run,
// releases devices of tasks that have ended, and publishes the devices of containers that the
// agent does not report. With search set it also searches for Docker containers that are not known. The caller holds mu.
func (c *deviceClaims) reconcile(ctx context.Context, engine *engineView, search bool) {
	reported, queriedAt := c.agent.Containers()
	if queriedAt.IsZero() {
		return
	}
	claims := map[string]containers.ContainerClaim{}
	for _, claim := range c.manager.ListClaims() {
		claims[claim.Container] = claim
	}
	for _, r := range reported {
		claim, known := claims[r.Container]
		delete(claims, r.Container)
		c.updateReported(ctx, claim, known, r, queriedAt)
	}
	if search {
		c.adoptDockerContainers(ctx, engine, reported)
	}
	c.reconcileUnreported(ctx, claims, engine, queriedAt)
}

// updateReported records what a container uses that the agent reports: a running task's devices,
// and those of the claim that the agent has not taken back.
func (c *deviceClaims) updateReported(ctx context.Context, claim containers.ContainerClaim, known bool, r mesosagent.ReportedContainer, queriedAt time.Time) {
	if !known && (len(r.Used) == 0 || c.discovered.isReleased(r.Container) || c.isPrepared(r.Container)) {
		return
	}
	next := c.newClaim(r.ContainerDevices, r.PID)
	next.Devices, next.Shares = slices.Clone(r.Used), slices.Clone(r.UsedShares)
	for _, d := range claim.Devices {
		if slices.Contains(next.Devices, d) || !slices.Contains(r.Devices, d) {
			continue
		}
		next.Devices = append(next.Devices, d)
		for _, s := range r.Shares {
			if s.UUID == d {
				next.Shares = allocation.UnionShares(next.Shares, []gpu.DeviceShare{s})
			}
		}
	}
	if known && allocation.SameDevices(next.Devices, claim.Devices) && slices.Equal(next.Shares, claim.Shares) {
		return
	}
	log := c.log.WithFields(logrus.Fields{"container": r.Container, "gpus": next.Devices})
	if err := c.manager.AdoptContainer(next); err != nil {
		log.WithError(err).Error("cannot record the GPUs of a container")
		return
	}
	if len(next.Devices) == 0 {
		delete(c.seen, r.Container)
		return
	}
	c.seen[r.Container] = queriedAt
	if known {
		return
	}
	c.discovered.forgetAdmitted(r.Container)
	log.Info("container holds GPUs that it did not claim")
	if _, err := c.manager.Share(ctx, r.Container); err != nil {
		log.WithError(err).Error("container runs, but its share may not be enforced")
	}
}

func (c *deviceClaims) isPrepared(container string) bool {
	_, prepared, err := c.manager.CheckPrepared(container, nil)
	return prepared || err != nil
}

// adoptDockerContainers records Docker containers of executors that neither the agent nor a claim
// names, as after an update of this program.
func (c *deviceClaims) adoptDockerContainers(ctx context.Context, engine *engineView, reported []mesosagent.ReportedContainer) {
	isUnknown := func(d gpu.ContainerDevices) bool {
		_, err := c.manager.Devices(d.Container)
		return err != nil && !slices.ContainsFunc(reported, func(r mesosagent.ReportedContainer) bool { return r.Container == d.Container })
	}
	list, _ := engine.list(ctx)
	if slices.ContainsFunc(list, isUnknown) { // it may have ended since
		engine.listed = false
		list, _ = engine.list(ctx)
	}
	for _, d := range list {
		if !isUnknown(d) {
			continue
		}
		d.Devices = slices.DeleteFunc(slices.Clone(d.Devices), func(uuid string) bool { return !c.hasDevice(uuid) })
		if len(d.Devices) == 0 {
			continue
		}
		d.Shares = slices.DeleteFunc(slices.Clone(d.Shares), func(s gpu.DeviceShare) bool { return !slices.Contains(d.Devices, s.UUID) })
		if err := c.manager.AdoptContainer(containers.ContainerClaim{ContainerDevices: d}); err != nil {
			c.log.WithError(err).WithField("container", d.Container).Error("cannot record the GPUs of a Docker container")
			continue
		}
		c.seen[d.Container] = time.Now()
	}
}

func (c *deviceClaims) hasDevice(uuid string) bool {
	return slices.ContainsFunc(c.host.Devices, func(d gpu.Device) bool { return d.UUID == uuid })
}

// reconcileUnreported releases the claims that the agent does not report and of which nothing is
// left, and publishes the devices of the others.
func (c *deviceClaims) reconcileUnreported(ctx context.Context, claims map[string]containers.ContainerClaim, engine *engineView, queriedAt time.Time) {
	maps.DeleteFunc(claims, func(id string, _ containers.ContainerClaim) bool { return !queriedAt.After(c.seen[id]) })
	alive := c.findLiveContainers(ctx, claims, engine)
	strays, holders := map[string]string{}, map[string]string{}
	for id, claim := range claims {
		if alive[id] == "" {
			if err := c.manager.ReleaseClaim(id); err != nil {
				c.log.WithError(err).WithField("container", id).Error("cannot release the GPUs of an ended container")
				continue
			}
			delete(c.seen, id)
			c.log.WithFields(logrus.Fields{"container": id, "gpus": claim.Devices}).Info("released the GPUs of an ended container")
			continue
		}
		strays[id] = fmt.Sprintf("held by %s, which the Mesos agent does not report: %s", containers.DescribeHolder(claim.ContainerDevices), alive[id])
		c.addHolder(holders, claim.Devices, strays[id])
	}
	for _, h := range c.manager.RetryOrphans() {
		strays[h.Container] = fmt.Sprintf("held by %s, which has ended for the Mesos agent: a process of it is left in its cgroup", containers.DescribeHolder(h))
		c.addHolder(holders, h.Devices, strays[h.Container])
	}
	for id, text := range strays {
		if c.strays[id] != text {
			c.log.WithField("container", id).Warn("GPUs are withheld: " + text)
		}
	}
	c.strays = strays
	c.setHolders(holders)
}

// addHolder adds the text for the devices, their GPUs and their MIG devices.
func (c *deviceClaims) addHolder(holders map[string]string, devices []string, text string) {
	for _, d := range c.host.Devices {
		for _, held := range devices {
			if d.UUID == held || parentGPU(c.host, d.UUID) == held || parentGPU(c.host, held) == d.UUID {
				holders[d.UUID] = text
			}
		}
	}
}

// findLiveContainers returns which of the containers exist, each with what is left of it. If
// Docker containers are left whose executor has ended, it has them removed first.
func (c *deviceClaims) findLiveContainers(ctx context.Context, claims map[string]containers.ContainerClaim, engine *engineView) map[string]string {
	if len(claims) == 0 {
		return nil
	}
	isClaimed := func(list []gpu.ContainerDevices) bool {
		return slices.ContainsFunc(list, func(d gpu.ContainerDevices) bool { _, ok := claims[d.Container]; return ok })
	}
	list, err := engine.list(ctx)
	if isClaimed(list) && c.removeOrphans != nil {
		removal, cancel := context.WithTimeout(ctx, removalTimeout)
		defer cancel()
		if err := c.removeOrphans(removal); err != nil {
			c.log.WithError(err).Warn("cannot remove containers whose executor was killed: they keep their GPUs")
		}
		engine.listed = false
		list, err = engine.list(ctx)
	}
	alive := map[string]string{}
	for id, claim := range claims {
		if err != nil {
			alive[id] = "whether it has a Docker container is not known: " + err.Error()
		}
		if claim.PID != 0 && c.processes.startTicks(claim.PID) == claim.StartTicks {
			alive[id] = fmt.Sprintf("its executor runs as process %d: end it", claim.PID)
		}
	}
	for id, pid := range c.processes.findContainers() {
		if _, ok := claims[id]; ok {
			alive[id] = cmp.Or(alive[id], fmt.Sprintf("process %d runs in its cgroup: end it", pid))
		}
	}
	for _, d := range list {
		if _, ok := claims[d.Container]; ok {
			alive[d.Container] = strings.TrimPrefix(alive[d.Container]+"; its Docker container exists: docker rm -f mesos-gpu-"+d.Container, "; ")
		}
	}
	return alive
}

// engineView lists the Docker containers once.
type engineView struct {
	claims     *deviceClaims
	listed     bool
	containers []gpu.ContainerDevices
	err        error
}

func (v *engineView) list(ctx context.Context) ([]gpu.ContainerDevices, error) {
	if v.listed || v.claims.listDocker == nil {
		return v.containers, v.err
	}
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	v.listed = true
	if v.containers, v.err = v.claims.listDocker(ctx); v.err != nil {
		v.claims.log.WithError(v.err).Warn("cannot list the Docker containers of executors")
	}
	return v.containers, v.err
}

// parentGPU returns the GPU of a MIG device, "" for other devices.
func parentGPU(h gpu.Host, uuid string) string {
	for _, d := range h.Devices {
		if d.UUID == uuid && d.MIG != nil {
			return d.MIG.Parent
		}
	}
	return ""
}
