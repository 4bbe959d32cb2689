package daemon

import (
	"context"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/share"
	"mesos-gpu/isolator/socket"
)

// containerAPI is what the API's calls for containers need.
type containerAPI = socket.ContainerManager

// unmanagedContainers implements containerAPI if other software manages the containers. It
// reports those with shares of devices, and rejects changes.
type unmanagedContainers struct{ *discoveredContainers }

var errUnmanaged = &allocation.RejectedError{Why: "this daemon does not manage the containers: their agent does"}

// Recover implements socket.ContainerService, and so do the methods below.
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

func (b unmanagedContainers) Devices(container string) ([]string, error) {
	for _, h := range b.Holders() {
		if h.Container == container {
			return h.Devices, nil
		}
	}
	return nil, &containers.UnknownContainerError{Container: container}
}

func (b unmanagedContainers) Holders() []gpu.ContainerDevices { return b.listHolders() }

func (unmanagedContainers) Stock() []string { return []string{} }

// deviceUsesOf returns how managed containers hold devices; nil before the allocations are
// open.
func deviceUsesOf(all containerAPI) map[string]share.DeviceUse {
	if b, ok := all.(managedContainers); ok {
		return b.DeviceUses()
	}
	return nil
}
