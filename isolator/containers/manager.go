// Package containers carries out what the ledger decides: it keeps a file for
// each container, has the kernel confine its cgroup, and puts together what a
// container is launched with. Devices are claimed in the books before the
// kernel opens them and given back only after it has closed them, so that
// whenever the process dies no device has two holders.
package containers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/cgroup"
	"mesos-gpu/isolator/rules"
	"mesos-gpu/isolator/share"
)

// Kernel is what the kernel does for containers. Cgroups are named by their
// paths below the hierarchy: "mesos/CONTAINER". Methods on cgroups may be
// called for several at a time.
type Kernel interface {
	// DeviceNodes are the device nodes that belong into the /dev of a container
	// with those devices. A device that the host does not have is an error.
	DeviceNodes(devices []string) ([]rules.DeviceNode, error)
	// ConfineToDevices makes the cgroup where it is not there yet, lets its processes
	// open those devices and no others, and reads that back.
	ConfineToDevices(cgroup string, devices []string) error
	// MoveProcess moves the process to the cgroup unless it is there.
	MoveProcess(cgroup string, pid int) error
	// AllowedDevices is the devices that the cgroup's processes may open, and Rules
	// the kernel's rules. The error is fs.ErrNotExist if there is no such
	// cgroup. Holding of one that nobody confined is an error too.
	AllowedDevices(cgroup string) ([]string, error)
	DeviceRules(cgroup string) ([]rules.DeviceRule, error)
	// ReleaseCgroup undoes Confine. A cgroup that is gone is no error.
	ReleaseCgroup(cgroup string) error
	// ListChildCgroups are the names of the cgroups right below that one; none if there
	// is no such cgroup.
	ListChildCgroups(cgroup string) ([]string, error)
}

// ManagerConfig says how containers are kept.
type ManagerConfig struct {
	Kernel Kernel
	// Dir keeps one file for each container. Cgroups do not outlive the
	// machine, and neither need Dir: a runtime directory will do.
	Dir string
	// CgroupsRoot is the agent's --cgroups_root; empty means "mesos". Cgroups
	// is the version by which Kernel confines, "v1" or "v2". While Dir keeps
	// containers neither may change.
	CgroupsRoot, CgroupVersion string
	// Stock are the devices for a bare number of gpus, and Usable tells
	// whether one may be granted now; nil lets all be.
	Stock       []string
	IsGrantable func(device string) bool
	// LookUpShare tells which devices are shared, and Limiter holds containers to
	// their parts of them; without them no device is.
	LookUpShare allocation.ShareLookup
	Limiter     share.Limiter
	// DriverVolume gives the host path of the driver volume, made if need be.
	DriverVolume func(context.Context) (path string, err error)
	// NeedsDriver tells whether an image wants the driver volume. An error
	// says why it cannot run with this driver.
	NeedsDriver func(labels, env map[string]string) (bool, error)
	// CheckImage, where set, is an error where an image cannot run on one of those
	// devices.
	CheckImage func(labels, env map[string]string, devices []string) error
	Log        logrus.FieldLogger
}

// Manager are the containers of one agent. Its methods may be called at
// the same time; those on containers of one root wait for each other.
type Manager struct {
	cfg     ManagerConfig
	records recordStore

	// Lock order: all, then one of roots, then mu.
	scanLock  sync.RWMutex // held for writing where every container is looked at
	rootLocks keyedMutex

	mu          sync.Mutex // guards books and facts
	allocations *allocation.Allocator
	infos       map[string]containerInfo
}

// containerInfo is what is known of a container beside what it holds.
type containerInfo struct {
	Framework string `json:"framework,omitempty"`
	Executor  string `json:"executor,omitempty"`
	Task      string `json:"task,omitempty"`
	Job       string `json:"job,omitempty"`
	// Isolated tells that it has a cgroup of its own, which the kernel was told
	// of, or is about to be.
	Isolated bool `json:"isolated,omitempty"`
}

// UnknownContainerError is the error of a call for a container that was never prepared.
type UnknownContainerError struct{ Container string }

func (u *UnknownContainerError) Error() string {
	return fmt.Sprintf("container %s is not known here: prepare it first", u.Container)
}

// Open reads the files, lets go of containers whose cgroup is gone, and finds
// those again from their cgroups whose files are lost.
func Open(cfg ManagerConfig) (*Manager, error) {
	switch {
	case cfg.Kernel == nil || cfg.Log == nil:
		return nil, errors.New("open containers: no kernel or no log given")
	case cfg.DriverVolume == nil || cfg.NeedsDriver == nil:
		return nil, errors.New("open containers: no way given to the driver volume")
	}
	if cfg.Limiter == nil {
		cfg.Limiter = share.NoLimiter{}
	}
	if cfg.CgroupsRoot == "" {
		cfg.CgroupsRoot = "mesos"
	}
	c := &Manager{cfg: cfg, records: recordStore{dir: cfg.Dir}, allocations: allocation.New(cfg.Stock, cfg.LookUpShare), infos: map[string]containerInfo{}}
	if err := c.loadRecords(); err != nil {
		return nil, fmt.Errorf("open containers: %w", err)
	}
	if err := c.releaseEnded(); err != nil {
		return nil, fmt.Errorf("open containers: %w", err)
	}
	switch err := c.scanCgroups(cfg.CgroupsRoot, ""); {
	case errors.Is(err, cgroup.ErrNoHierarchy):
		cfg.Log.WithError(err).Warn("containers cannot be confined here")
	case err != nil:
		return nil, fmt.Errorf("open containers: %w", err)
	}
	c.readmitAll()
	return c, nil
}

// loadRecords fills the books from the files. One that is torn or contradicts
// another is removed; the kernel may still know its container.
func (c *Manager) loadRecords() error {
	entries, bad, err := c.records.loadRecords()
	if err != nil {
		return err
	}
	if err := c.records.bindLocation(c.cgroupLocation(), len(entries)+len(bad)); err != nil {
		return err
	}
	for _, b := range bad {
		c.cfg.Log.WithError(b.err).WithField("file", b.name).Warn("container's file is of no use: asking its cgroup")
	}
	for _, e := range entries {
		id := e.Allocation.Container
		if err := c.allocations.CheckAllocation(e.Allocation); err != nil {
			c.cfg.Log.WithError(err).WithField("container", id).Warn("container's file contradicts others: asking its cgroup")
			bad = append(bad, badRecord{name: recordFileName(id)})
			continue
		}
		if held, err := c.cfg.Kernel.AllowedDevices(c.cgroupPath(id)); err == nil && len(held) > 0 {
			e.Info.Isolated = true // whatever its file missed
		}
		c.allocations.SetAllocations(e.Allocation)
		c.infos[id] = e.Info
	}
	for _, b := range bad {
		if err := c.records.removeFile(b.name); err != nil {
			return err
		}
	}
	return nil
}

// cgroupLocation says where the containers' cgroups are.
func (c *Manager) cgroupLocation() string {
	return fmt.Sprintf("--cgroups-root=%s --cgroups=%s", path.Clean(c.cfg.CgroupsRoot), c.cfg.CgroupVersion)
}

// lockRoot waits for the container's turn; the caller calls leave at its end.
func (c *Manager) lockRoot(container string) (leave func()) {
	c.scanLock.RLock()
	unlock := c.rootLocks.lockKey(allocation.RootID(container))
	return func() {
		unlock()
		c.scanLock.RUnlock()
	}
}

// saveRecords writes the files of those holdings.
func (c *Manager) saveRecords(holdings ...allocation.Allocation) error {
	for _, h := range holdings {
		c.mu.Lock()
		f := c.infos[h.Container]
		c.mu.Unlock()
		if err := c.records.writeRecord(containerRecord{Allocation: h, Info: f}); err != nil {
			return err
		}
	}
	return nil
}

// forgetContainer strikes the container and those nested in it, files first: a file
// without a container would claim devices after a restart.
func (c *Manager) forgetContainer(container string) error {
	c.mu.Lock()
	ids := []string{container}
	for _, h := range c.allocations.ListNested(container) {
		ids = append(ids, h.Container)
	}
	c.mu.Unlock()
	for _, id := range ids {
		if err := c.records.removeFile(recordFileName(id)); err != nil {
			return err
		}
	}
	c.releaseLimits(ids)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range c.allocations.ReleaseContainer(container) {
		delete(c.infos, id)
	}
	return nil
}

// Holders are the containers that hold devices, parents before the nested.
func (c *Manager) Holders() []gpu.ContainerDevices {
	c.mu.Lock()
	defer c.mu.Unlock()
	holders := []gpu.ContainerDevices{}
	for _, h := range c.allocations.ListAll() {
		if devices := h.Devices(); len(devices) > 0 {
			holders = append(holders, c.infos[h.Container].describeHolder(h.Container, devices, h.Shares))
		}
	}
	return holders
}

// Stock are the devices for a bare number of gpus.
func (c *Manager) Stock() []string { return c.allocations.Stock() }

// Devices are those that the container holds or inherits. The error is
// *Unknown for one that is not known.
func (c *Manager) Devices(container string) ([]string, error) {
	if err := CheckID(container); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isKnown(container) {
		return nil, &UnknownContainerError{container}
	}
	return c.allocations.EffectiveDevices(container), nil
}

// Status is what is known of a container. The error is *Unknown for one that
// is not.
func (c *Manager) Status(container string) (ContainerStatus, error) {
	if err := CheckID(container); err != nil {
		return ContainerStatus{}, err
	}
	c.mu.Lock()
	known := c.isKnown(container)
	f, devices := c.infos[container], c.allocations.EffectiveDevices(container)
	_, parts := c.allocations.EffectiveShares(container)
	c.mu.Unlock()
	if !known {
		return ContainerStatus{}, &UnknownContainerError{container}
	}
	s := ContainerStatus{Holder: f.describeHolder(container, devices, parts), Rules: []string{}}
	if !f.Isolated {
		return s, nil
	}
	list, err := c.cfg.Kernel.DeviceRules(c.cgroupPath(container))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ContainerStatus{}, err
	}
	for _, r := range list {
		s.Rules = append(s.Rules, r.String())
	}
	return s, nil
}

// isKnown reports whether the books have the container, or for a nested one an
// ancestor. The caller holds mu.
func (c *Manager) isKnown(container string) bool {
	for ; container != ""; container = allocation.ParentID(container) {
		if _, ok := c.allocations.Get(container); ok {
			return true
		}
	}
	return false
}

// existingDevices are those of the devices that the host still has: one may be gone
// since it was granted, and the container runs on with the others.
func (c *Manager) existingDevices(devices []string) []string {
	return slices.DeleteFunc(slices.Clone(devices), func(d string) bool {
		_, err := c.cfg.Kernel.DeviceNodes([]string{d})
		return err != nil
	})
}

func (f containerInfo) describeHolder(container string, devices []string, parts []gpu.DeviceShare) gpu.ContainerDevices {
	return gpu.ContainerDevices{Container: container, Framework: f.Framework, Executor: f.Executor, Task: f.Task, Job: f.Job, Devices: nonNilList(devices), Shares: parts}
}
