// Package containers grants devices to the containers of one agent. It carries out what package
// allocation decides: it keeps a record for each container in a file, has the kernel confine
// the container's cgroup, and returns what a container is launched with. Devices are allocated
// before the kernel allows them, and freed only after the kernel denies them. So no device has
// two unrelated holders at any time, even if the process dies. The package never decides which
// device a container gets.
//
// A grant takes two calls of the agent. Prepare, before the launch: begin a transaction, assign
// and reserve devices, build the launch setup, then commit or roll back. Isolate, once the
// container has a cgroup: mark the record, then have the kernel allow the devices. Update
// repeats both steps for a container that runs. Cleanup has the kernel deny the devices, then
// removes the record and frees them.
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

// Kernel is the kernel's device enforcement for containers. Cgroups are named by their paths
// below the hierarchy: "mesos/CONTAINER". Methods may be called concurrently.
type Kernel interface {
	// DeviceNodes returns the device nodes for the /dev of a container with those devices. A
	// device that the host does not have is an error.
	DeviceNodes(devices []string) ([]rules.DeviceNode, error)
	// ConfineToDevices creates the cgroup if it does not exist, allows its processes those
	// devices and no others, and reads the result back.
	ConfineToDevices(cgroup string, devices []string) error
	// MoveProcess moves the process to the cgroup unless it is there.
	MoveProcess(cgroup string, pid int) error
	// AllowedDevices returns the devices that the cgroup's processes may open. DeviceRules
	// returns the kernel's rules. The error wraps fs.ErrNotExist if the cgroup does not exist.
	// AllowedDevices of an unconfined cgroup is an error, too.
	AllowedDevices(cgroup string) ([]string, error)
	DeviceRules(cgroup string) ([]rules.DeviceRule, error)
	// ReleaseCgroup undoes ConfineToDevices. A cgroup that does not exist is no error.
	ReleaseCgroup(cgroup string) error
	// ListChildCgroups returns the names of the cgroups directly below the cgroup, none if it
	// does not exist.
	ListChildCgroups(cgroup string) ([]string, error)
}

// ManagerConfig configures a Manager.
type ManagerConfig struct {
	Kernel Kernel
	// Dir contains one file for each container. Cgroups do not survive a reboot, and neither
	// needs Dir: a runtime directory is enough.
	Dir string
	// CgroupsRoot is the agent's --cgroups_root; empty means "mesos". CgroupVersion is the
	// version that Kernel uses, "v1" or "v2". Neither may change while Dir contains records.
	CgroupsRoot, CgroupVersion string
	// Stock lists the devices for requests by number. IsGrantable reports whether a device may
	// be granted now; nil means that all may.
	Stock       []string
	IsGrantable func(device string) bool
	// LookUpShare reports which devices are shared, and Limiter enforces the containers' shares
	// of them. Without them no device is shared.
	LookUpShare allocation.ShareLookup
	Limiter     share.Limiter
	// LookUpParent returns the GPU of a MIG device. Without it no device is a MIG device.
	LookUpParent allocation.ParentLookup
	// DriverVolume returns the host path of the driver volume. It makes the volume if it does
	// not exist.
	DriverVolume func(context.Context) (path string, err error)
	// NeedsDriver reports whether an image requests the driver volume. It returns an error if
	// the image cannot run with this driver.
	NeedsDriver func(labels, env map[string]string) (bool, error)
	// CheckImage, if set, returns an error if the image cannot run on one of the devices.
	CheckImage func(labels, env map[string]string, devices []string) error
	Log        logrus.FieldLogger
}

// Manager manages the containers of one agent. Its methods may be called concurrently; calls
// for containers of one root wait for each other.
type Manager struct {
	cfg ManagerConfig
	// records has the files. The caller of its methods holds the lock of the
	// container's root, or scanLock for writing; Open needs neither.
	records recordStore
	// confinementError is why the kernel cannot confine containers; nil if it can.
	confinementError error

	// Lock order: scanLock, then one of rootLocks, then mu.
	scanLock  sync.RWMutex // held for writing while all containers are examined
	rootLocks keyedMutex

	// mu guards allocations and infos. It is held for short sections only, never
	// during a call of the kernel that changes a cgroup or while a file is written.
	mu sync.Mutex
	// allocations has what each container holds. While a transaction runs, its
	// container holds the old and the new devices.
	allocations *allocation.Allocator
	// infos describes the containers in allocations, by id.
	infos map[string]containerInfo
	// orphans are containers that have ended for the agent and could not be released.
	orphans map[string]bool
}

// containerInfo describes a container, apart from its allocation.
type containerInfo struct {
	// The owner, as the agent describes it at the launch; all empty for a container that was
	// restored from its cgroup.
	Framework string `json:"framework,omitempty"`
	Executor  string `json:"executor,omitempty"`
	Task      string `json:"task,omitempty"`
	Job       string `json:"job,omitempty"`
	// Isolated is set once the kernel confines, or is about to confine, a cgroup of the
	// container's own. It never becomes false again.
	Isolated bool `json:"isolated,omitempty"`
	// Claimed is set if no module prepared the container. PID and StartTicks are as in
	// ContainerClaim.
	Claimed    bool   `json:"claimed,omitempty"`
	PID        int    `json:"pid,omitempty"`
	StartTicks uint64 `json:"start_ticks,omitempty"`
}

// UnknownContainerError is returned for a container that was never prepared.
type UnknownContainerError struct{ Container string }

func (u *UnknownContainerError) Error() string {
	return fmt.Sprintf("container %s is not known: prepare it first", u.Container)
}

// Open reads the records, releases containers whose cgroup no longer exists, and restores
// containers from their cgroups if their records are lost.
func Open(cfg ManagerConfig) (*Manager, error) {
	switch {
	case cfg.Kernel == nil || cfg.Log == nil:
		return nil, errors.New("open containers: the kernel or the log is missing")
	case cfg.DriverVolume == nil || cfg.NeedsDriver == nil:
		return nil, errors.New("open containers: DriverVolume or NeedsDriver is missing")
	}
	if cfg.Limiter == nil {
		cfg.Limiter = share.NoLimiter{}
	}
	if cfg.CgroupsRoot == "" {
		cfg.CgroupsRoot = "mesos"
	}
	m := &Manager{
		cfg:         cfg,
		records:     recordStore{dir: cfg.Dir},
		allocations: allocation.New(cfg.Stock, cfg.LookUpShare, cfg.LookUpParent),
		infos:       map[string]containerInfo{},
		orphans:     map[string]bool{},
	}
	if err := m.loadRecords(); err != nil {
		return nil, fmt.Errorf("open containers: %w", err)
	}
	if err := m.releaseEnded(); err != nil {
		return nil, fmt.Errorf("open containers: %w", err)
	}
	switch err := m.scanCgroups(cfg.CgroupsRoot, ""); {
	case errors.Is(err, cgroup.ErrNoHierarchy):
		cfg.Log.WithError(err).Warn("containers cannot be confined here")
		m.confinementError = err
	case err != nil:
		return nil, fmt.Errorf("open containers: %w", err)
	}
	m.readmitAll()
	return m, nil
}

// ConfinementError returns why the kernel could not confine containers when the manager was
// opened; nil if it could. Containers without GPUs can still be launched.
func (m *Manager) ConfinementError() error { return m.confinementError }

// loadRecords fills the allocator from the records. It removes a record that is damaged or
// contradicts another one; the container may be restored from its cgroup later. Containers that
// the module did not prepare are loaded last and as they are: nothing else knows them.
func (m *Manager) loadRecords() error {
	entries, bad, err := m.records.loadRecords()
	if err != nil {
		return err
	}
	if err := m.records.bindLocation(m.cgroupLocation(), len(entries)+len(bad)); err != nil {
		return err
	}
	for _, b := range bad {
		m.cfg.Log.WithError(b.err).WithField("file", b.name).Warn("container's file is unreadable: reading its cgroup instead")
	}
	slices.SortStableFunc(entries, func(a, b containerRecord) int {
		switch {
		case a.Info.Claimed == b.Info.Claimed:
			return 0
		case b.Info.Claimed:
			return -1
		}
		return 1
	})
	for _, e := range entries {
		id := e.Allocation.Container
		if e.Info.Claimed {
			m.allocations.SetAllocations(e.Allocation)
			m.infos[id] = e.Info
			continue
		}
		if err := m.allocations.CheckAllocation(e.Allocation); err != nil {
			m.cfg.Log.WithError(err).WithField("container", id).Warn("container's file contradicts others: reading its cgroup instead")
			bad = append(bad, badRecord{name: recordFileName(id)})
			continue
		}
		if held, err := m.cfg.Kernel.AllowedDevices(m.cgroupPath(id)); err == nil && len(held) > 0 {
			e.Info.Isolated = true // whatever its record says
		}
		m.allocations.SetAllocations(e.Allocation)
		m.infos[id] = e.Info
	}
	for _, b := range bad {
		if err := m.records.removeFile(b.name); err != nil {
			return err
		}
	}
	return nil
}

// cgroupLocation describes where the containers' cgroups are.
func (m *Manager) cgroupLocation() string {
	return fmt.Sprintf("--cgroups-root=%s --cgroups=%s", path.Clean(m.cfg.CgroupsRoot), m.cfg.CgroupVersion)
}

// lockRoot locks the container's root container with all containers nested in it. The caller
// calls unlock when it is done.
func (m *Manager) lockRoot(container string) (unlock func()) {
	m.scanLock.RLock()
	unlockRoot := m.rootLocks.lockKey(allocation.RootID(container))
	return func() {
		unlockRoot()
		m.scanLock.RUnlock()
	}
}

// saveRecord writes the container's record.
func (m *Manager) saveRecord(a allocation.Allocation) error {
	m.mu.Lock()
	info := m.infos[a.Container]
	m.mu.Unlock()
	return m.records.writeRecord(containerRecord{Allocation: a, Info: info})
}

// forgetContainer frees the devices of the container and of those nested in it. It removes the
// records first: a record without a container would claim devices after a restart. Of those it
// removes the container's own last: if it fails in between, the container's record still claims
// what nested containers may open.
func (m *Manager) forgetContainer(container string) error {
	m.mu.Lock()
	ids := []string{container}
	for _, h := range m.allocations.ListNested(container) {
		ids = append(ids, h.Container)
	}
	m.mu.Unlock()
	for _, id := range slices.Backward(ids) {
		if err := m.records.removeFile(recordFileName(id)); err != nil {
			return err
		}
	}
	m.releaseLimits(ids)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range m.allocations.ReleaseContainer(container) {
		delete(m.infos, id)
		delete(m.orphans, id)
	}
	return nil
}

// Holders returns the containers that hold devices, parents before nested ones.
func (m *Manager) Holders() []gpu.ContainerDevices {
	m.mu.Lock()
	defer m.mu.Unlock()
	holders := []gpu.ContainerDevices{}
	for _, h := range m.allocations.ListAll() {
		if devices := h.Devices(); len(devices) > 0 {
			holders = append(holders, m.infos[h.Container].describeHolder(h.Container, devices, h.Shares))
		}
	}
	return holders
}

// Stock returns the devices for requests by number.
func (m *Manager) Stock() []string { return m.allocations.Stock() }

// Devices returns the devices that the container holds or inherits. The error is an
// *UnknownContainerError if the container is not known.
func (m *Manager) Devices(container string) ([]string, error) {
	if err := CheckID(container); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.isKnown(container) {
		return nil, &UnknownContainerError{container}
	}
	return m.allocations.EffectiveDevices(container), nil
}

// Status returns the container's devices and the kernel's rules for it. The error is an
// *UnknownContainerError if the container is not known.
func (m *Manager) Status(container string) (ContainerStatus, error) {
	if err := CheckID(container); err != nil {
		return ContainerStatus{}, err
	}
	m.mu.Lock()
	known := m.isKnown(container)
	f, devices := m.infos[container], m.allocations.EffectiveDevices(container)
	_, shares := m.allocations.EffectiveShares(container)
	m.mu.Unlock()
	if !known {
		return ContainerStatus{}, &UnknownContainerError{container}
	}
	s := ContainerStatus{Holder: f.describeHolder(container, devices, shares), Rules: []string{}}
	if !f.Isolated {
		return s, nil
	}
	list, err := m.cfg.Kernel.DeviceRules(m.cgroupPath(container))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ContainerStatus{}, err
	}
	for _, r := range list {
		s.Rules = append(s.Rules, r.String())
	}
	return s, nil
}

// isKnown reports whether the container, or an ancestor of a nested one, has an allocation. The
// caller holds mu.
func (m *Manager) isKnown(container string) bool {
	for ; container != ""; container = allocation.ParentID(container) {
		if _, ok := m.allocations.Get(container); ok {
			return true
		}
	}
	return false
}

// existingDevices returns those of the devices that the host still has. A device may disappear
// after it was granted; its container keeps running with the others.
func (m *Manager) existingDevices(devices []string) []string {
	return slices.DeleteFunc(slices.Clone(devices), func(d string) bool {
		_, err := m.cfg.Kernel.DeviceNodes([]string{d})
		return err != nil
	})
}

func (f containerInfo) describeHolder(container string, devices []string, shares []gpu.DeviceShare) gpu.ContainerDevices {
	return gpu.ContainerDevices{
		Container: container,
		Framework: f.Framework,
		Executor:  f.Executor,
		Task:      f.Task,
		Job:       f.Job,
		Devices:   nonNilList(devices),
		Shares:    shares,
	}
}
