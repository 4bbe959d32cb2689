// Package gpu holds the nouns of the project: devices, the hosts that carry
// them, the requests people make and the words GPU types are named by. It
// decides only what a name means; it reads no hardware and places no job.
package gpu

import (
	"fmt"
	"slices"
)

// Device is one GPU as NVML reports it.
type Device struct {
	// UUID is the identity that stays with the hardware across reboots,
	// for example "GPU-5e7f8c9a-…". It names the device in Mesos resources.
	UUID string `json:"uuid"`
	// Model is the product name NVML gives, for example "Tesla V100-SXM2-16GB".
	Model string `json:"model"`
	// Arch is the CUDA compute capability, "7.0", and Brand NVML's word for
	// the product line, "tesla", both as NVIDIA_REQUIRE_* compares them. They
	// are empty where the driver does not tell.
	Arch  string `json:"arch,omitempty"`
	Brand string `json:"brand,omitempty"`
	// MemMiB is the device's whole frame buffer.
	MemMiB int64 `json:"mem_mib"`
	// Minor is the N of /dev/nvidiaN. NVML's index may differ from it.
	Minor int `json:"minor"`
	// PCI is the bus address, for example "0000:3b:00.0".
	PCI string `json:"pci,omitempty"`
	// NUMA is the node the device hangs on, -1 where the platform does not say.
	NUMA int `json:"numa"`
	// NVLinks counts the direct NVLink connections to other devices of the
	// host, by their UUIDs. Devices behind one NVSwitch list each other.
	NVLinks map[string]int `json:"nvlinks,omitempty"`
	// Paths tells how data gets to each other device of the host where no
	// NVLink carries it, by their UUIDs.
	Paths map[string]PCIePath `json:"paths,omitempty"`
	// MIG is set where the device is a slice of a GPU. Minor, PCI and NUMA
	// are then the whole GPU's.
	MIG *MIG `json:"mig,omitempty"`
	// Persistence tells that the driver keeps the device initialised while
	// nobody uses it.
	Persistence bool `json:"persistence,omitempty"`
}

// PCIePath is the way over PCIe between two devices, in the words of
// `nvidia-smi topo -m`, nearest first.
type PCIePath string

const (
	SameBoard       PCIePath = "PSB"  // two devices of one board
	OneBridge       PCIePath = "PIX"  // at most one PCIe bridge
	ManyBridges     PCIePath = "PXB"  // several PCIe bridges, no host bridge
	HostBridge      PCIePath = "PHB"  // a PCIe host bridge, the CPU's
	SameNUMANode    PCIePath = "NODE" // several host bridges of one NUMA node
	AcrossNUMANodes PCIePath = "SYS"  // the link between NUMA nodes
)

// MIG says what slice of which GPU a device is (NVIDIA Multi-Instance GPU
// User Guide). Reaching it takes the GPU's own node and two capability nodes,
// /dev/nvidia-caps/nvidia-capN.
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

// Type is the short name people ask for: "V100" for "Tesla V100-SXM2-16GB".
func (d Device) Type() string { return TypeOf(d.Model) }

func (d Device) String() string {
	return fmt.Sprintf("%s %s /dev/nvidia%d", d.UUID, d.Model, d.Minor)
}

// Host is what one machine offers.
type Host struct {
	// Driver is the kernel driver's version, "535.104.05", and CUDA the
	// highest runtime it serves, "12.2".
	Driver string `json:"driver"`
	CUDA   string `json:"cuda"`
	// Simulated hosts have device nodes that no driver serves.
	Simulated bool     `json:"simulated,omitempty"`
	Devices   []Device `json:"devices"`
	// Withheld are devices that are there and not among Devices, where who
	// watches the host says so.
	Withheld []WithheldDevice `json:"-"`
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

// WithDevices is the host with no other devices than those given, in its own order.
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

// ByUUID finds the devices named, in the order named. The error names the
// first that the host does not have.
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
