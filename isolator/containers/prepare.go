package containers

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/share"
)

// Prepare grants devices to a container before its launch and returns what it
// is launched with. A repeated call with the same resources returns the same.
// The error is an *allocation.RejectedError, *InvalidContainerError or
// *ImageError if the request is at fault. It is a *DeviceHeldError if other
// containers hold a device and a *NoDriverError if there is no driver volume;
// job.CutMachineFault recognizes their messages. A failed call grants nothing.
//
// The kernel allows the devices when Mesos has created the container's cgroup
// and calls Isolate.
func (m *Manager) Prepare(ctx context.Context, l LaunchRequest) (setup LaunchSetup, err error) {
	if err := CheckID(l.Container); err != nil {
		return LaunchSetup{}, err
	}
	defer func() {
		if err != nil {
			setup, err = LaunchSetup{}, fmt.Errorf("prepare container %s: %w", l.Container, err)
		}
	}()
	// 1. Read the request.
	request, err := allocation.ParseRequest(l.Resources)
	if err != nil {
		return LaunchSetup{}, err
	}
	// 2. Make the driver volume. This may take long, so it holds no lock.
	mounts, err := m.driverMounts(ctx, l, !request.IsEmpty() || m.inheritsDevices(l.Container))
	if err != nil {
		return LaunchSetup{}, err
	}
	// 3. Assign devices and reserve them.
	defer m.lockRoot(l.Container)()
	t, err := m.begin(l.Container, request, &containerInfo{Framework: l.Framework, Executor: l.Executor, Task: l.Task, Job: l.Job})
	if held := (*DeviceHeldError)(nil); errors.As(err, &held) {
		held.mark = true
	}
	if err != nil {
		return LaunchSetup{}, err
	}
	// 4. Check that the image runs on them, find their nodes, limit shares.
	setup, err = m.buildSetup(ctx, l, t, mounts)
	// 5. Record the allocation, or take it back.
	if err == nil {
		err = t.commit()
	}
	if err != nil {
		return LaunchSetup{}, errors.Join(err, t.rollBack())
	}
	return setup, nil
}

// inheritsDevices reports whether the container's parent may open any device.
func (m *Manager) inheritsDevices(container string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.allocations.EffectiveDevices(allocation.ParentID(container))) > 0
}

// buildSetup returns what the container is launched with after the transaction.
func (m *Manager) buildSetup(ctx context.Context, l LaunchRequest, t *transaction, mounts []BindMount) (LaunchSetup, error) {
	devices := m.existingDevices(t.devices)
	if err := m.checkImage(l, devices); err != nil {
		return LaunchSetup{}, err
	}
	nodes, err := m.cfg.Kernel.DeviceNodes(devices)
	if err != nil {
		return LaunchSetup{}, err
	}
	limits, err := m.admitToLimiter(ctx, l, t)
	if err != nil {
		return LaunchSetup{}, err
	}
	env := buildEnvironment(devices, mounts, l.Image.Environment)
	maps.Copy(env, limits.Environment)
	return LaunchSetup{Devices: nonNilList(devices), Nodes: nodesWithPaths(nodes), Mounts: append(mounts, limits.Mounts...), Environment: env}, nil
}

// admitToLimiter has the limiter enforce the container's shares, its own or
// those that it inherits. A container without a root file system of its own
// gets no mounts: an executor does not need them and prepares its task's; a
// task that needs them is rejected.
func (m *Manager) admitToLimiter(ctx context.Context, l LaunchRequest, t *transaction) (share.LimitSetup, error) {
	setup, err := m.admitShares(ctx, t.shareOwner, t.shares)
	if err != nil || l.Rootfs {
		return setup, err
	}
	if setup.OwnRootfs && (l.Task != "" || allocation.ParentID(l.Container) != "") {
		return share.LimitSetup{}, &allocation.RejectedError{
			Why: fmt.Sprintf("it has a share of a GPU and no image, and %s limits only processes in a root file system of their "+
				"own: give the task an image, or run this agent with another --share-limit",
				m.cfg.Limiter.Method()),
		}
	}
	setup.Mounts = nil
	return setup, nil
}
