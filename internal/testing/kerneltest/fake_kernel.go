// Package kerneltest is a fake of the kernel for tests of package containers. Its cgroups
// follow the rules of the devices controller of cgroup version 1. It confines no process.
package kerneltest

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"mesos-gpu/isolator/rules"
)

// FakeKernel implements containers.Kernel. It is safe for concurrent use.
type FakeKernel struct {
	// HostDevices are the host's devices. The index of a device is its minor number.
	HostDevices []string
	// FailCall, if set, is called before each call for a cgroup and may fail it.
	FailCall func(call, cgroup string) error

	mu      sync.Mutex
	cgroups map[string]cgroupState
}

type cgroupState struct {
	unconfined bool // no rules apply to it
	devices    []string
	pids       []int
}

// New returns a kernel with those devices and the cgroup of the agent.
func New(host ...string) *FakeKernel {
	return &FakeKernel{HostDevices: host, cgroups: map[string]cgroupState{"mesos": {unconfined: true}}}
}

func (k *FakeKernel) checkFault(operation, cgroup string) error {
	if k.FailCall == nil {
		return nil
	}
	return k.FailCall(operation, cgroup)
}

// MakeConfined creates a cgroup as Mesos does, confined to no devices.
func (k *FakeKernel) MakeConfined(cgroup string) { k.putCgroup(cgroup, cgroupState{}) }

// MakeUnconfined creates an unconfined cgroup.
func (k *FakeKernel) MakeUnconfined(cgroup string) {
	k.putCgroup(cgroup, cgroupState{unconfined: true})
}

func (k *FakeKernel) putCgroup(cgroup string, g cgroupState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ensureCgroup(cgroup)
	k.cgroups[cgroup] = g
}

// ensureCgroup creates a cgroup and missing cgroups above it. A new cgroup starts with its
// parent's devices.
func (k *FakeKernel) ensureCgroup(cgroup string) cgroupState {
	g, ok := k.cgroups[cgroup]
	if !ok && cgroup == "." {
		return cgroupState{unconfined: true}
	}
	if !ok {
		g = k.ensureCgroup(path.Dir(cgroup))
		g.devices, g.pids = slices.Clone(g.devices), nil
		k.cgroups[cgroup] = g
	}
	return g
}

// DestroyCgroup removes a cgroup and those below it, as Mesos does once their processes have
// ended.
func (k *FakeKernel) DestroyCgroup(cgroup string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.cgroups, func(name string, _ cgroupState) bool { return name == cgroup || strings.HasPrefix(name, cgroup+"/") })
}

// ConfinedDevices returns the devices of each confined cgroup.
func (k *FakeKernel) ConfinedDevices() map[string][]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := map[string][]string{}
	for name, g := range k.cgroups {
		if !g.unconfined {
			all[name] = slices.Clone(g.devices)
		}
	}
	return all
}

// ProcessesIn returns the processes that MoveProcess moved into the cgroup.
func (k *FakeKernel) ProcessesIn(cgroup string) []int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.cgroups[cgroup].pids)
}

// DeviceNodes implements containers.Kernel.
func (k *FakeKernel) DeviceNodes(devices []string) ([]rules.DeviceNode, error) {
	nodes := []rules.DeviceNode{}
	for _, d := range devices {
		minor := slices.Index(k.HostDevices, d)
		if minor < 0 {
			return nil, fmt.Errorf("device %s is not among this host's %d GPUs", d, len(k.HostDevices))
		}
		nodes = append(nodes, rules.DeviceNode{Name: fmt.Sprintf("nvidia%d", minor), Major: rules.NvidiaMajor, Minor: uint32(minor), UUID: d})
	}
	return nodes, nil
}

// ConfineToDevices implements containers.Kernel.
func (k *FakeKernel) ConfineToDevices(cgroup string, devices []string) error {
	if err := k.checkFault("confine", cgroup); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	g := k.ensureCgroup(cgroup)
	above := k.cgroups[path.Dir(cgroup)]
	for _, d := range devices {
		if !above.unconfined && !slices.Contains(above.devices, d) {
			return fmt.Errorf("confine device cgroup %s: the one above it does not have %s", cgroup, d)
		}
	}
	g.unconfined, g.devices = false, slices.Clone(devices)
	k.cgroups[cgroup] = g
	for name, below := range k.cgroups { // what a parent loses its children lose
		if strings.HasPrefix(name, cgroup+"/") {
			below.devices = slices.DeleteFunc(slices.Clone(below.devices), func(d string) bool { return !slices.Contains(devices, d) })
			k.cgroups[name] = below
		}
	}
	return nil
}

// MoveProcess implements containers.Kernel.
func (k *FakeKernel) MoveProcess(cgroup string, pid int) error {
	if err := k.checkFault("enter", cgroup); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	g, ok := k.cgroups[cgroup]
	if !ok {
		return fmt.Errorf("enter device cgroup %s: %w", cgroup, fs.ErrNotExist)
	}
	if !slices.Contains(g.pids, pid) {
		g.pids = append(g.pids, pid)
	}
	k.cgroups[cgroup] = g
	return nil
}

// AllowedDevices implements containers.Kernel.
func (k *FakeKernel) AllowedDevices(cgroup string) ([]string, error) {
	if err := k.checkFault("holding", cgroup); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	g, ok := k.cgroups[cgroup]
	switch {
	case !ok:
		return nil, fmt.Errorf("read device cgroup %s: %w", cgroup, fs.ErrNotExist)
	case g.unconfined:
		return nil, fmt.Errorf("read device cgroup %s: it is not confined", cgroup)
	}
	return slices.Clone(g.devices), nil
}

// DeviceRules implements containers.Kernel.
func (k *FakeKernel) DeviceRules(cgroup string) ([]rules.DeviceRule, error) {
	k.mu.Lock()
	open := k.cgroups[cgroup].unconfined
	k.mu.Unlock()
	if open {
		return []rules.DeviceRule{{Kind: 'a', Major: rules.AnyNumber, Minor: rules.AnyNumber, Access: "rwm"}}, nil
	}
	held, err := k.AllowedDevices(cgroup)
	if err != nil {
		return nil, err
	}
	var list []rules.DeviceRule
	for _, d := range held {
		list = append(list, rules.DeviceRule{Kind: 'c', Major: rules.NvidiaMajor, Minor: int64(slices.Index(k.HostDevices, d)), Access: "rw"})
	}
	return list, nil
}

// ReleaseCgroup implements containers.Kernel. The cgroup itself stays: Mesos removes it.
func (k *FakeKernel) ReleaseCgroup(cgroup string) error {
	if err := k.checkFault("remove", cgroup); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, g := range k.cgroups {
		if name == cgroup || strings.HasPrefix(name, cgroup+"/") {
			g.devices = nil
			k.cgroups[name] = g
		}
	}
	return nil
}

// ListChildCgroups implements containers.Kernel.
func (k *FakeKernel) ListChildCgroups(cgroup string) ([]string, error) {
	if err := k.checkFault("below", cgroup); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var names []string
	for name := range k.cgroups {
		if path.Dir(name) == cgroup {
			names = append(names, path.Base(name))
		}
	}
	slices.Sort(names)
	return names, nil
}
