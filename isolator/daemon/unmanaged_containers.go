package daemon

import (
	"context"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/share"
	"mesos-gpu/isolator/socket"
)

// containerAPI are what the API's calls about containers come to.
type containerAPI = socket.ContainerManager

// unmanagedContainers answers where another looks after the containers: of those that hold
// parts of devices it tells, and changes none.
type unmanagedContainers struct{ *discoveredContainers }

var errUnmanaged = &allocation.RejectedError{Why: "this daemon looks after no containers: their agent does"}

// Recover implements socket.ContainerManager, and so do all below.
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

// deviceUsesOf are the forms in which the books' containers hold devices; none before
// the books are open.
func deviceUsesOf(all containerAPI) map[string]share.DeviceUse {
	if b, ok := all.(managedContainers); ok {
		return b.DeviceUses()
	}
	return nil
}
