package containers

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/job"
)

// ClaimRequest is an executor's request for the devices that the agent gave its container.
type ClaimRequest struct {
	// Container is the executor's own container.
	Container string `json:"container"`
	// Devices are the devices that the task will use. The container gets all that the agent gave
	// it; the request fails if one of these is missing there.
	Devices []string `json:"devices"`
}

// ContainerClaim describes a container that holds devices and that no module reported: its
// executor claimed them, or it was found with them.
type ContainerClaim struct {
	// ContainerDevices are the container, its owner, and what it holds.
	gpu.ContainerDevices
	// PID is the executor's process and StartTicks its start time in the kernel's clock ticks
	// since the boot, which distinguishes it from a later process with the same number. Both are 0 if the
	// process is not known.
	PID        int
	StartTicks uint64
}

// DeviceHeldError is returned for a device that other containers hold.
type DeviceHeldError struct {
	// Container is the container that is refused.
	Container, Device string
	// Holders are the containers that hold the device, its GPU or a MIG device of it.
	Holders []gpu.ContainerDevices
	// Reason is the allocation's own text.
	Reason error
	// mark: the message has job.MarkMachineFault's mark, because nothing else of the error reaches the scheduler.
	mark bool
}

func (e *DeviceHeldError) Error() string {
	if e.mark {
		return job.MarkMachineFault(e.describe(), job.DeviceHeld)
	}
	return e.describe()
}

func (e *DeviceHeldError) describe() string {
	if len(e.Holders) == 0 {
		return e.Reason.Error()
	}
	var names []string
	for _, h := range e.Holders {
		names = append(names, DescribeHolder(h))
	}
	text := fmt.Sprintf("GPU %s is held by %s", e.Device, strings.Join(names, " and "))
	if e.sharesOnly() {
		text += ": " + e.Reason.Error() // with the amounts
	}
	return text + ": end the holder or wait for its end; mesos-gpu agent devices on this machine shows it"
}

func (e *DeviceHeldError) Unwrap() error { return e.Reason }

// sharesOnly reports whether each holder has a share of the device: too little of it is free.
func (e *DeviceHeldError) sharesOnly() bool {
	return !slices.ContainsFunc(e.Holders, func(h gpu.ContainerDevices) bool {
		return !slices.ContainsFunc(h.Shares, func(s gpu.DeviceShare) bool { return s.UUID == e.Device })
	})
}

// DescribeHolder returns "container c1 (task t of framework f, job j)", with the parts that are known.
func DescribeHolder(h gpu.ContainerDevices) string {
	owner := ""
	switch {
	case h.Task != "":
		owner = "task " + h.Task
	case h.Executor != "":
		owner = "executor " + h.Executor
	}
	if owner != "" && h.Framework != "" {
		owner += " of framework " + h.Framework
	}
	if h.Job != "" {
		owner += ", job " + h.Job
	}
	if owner = strings.TrimPrefix(owner, ", "); owner == "" {
		return "container " + h.Container
	}
	return fmt.Sprintf("container %s (%s)", h.Container, owner)
}

// request returns the claim as a request: Shares, and whole devices.
func (c ContainerClaim) request() allocation.DeviceRequest {
	r := allocation.DeviceRequest{Shares: allocation.UnionShares(nil, c.Shares)}
	for _, d := range c.Devices {
		if !slices.ContainsFunc(c.Shares, func(s gpu.DeviceShare) bool { return s.UUID == d }) {
			r.Named = append(r.Named, d)
		}
	}
	slices.Sort(r.Named)
	return r
}

func (c ContainerClaim) info() containerInfo {
	return containerInfo{
		Framework: c.Framework, Executor: c.Executor, Task: c.Task, Job: c.Job,
		Claimed: true, PID: c.PID, StartTicks: c.StartTicks,
	}
}

// CheckPrepared reports whether the module has prepared the container, and with which devices. The
// error is a *allocation.RejectedError if the container does not hold one of the devices.
func (m *Manager) CheckPrepared(container string, devices []string) (holder gpu.ContainerDevices, prepared bool, err error) {
	if err := CheckID(container); err != nil {
		return gpu.ContainerDevices{}, false, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.isKnown(container) || m.infos[container].Claimed {
		return gpu.ContainerDevices{}, false, nil
	}
	held := m.allocations.EffectiveDevices(container)
	for _, d := range devices {
		if !slices.Contains(held, d) {
			return gpu.ContainerDevices{}, true, &allocation.RejectedError{Why: fmt.Sprintf("container %s was prepared with %d GPUs, and %s is not one of them",
				container, len(held), d)}
		}
	}
	_, shares := m.allocations.EffectiveShares(container)
	return m.infos[container].describeHolder(container, held, shares), true, nil
}

// ClaimDevices allocates the devices to a container without the module. Of several containers
// that claim a device at the same time one succeeds. A repeated call changes nothing; one with
// other devices replaces them. The error is a *DeviceHeldError if another container holds one, and
// a *allocation.RejectedError if the container cannot have them for another reason.
func (m *Manager) ClaimDevices(c ContainerClaim) error {
	wrap := func(err error) error { return fmt.Errorf("claim devices for container %s: %w", c.Container, err) }
	if err := checkClaimID(c.Container); err != nil {
		return err
	}
	defer m.lockRoot(c.Container)()
	info := c.info()
	t, err := m.begin(c.Container, c.request(), &info)
	if err != nil {
		return wrap(err)
	}
	if err := t.commit(); err != nil {
		return wrap(errors.Join(err, t.rollBack()))
	}
	return nil
}

// AdoptContainer records what a container holds that runs already, whether or not another
// container holds the same device. Without devices the container is released.
func (m *Manager) AdoptContainer(c ContainerClaim) error {
	if err := checkClaimID(c.Container); err != nil {
		return err
	}
	defer m.lockRoot(c.Container)()
	request := c.request()
	if request.IsEmpty() {
		return m.releaseContainer(c.Container)
	}
	a := allocation.Allocation{Container: c.Container, Named: request.Named, Shares: request.Shares}
	if err := m.records.writeRecord(containerRecord{Allocation: a, Info: c.info()}); err != nil {
		return fmt.Errorf("record the devices of container %s: %w", c.Container, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.allocations.SetAllocations(a)
	m.infos[c.Container] = c.info()
	return nil
}

// ReleaseClaim releases a container of ListClaims. One that the module has prepared since, or that
// is not known, is left as it is.
func (m *Manager) ReleaseClaim(container string) error {
	if err := checkClaimID(container); err != nil {
		return err
	}
	defer m.lockRoot(container)()
	if !m.isClaimed(container) {
		return nil
	}
	return m.releaseContainer(container)
}

// ListClaims returns the containers that hold devices without the module.
func (m *Manager) ListClaims() []ContainerClaim {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []ContainerClaim
	for _, a := range m.allocations.ListAll() {
		if info := m.infos[a.Container]; info.Claimed {
			list = append(list, ContainerClaim{info.describeHolder(a.Container, a.Devices(), a.Shares), info.PID, info.StartTicks})
		}
	}
	return list
}

func (m *Manager) isClaimed(container string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.infos[container].Claimed
}

// checkClaimID rejects nested containers: they use the devices of their executor's container.
func checkClaimID(container string) error {
	if err := CheckID(container); err != nil {
		return err
	}
	if parent := allocation.ParentID(container); parent != "" {
		return &InvalidContainerError{fmt.Sprintf("container %s is nested: claim devices for %s", container, allocation.RootID(container))}
	}
	return nil
}

// nameHolders turns an error about a held device into a *DeviceHeldError.
func (m *Manager) nameHolders(container string, err error) error {
	rejected := (*allocation.RejectedError)(nil)
	if !errors.As(err, &rejected) || rejected.Held == "" {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	held := &DeviceHeldError{Container: container, Device: rejected.Held, Reason: rejected}
	for _, id := range m.allocations.ListConflicts(container, rejected.Held) {
		a, _ := m.allocations.Get(id)
		held.Holders = append(held.Holders, m.infos[id].describeHolder(id, a.Devices(), a.Shares))
	}
	return held
}
