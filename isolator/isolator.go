// Package isolator decides which GPUs one container may open, and has the
// kernel enforce it. Its input is the devices that somebody granted: gpu_ids
// of the task, or what the ledger chose. It keeps no books itself, reads back
// from the kernel what it made, and never trusts an environment variable.
package isolator

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/rules"
)

// HostConfig describes the machine.
type HostConfig struct {
	Host gpu.Host
	// CgroupVersion says which version of cgroups keeps the device rules: "v1" or
	// "v2". Empty means what Mesos's agent uses: version 2 where that is mounted
	// at /sys/fs/cgroup, else version 1 where its devices hierarchy is mounted
	// anywhere.
	CgroupVersion string
	// ProcRoot is where procfs is, DevRoot where device nodes are; empty
	// means /proc and /dev.
	ProcRoot, DevRoot string
	// Modprobe is NVIDIA's program that loads the driver's modules and makes
	// its nodes; empty means nvidia-modprobe on PATH.
	Modprobe string
}

func (c HostConfig) withDefaults() HostConfig {
	for _, d := range []struct {
		field *string
		value string
	}{{&c.ProcRoot, "/proc"}, {&c.DevRoot, "/dev"}, {&c.Modprobe, "nvidia-modprobe"}} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	return c
}

// Isolator turns devices into rules, and has the kernel keep them. Its
// methods may be called at the same time.
type Isolator struct {
	host     gpu.Host
	driver   driverNodes
	procRoot string

	mu      sync.Mutex // one change to cgroups at a time
	cgroups cgroupHierarchy
}

// DeviceGrant is what one container gets.
type DeviceGrant struct {
	// Nodes are the GPU nodes of the whole host, and the control nodes. All
	// may stand in a container's /dev, for it may grow: Rules tell them apart.
	Nodes []rules.DeviceNode
	// Rules are what the container may open, and nothing else.
	Rules []rules.DeviceRule
	// Devices are the GPUs among them.
	Devices []gpu.Device
}

// New checks the host and finds the device numbers of its nodes. On a host
// with GPUs it has nvidia-modprobe load the nvidia-uvm module and make the
// nodes where they are missing; that this does not help is an error, for CUDA
// cannot start there.
func New(cfg HostConfig) (*Isolator, error) {
	cfg = cfg.withDefaults()
	if err := CheckHost(cfg.Host); err != nil {
		return nil, fmt.Errorf("isolate GPUs of this host: %w", err)
	}
	d, err := findDriver(cfg)
	if err != nil {
		return nil, fmt.Errorf("isolate GPUs of this host: %w", err)
	}
	cgroups, err := chooseHierarchy(cfg.CgroupVersion, filepath.Join(cfg.ProcRoot, "self", "mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("isolate GPUs of this host: %w", err)
	}
	return &Isolator{host: cfg.Host, driver: d, procRoot: cfg.ProcRoot, cgroups: cgroups}, nil
}

// CheckHost refuses a host on which a name or a node would mean two devices. Only
// MIG devices of one GPU share its node.
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

// ResolveTaskGrant tells what a container with those resources may open: gpus is the
// scalar, ids the items of gpu_ids. The two must agree.
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

// ResolveGrant tells what a container that holds those devices may open. A device
// that the host does not have is an error.
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

// DeviceNodes are the nodes that belong into the /dev of a container which holds
// those devices now.
func (i *Isolator) DeviceNodes(ids []string) ([]rules.DeviceNode, error) {
	g, err := i.ResolveGrant(ids)
	return g.Nodes, err
}

// ApplyGrant creates the container's device cgroup where it is not there yet,
// confines it to the grant and reads back what the kernel made of it. What a
// confined cgroup may open besides GPUs stays. cgroupPath is below the mount
// point of the hierarchy: "mesos/CONTAINER".
func (i *Isolator) ApplyGrant(cgroupPath string, g DeviceGrant) error {
	if len(g.Rules) == 0 {
		return errors.New("isolate " + cgroupPath + ": the grant has no rules; it must come from Prepare or Grant")
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := i.cgroups.CreateCgroup(cgroupPath); err != nil {
		return err
	}
	return i.replaceGPURules(cgroupPath, g.Rules)
}

// ConfineToDevices is Isolate for the grant of those devices.
func (i *Isolator) ConfineToDevices(cgroupPath string, ids []string) error {
	g, err := i.ResolveGrant(ids)
	if err != nil {
		return fmt.Errorf("confine device cgroup %s: %w", cgroupPath, err)
	}
	return i.ApplyGrant(cgroupPath, g)
}
