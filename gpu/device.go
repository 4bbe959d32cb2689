// Package gpu holds the values that describe GPUs: devices, hosts, requests for
// devices, health and usage. It defines their meaning and their encoding. It
// never reads hardware and never places a job.
package gpu

import (
	"fmt"
	"slices"
)

// Device is one GPU as NVML reports it.
type Device struct {
	// UUID identifies the hardware and stays the same across reboots, for
	// example "GPU-5e7f8c9a-…". It names the device in Mesos resources.
	UUID string `json:"uuid"`
	// Model is the product name NVML gives, for example "Tesla V100-SXM2-16GB".
	Model string `json:"model"`
	// Arch is the CUDA compute capability ("7.0") and Brand is NVML's name of
	// the product line ("tesla"), as NVIDIA_REQUIRE_* compares them. They are
	// empty if the driver does not report them.
	Arch  string `json:"arch,omitempty"`
	Brand string `json:"brand,omitempty"`
	// MemMiB is the size of the device's frame buffer.
	MemMiB int64 `json:"mem_mib"`
	// Minor is the N of /dev/nvidiaN. It may differ from NVML's index.
	Minor int `json:"minor"`
	// PCI is the bus address, for example "0000:3b:00.0".
	PCI string `json:"pci,omitempty"`
	// NUMA is the device's NUMA node, or -1 if the platform does not report one.
	NUMA int `json:"numa"`
	// NVLinks counts the direct NVLink connections to other devices of the
	// host, by UUID. Devices behind the same NVSwitch list each other.
	NVLinks map[string]int `json:"nvlinks,omitempty"`
	// Paths is the PCIe connection to each other device of the host that is not
	// in NVLinks, by UUID.
	Paths map[string]PCIePath `json:"paths,omitempty"`
	// MIG is set if the device is a slice of a GPU. Minor, PCI and NUMA then
	// describe the GPU.
	MIG *MIG `json:"mig,omitempty"`
	// Persistence is true if the driver keeps the device initialised while no
	// process uses it.
	Persistence bool `json:"persistence,omitempty"`
}

// PCIePath is the kind of PCIe connection between two devices, by the
// abbreviations of `nvidia-smi topo -m`. The constants go from near to far.
type PCIePath string

const (
	SameBoard       PCIePath = "PSB"  // two devices of one board
	OneBridge       PCIePath = "PIX"  // at most one PCIe bridge
	ManyBridges     PCIePath = "PXB"  // several PCIe bridges, no host bridge
	HostBridge      PCIePath = "PHB"  // a PCIe host bridge, the CPU's
	SameNUMANode    PCIePath = "NODE" // several host bridges of one NUMA node
	AcrossNUMANodes PCIePath = "SYS"  // the link between NUMA nodes
)

// MIG describes a device that is a slice of a GPU (NVIDIA Multi-Instance GPU User
// Guide). A process needs three device nodes to use it: the GPU's, and two
// capability nodes /dev/nvidia-caps/nvidia-capN.
type MIG struct {
	// Parent is the UUID of the GPU.
	Parent string `json:"parent"`
	// Profile is NVIDIA's name for the slice: "1g.5gb".
	Profile string `json:"profile"`
	// GPUInstance and ComputeInstance are the ids on the GPU.
	GPUInstance     int `json:"gi"`
	ComputeInstance int `json:"ci"`
	// GPUInstanceCap and ComputeInstanceCap are the minor numbers of the
	// capability nodes.
	GPUInstanceCap     int `json:"gi_cap"`
	ComputeInstanceCap int `json:"ci_cap"`
}

// Type is the short name of the model: "V100" for "Tesla V100-SXM2-16GB".
func (d Device) Type() string { return TypeOf(d.Model) }

func (d Device) String() string {
	return fmt.Sprintf("%s %s /dev/nvidia%d", d.UUID, d.Model, d.Minor)
}

// Host describes the GPUs and the driver of one machine.
type Host struct {
	// Driver is the version of the kernel driver ("535.104.05"). CUDA is the
	// newest runtime that it supports ("12.2").
	Driver string `json:"driver"`
	CUDA   string `json:"cuda"`
	// Simulated hosts have device nodes without a driver.
	Simulated bool     `json:"simulated,omitempty"`
	Devices   []Device `json:"devices"`
	// PathsTrimmed reports that the devices have only the paths that their NUMA
	// nodes do not imply.
	PathsTrimmed bool `json:"paths_trimmed,omitempty"`
	// Withheld are devices of the host that are not in Devices because they are
	// not offered. Only an agent that checks the health of its devices sets it.
	Withheld []WithheldDevice `json:"-"`
	// Lost are devices that the machine has or had and that its driver cannot
	// describe now. They are not in Devices.
	Lost []LostDevice `json:"-"`
}

// LostDevice is a device that the driver cannot describe, for example because it
// has fallen off the bus.
type LostDevice struct {
	// Device is the device as it was described before. If it never was, Model is
	// empty, Minor is -1, and UUID may be empty.
	Device Device `json:"device"`
	// Reason is why the device cannot be described.
	Reason string `json:"reason"`
}

// IsKnown reports whether the device was described before.
func (l LostDevice) IsKnown() bool { return l.Device.Model != "" }

// WithLost returns the host with the lost devices that were described before
// among its devices, in the order of the PCI addresses. A lost device whose minor
// number another device has now gets the minor number -1. Lost stays as it is.
func (h Host) WithLost() Host {
	all := slices.Clone(h.Devices)
	for _, l := range h.Lost {
		if !l.IsKnown() {
			continue
		}
		lost := l.Device
		if slices.ContainsFunc(h.Devices, func(d Device) bool { return d.Minor == lost.Minor }) {
			lost.Minor = -1
		}
		at := slices.IndexFunc(all, func(d Device) bool { return d.PCI > lost.PCI })
		if at < 0 {
			at = len(all)
		}
		all = slices.Insert(all, at, lost)
	}
	h.Devices = all
	return h
}

// WithoutLost reverts WithLost.
func (h Host) WithoutLost() Host {
	h.Devices = slices.DeleteFunc(slices.Clone(h.Devices), func(d Device) bool {
		return slices.ContainsFunc(h.Lost, func(l LostDevice) bool { return l.Device.UUID == d.UUID })
	})
	return h
}

// Types lists the short names on the host, each once, in device order.
func (h Host) Types() []string {
	var types []string
	seen := map[string]bool{}
	for _, d := range h.Devices {
		if t := d.Type(); !seen[t] {
			seen[t] = true
			types = append(types, t)
		}
	}
	return types
}

// WithDevices returns the host with only the given devices, in the host's order.
func (h Host) WithDevices(devices []Device) Host {
	var kept []Device
	for _, d := range h.Devices {
		if slices.ContainsFunc(devices, func(k Device) bool { return k.UUID == d.UUID }) {
			kept = append(kept, d)
		}
	}
	h.Devices = kept
	return h
}

// ByUUID returns the devices with these UUIDs, in the same order. The error names
// the first UUID that the host does not have.
func (h Host) ByUUID(uuids []string) ([]Device, error) {
	byUUID := make(map[string]Device, len(h.Devices))
	for _, d := range h.Devices {
		byUUID[d.UUID] = d
	}
	devices := make([]Device, 0, len(uuids))
	for _, id := range uuids {
		d, ok := byUUID[id]
		if !ok {
			return nil, fmt.Errorf("device %s is not among this host's %d GPUs", id, len(h.Devices))
		}
		devices = append(devices, d)
	}
	return devices, nil
}
