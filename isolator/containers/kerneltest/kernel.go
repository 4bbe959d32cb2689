// Package kerneltest is a kernel in memory for tests of containers: cgroups
// that know which devices their processes may open, by the rules of cgroup
// version 1. It confines nothing.
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

// Kernel implements containers.Kernel. It may be used by several at a time.
type Kernel struct {
	// Host are the devices there are; the index of each is its minor number.
	Host []string
	// Fail, where set, is asked before each call on a cgroup.
	Fail func(call, cgroup string) error

	mu      sync.Mutex
	cgroups map[string]group
}

type group struct {
	open    bool // nobody confined it
	devices []string
	pids    []int
}

// New is a kernel with those devices and the cgroup of the agent.
func New(host ...string) *Kernel {
	return &Kernel{Host: host, cgroups: map[string]group{"mesos": {open: true}}}
}

func (k *Kernel) call(call, cgroup string) error {
	if k.Fail == nil {
		return nil
	}
	return k.Fail(call, cgroup)
}

// Make makes a cgroup as Mesos does, confined to no devices.
func (k *Kernel) Make(cgroup string) { k.put(cgroup, group{}) }

// MakeOpen makes one that nobody confined.
func (k *Kernel) MakeOpen(cgroup string) { k.put(cgroup, group{open: true}) }

func (k *Kernel) put(cgroup string, g group) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.make(cgroup)
	k.cgroups[cgroup] = g
}

// make makes a cgroup and those above it that are not there; each begins with
// what its parent may.
func (k *Kernel) make(cgroup string) group {
	g, ok := k.cgroups[cgroup]
	if !ok && cgroup == "." {
		return group{open: true}
	}
	if !ok {
		g = k.make(path.Dir(cgroup))
		g.devices, g.pids = slices.Clone(g.devices), nil
		k.cgroups[cgroup] = g
	}
	return g
}

// Destroy removes a cgroup and those below it, as Mesos does once their
// processes are gone.
func (k *Kernel) Destroy(cgroup string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.cgroups, func(name string, _ group) bool { return name == cgroup || strings.HasPrefix(name, cgroup+"/") })
}

// Confined tells each confined cgroup's devices.
func (k *Kernel) Confined() map[string][]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := map[string][]string{}
	for name, g := range k.cgroups {
		if !g.open {
			all[name] = slices.Clone(g.devices)
		}
	}
	return all
}

// Processes are those that Enter put into the cgroup.
func (k *Kernel) Processes(cgroup string) []int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.cgroups[cgroup].pids)
}

// Nodes implements containers.Kernel.
func (k *Kernel) Nodes(devices []string) ([]rules.Node, error) {
	nodes := []rules.Node{}
	for _, d := range devices {
		minor := slices.Index(k.Host, d)
		if minor < 0 {
			return nil, fmt.Errorf("device %s is not among this host's %d GPUs", d, len(k.Host))
		}
		nodes = append(nodes, rules.Node{Name: fmt.Sprintf("nvidia%d", minor), Major: rules.NvidiaMajor, Minor: uint32(minor), UUID: d})
	}
	return nodes, nil
}

// Confine implements containers.Kernel.
func (k *Kernel) Confine(cgroup string, devices []string) error {
	if err := k.call("confine", cgroup); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	g := k.make(cgroup)
	above := k.cgroups[path.Dir(cgroup)]
	for _, d := range devices {
		if !above.open && !slices.Contains(above.devices, d) {
			return fmt.Errorf("confine device cgroup %s: the one above it does not have %s", cgroup, d)
		}
	}
	g.open, g.devices = false, slices.Clone(devices)
	k.cgroups[cgroup] = g
	for name, below := range k.cgroups { // what a parent loses its children lose
		if strings.HasPrefix(name, cgroup+"/") {
			below.devices = slices.DeleteFunc(slices.Clone(below.devices), func(d string) bool { return !slices.Contains(devices, d) })
			k.cgroups[name] = below
		}
	}
	return nil
}

// Enter implements containers.Kernel.
func (k *Kernel) Enter(cgroup string, pid int) error {
	if err := k.call("enter", cgroup); err != nil {
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

// Holding implements containers.Kernel.
func (k *Kernel) Holding(cgroup string) ([]string, error) {
	if err := k.call("holding", cgroup); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	g, ok := k.cgroups[cgroup]
	switch {
	case !ok:
		return nil, fmt.Errorf("read device cgroup %s: %w", cgroup, fs.ErrNotExist)
	case g.open:
		return nil, fmt.Errorf("read device cgroup %s: nobody confined it", cgroup)
	}
	return slices.Clone(g.devices), nil
}

// Rules implements containers.Kernel.
func (k *Kernel) Rules(cgroup string) ([]rules.Rule, error) {
	k.mu.Lock()
	open := k.cgroups[cgroup].open
	k.mu.Unlock()
	if open {
		return []rules.Rule{{Kind: 'a', Major: rules.Any, Minor: rules.Any, Access: "rwm"}}, nil
	}
	held, err := k.Holding(cgroup)
	if err != nil {
		return nil, err
	}
	var list []rules.Rule
	for _, d := range held {
		list = append(list, rules.Rule{Kind: 'c', Major: rules.NvidiaMajor, Minor: int64(slices.Index(k.Host, d)), Access: "rw"})
	}
	return list, nil
}

// Remove implements containers.Kernel. The cgroup itself stays: it is Mesos's.
func (k *Kernel) Remove(cgroup string) error {
	if err := k.call("remove", cgroup); err != nil {
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

// Below implements containers.Kernel.
func (k *Kernel) Below(cgroup string) ([]string, error) {
	if err := k.call("below", cgroup); err != nil {
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
