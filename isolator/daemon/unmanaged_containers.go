package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/rules"
	"mesos-gpu/isolator/share"
	"mesos-gpu/isolator/socket"
)

// containerAPI serves the API's calls for containers.
type containerAPI interface {
	socket.ContainerManager
	DeviceUses() map[string]share.DeviceUse
}

// unmanagedContainers implements containerAPI if other software manages the containers. It reports
// those that hold devices, by the claims of their executors and the agent's report, and rejects
// the calls of a module.
type unmanagedContainers struct{ managedContainers }

var errUnmanaged = &allocation.RejectedError{Why: "this daemon does not manage the containers: their agent does"}

// Recover implements socket.ContainerManager, and so do the methods below.
func (unmanagedContainers) Recover([]string) error { return errUnmanaged }

func (unmanagedContainers) Prepare(context.Context, containers.LaunchRequest) (containers.LaunchSetup, error) {
	return containers.LaunchSetup{}, errUnmanaged
}

func (unmanagedContainers) Isolate(string, int) error { return errUnmanaged }

func (unmanagedContainers) Update(string, []allocation.MesosResource) ([]string, error) {
	return nil, errUnmanaged
}

func (unmanagedContainers) Cleanup(string) error { return errUnmanaged }

func (unmanagedContainers) Status(string) (containers.ContainerStatus, error) {
	return containers.ContainerStatus{}, errUnmanaged
}

// Devices returns the devices of a claim, or else the shares of a discovered container.
func (c unmanagedContainers) Devices(container string) ([]string, error) {
	devices, err := c.Manager.Devices(container)
	if unknown := (*containers.UnknownContainerError)(nil); !errors.As(err, &unknown) {
		return devices, err
	}
	for _, h := range c.discovered.listHolders() {
		if h.Container == container {
			return h.Devices, nil
		}
	}
	return nil, err
}

// openUnmanaged opens the claims of containers that other software manages.
func (d *Daemon) openUnmanaged(h gpu.Host, shares deviceSharing) (managedContainers, error) {
	all, err := containers.Open(containers.ManagerConfig{
		Kernel: unenforcedKernel{h}, Dir: filepath.Join(d.cfg.StateDir, "containers"), CgroupsRoot: d.cfg.CgroupsRoot,
		LookUpShare: shares.SharedCapacity, LookUpParent: func(uuid string) string { return parentGPU(h, uuid) }, Limiter: shares.limiter,
		DriverVolume: func(context.Context) (string, error) { return "", errUnmanaged },
		NeedsDriver:  func(_, _ map[string]string) (bool, error) { return false, errUnmanaged },
		Log:          d.cfg.Log,
	})
	return managedContainers{Manager: all}, err
}

// unenforcedKernel implements containers.Kernel where other software confines the containers.
type unenforcedKernel struct{ host gpu.Host }

// DeviceNodes returns an error for a device that the host does not have.
func (k unenforcedKernel) DeviceNodes(devices []string) ([]rules.DeviceNode, error) {
	_, err := k.host.ByUUID(devices)
	return nil, err
}

func (unenforcedKernel) ConfineToDevices(string, []string) error { return nil }

func (unenforcedKernel) MoveProcess(string, int) error { return nil }

func (unenforcedKernel) AllowedDevices(cgroup string) ([]string, error) {
	return nil, fmt.Errorf("cgroup %s: %w", cgroup, fs.ErrNotExist)
}

func (unenforcedKernel) DeviceRules(cgroup string) ([]rules.DeviceRule, error) {
	return nil, fmt.Errorf("cgroup %s: %w", cgroup, fs.ErrNotExist)
}

func (unenforcedKernel) ReleaseCgroup(string) error { return nil }

func (unenforcedKernel) ListChildCgroups(string) ([]string, error) { return nil, nil }

// deviceUsesOf returns how containers hold devices; nil before the allocations are open.
func deviceUsesOf(all containerAPI) map[string]share.DeviceUse {
	if all == nil {
		return nil
	}
	return all.DeviceUses()
}
