// Package isolator translates the devices that a container was granted into device rules, and
// has the kernel enforce them. The caller decides which devices a container gets: those of the
// task's gpu_ids, or those that package allocation assigned. The package keeps no state of its
// own, reads back from the kernel what it wrote, and never trusts an environment variable.
package isolator

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/rules"
)

// HostConfig describes the host.
type HostConfig struct {
	Host gpu.Host
	// CgroupVersion is the version of cgroups that enforces the device rules: "v1" or "v2".
	// Empty means the version that Mesos's agent uses: version 2 if it is mounted at
	// /sys/fs/cgroup, else version 1 if its devices hierarchy is mounted anywhere.
	CgroupVersion string
	// procRoot is the path of procfs, devRoot that of the device nodes. Empty means /proc and
	// /dev.
	procRoot, devRoot string
	// modprobe is NVIDIA's program that loads the driver's modules and makes its device nodes.
	// Empty means nvidia-modprobe on PATH.
	modprobe string
}

func (c HostConfig) withDefaults() HostConfig {
	for _, d := range []struct {
		field *string
		value string
	}{{&c.procRoot, "/proc"}, {&c.devRoot, "/dev"}, {&c.modprobe, "nvidia-modprobe"}} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	return c
}

// Isolator translates devices into rules and has the kernel enforce them. Its methods may be
// called concurrently.
type Isolator struct {
	host     gpu.Host
	driver   driverNodes
	procRoot string

	mu      sync.Mutex // one change to cgroups at a time
	cgroups cgroupHierarchy
}

// DeviceGrant lists the device nodes that one container may open.
type DeviceGrant struct {
	// Nodes are all GPU nodes of the host, and the control nodes. A container's /dev may
	// contain all of them, because the container may get more devices later. Rules decide which
	// it may open.
	Nodes []rules.DeviceNode
	// Rules list what the container may open. It may open nothing else.
	Rules []rules.DeviceRule
	// Devices are the GPUs that Rules allow.
	Devices []gpu.Device
}

// New checks the host and finds the device numbers of its nodes. On a host with GPUs it runs
// nvidia-modprobe if the nvidia-uvm module is not loaded or nodes are missing. If they are
// still missing then, New fails, because CUDA cannot start.
func New(cfg HostConfig) (*Isolator, error) {
	cfg = cfg.withDefaults()
	if err := CheckHost(cfg.Host); err != nil {
		return nil, fmt.Errorf("isolate GPUs of this host: %w", err)
	}
	d, err := findDriver(cfg)
	if err != nil {
		return nil, fmt.Errorf("isolate GPUs of this host: %w", err)
	}
	cgroups, err := chooseHierarchy(cfg.CgroupVersion, filepath.Join(cfg.procRoot, "self", "mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("isolate GPUs of this host: %w", err)
	}
	return &Isolator{host: cfg.Host, driver: d, procRoot: cfg.procRoot, cgroups: cgroups}, nil
}

// CheckHost returns an error if two devices have one UUID or one node. Only MIG devices of one
// GPU may share its node.
func CheckHost(h gpu.Host) error {
	uuids, minors, caps := map[string]bool{}, map[int]gpu.Device{}, map[int]string{}
	for _, d := range h.Devices {
		if d.UUID == "" || uuids[d.UUID] {
			return fmt.Errorf("two devices have the UUID %q, or it is empty", d.UUID)
		}
		other, taken := minors[d.Minor]
		if taken && (d.MIG == nil || other.MIG == nil || d.MIG.Parent != other.MIG.Parent) {
			return fmt.Errorf("devices %s and %s have one minor number, %d", other.UUID, d.UUID, d.Minor)
		}
		if d.MIG != nil {
			if other, taken := caps[d.MIG.ComputeInstanceCap]; taken {
				return fmt.Errorf("MIG devices %s and %s have one capability node, %d", other, d.UUID, d.MIG.ComputeInstanceCap)
			}
			caps[d.MIG.ComputeInstanceCap] = d.UUID
		}
		uuids[d.UUID], minors[d.Minor] = true, d
	}
	return nil
}

// ResolveTaskGrant returns what a container with those resources may open. gpus is the scalar
// resource, ids are the items of gpu_ids. The two numbers must be equal.
func (i *Isolator) ResolveTaskGrant(container string, gpus int, ids []string) (DeviceGrant, error) {
	if gpus != len(ids) {
		return DeviceGrant{}, fmt.Errorf("prepare container %s: it has gpus:%d and %d gpu_ids; a task must take one gpu_ids item for each of its gpus",
			container, gpus, len(ids))
	}
	g, err := i.ResolveGrant(ids)
	if err != nil {
		return DeviceGrant{}, fmt.Errorf("prepare container %s: %w", container, err)
	}
	return g, nil
}

// ResolveGrant returns what a container with those devices may open. A device that the host
// does not have is an error.
func (i *Isolator) ResolveGrant(ids []string) (DeviceGrant, error) {
	devices, err := i.host.ByUUID(ids)
	if err != nil {
		return DeviceGrant{}, err
	}
	list, err := rules.RulesForGPUs(i.host, i.driver.majors, ids)
	if err != nil {
		return DeviceGrant{}, err
	}
	return DeviceGrant{Nodes: i.driver.nodes, Rules: list, Devices: devices}, nil
}

// DeviceNodes returns the nodes for the /dev of a container with those devices.
func (i *Isolator) DeviceNodes(ids []string) ([]rules.DeviceNode, error) {
	g, err := i.ResolveGrant(ids)
	return g.Nodes, err
}

// ConfineToDevices is ApplyGrant with the grant of those devices.
func (i *Isolator) ConfineToDevices(cgroupPath string, ids []string) error {
	g, err := i.ResolveGrant(ids)
	if err != nil {
		return fmt.Errorf("confine device cgroup %s: %w", cgroupPath, err)
	}
	return i.ApplyGrant(cgroupPath, g)
}

// ApplyGrant creates the container's device cgroup if it does not exist, confines it to the
// grant and reads back the kernel's rules. A confined cgroup keeps its rules for devices other
// than GPUs. cgroupPath is relative to the mount point of the hierarchy: "mesos/CONTAINER".
func (i *Isolator) ApplyGrant(cgroupPath string, g DeviceGrant) error {
	if len(g.Rules) == 0 {
		return errors.New("isolate " + cgroupPath + ": the grant has no rules; it must come from ResolveGrant or ResolveTaskGrant")
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.cgroups.CreateCgroup(cgroupPath); err != nil {
		return err
	}
	now, err := i.cgroups.ReadRules(cgroupPath)
	if err != nil {
		return err
	}
	return i.cgroups.ConfineCgroup(cgroupPath, rules.ReplaceGPURules(now, g.Rules, i.driver.majors))
}
