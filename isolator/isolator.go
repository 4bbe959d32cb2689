// Package isolator decides which GPUs one container may open. Its state is
// the task's resources: gpu_ids names the devices, and Mesos has seen to it
// that no two tasks hold one. So it keeps no books, takes nothing back, and
// never trusts an environment variable; what it decided the kernel enforces.
package isolator

import (
	"errors"
	"fmt"
	"path/filepath"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/cgroup"
	"mesos-gpu/isolator/rules"
	"mesos-gpu/isolator/simulated"
)

// Config describes the machine.
type Config struct {
	Host gpu.Host
	// ProcRoot is where procfs is; empty means /proc.
	ProcRoot string
}

func (c Config) withDefaults() Config {
	if c.ProcRoot == "" {
		c.ProcRoot = "/proc"
	}
	return c
}

// Isolator turns resources into device rules, and writes them.
type Isolator struct {
	host      gpu.Host
	uvmMajor  uint32
	devices   cgroup.V1
	noDevices error // why there is no devices hierarchy
}

// Grant is what one container gets.
type Grant struct {
	// Nodes are the GPU nodes of the whole host, and the control nodes. All
	// may stand in a container's /dev: Rules tell them apart.
	Nodes []rules.Node
	// Rules are what the container may open, and nothing else.
	Rules []rules.Rule
	// Devices are the GPUs among them.
	Devices []gpu.Device
}

// New checks the host and finds the device numbers of its nodes. A host with
// GPUs whose nvidia-uvm module is not loaded is an error: CUDA cannot start
// there.
func New(cfg Config) (*Isolator, error) {
	cfg = cfg.withDefaults()
	if err := check(cfg.Host); err != nil {
		return nil, fmt.Errorf("isolate GPUs of this host: %w", err)
	}
	i := &Isolator{host: cfg.Host}
	i.devices.Root, i.noDevices = cgroup.Mounted(filepath.Join(cfg.ProcRoot, "self", "mountinfo"))
	switch {
	case cfg.Host.Simulated:
		i.uvmMajor = simulated.UVMMajor
	case len(cfg.Host.Devices) > 0:
		major, err := majorOf(filepath.Join(cfg.ProcRoot, "devices"), "nvidia-uvm")
		if err != nil {
			return nil, fmt.Errorf("%w; load it: nvidia-modprobe -u -c=0", err)
		}
		i.uvmMajor = major
	}
	return i, nil
}

// check refuses a host on which a name or a node would mean two devices.
func check(h gpu.Host) error {
	uuids, minors := map[string]bool{}, map[int]string{}
	for _, d := range h.Devices {
		if d.UUID == "" || uuids[d.UUID] {
			return fmt.Errorf("two devices have the UUID %q, or it is empty", d.UUID)
		}
		if other, taken := minors[d.Minor]; taken {
			return fmt.Errorf("devices %s and %s have one minor number, %d", other, d.UUID, d.Minor)
		}
		uuids[d.UUID], minors[d.Minor] = true, d.UUID
	}
	return nil
}

// Prepare tells what a container with those resources may open: gpus is the
// scalar, ids the items of gpu_ids. The two must agree.
func (i *Isolator) Prepare(container string, gpus int, ids []string) (Grant, error) {
	if gpus != len(ids) {
		return Grant{}, fmt.Errorf("prepare container %s: it has gpus:%d and %d gpu_ids; a task must take one gpu_ids item for each of its gpus",
			container, gpus, len(ids))
	}
	devices, err := i.host.ByUUID(ids)
	if err != nil {
		return Grant{}, fmt.Errorf("prepare container %s: %w", container, err)
	}
	list, err := rules.ForGPUs(i.host, i.uvmMajor, ids)
	if err != nil {
		return Grant{}, fmt.Errorf("prepare container %s: %w", container, err)
	}
	return Grant{Nodes: rules.Nodes(i.host, i.uvmMajor), Rules: list, Devices: devices}, nil
}

// Isolate creates the container's device cgroup where it is not there yet,
// confines it to the grant and reads back what the kernel made of it.
// cgroupPath is below the devices hierarchy: "mesos/CONTAINER".
func (i *Isolator) Isolate(cgroupPath string, g Grant) error {
	if len(g.Rules) == 0 {
		return errors.New("isolate " + cgroupPath + ": the grant has no rules; it must come from Prepare")
	}
	if i.noDevices != nil {
		return fmt.Errorf("isolate %s: %w", cgroupPath, i.noDevices)
	}
	if err := i.devices.Create(cgroupPath); err != nil {
		return err
	}
	return i.devices.Confine(cgroupPath, g.Rules)
}
