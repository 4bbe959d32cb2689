//go:build linux && cgo

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"mesos-gpu/gpu"
)

// pathByLevel maps NVML's levels to the terms of `nvidia-smi topo -m`.
var pathByLevel = map[nvml.GpuTopologyLevel]gpu.PCIePath{
	nvml.TOPOLOGY_INTERNAL: gpu.SameBoard, nvml.TOPOLOGY_SINGLE: gpu.OneBridge, nvml.TOPOLOGY_MULTIPLE: gpu.ManyBridges,
	nvml.TOPOLOGY_HOSTBRIDGE: gpu.HostBridge, nvml.TOPOLOGY_NODE: gpu.SameNUMANode, nvml.TOPOLOGY_SYSTEM: gpu.AcrossNUMANodes,
}

// connectGPUs fills in the connections between GPUs: NVLinks, and the PCIe path if there are
// none. GPUs in MIG mode have neither, because MIG devices cannot reach other devices.
func (s *nvmlSession) connectGPUs(wholes []physicalGPU) {
	byAddress := map[string]int{}
	for i, w := range wholes {
		byAddress[w.device.PCI] = i
	}
	direct, switched := make([]map[int]int, len(wholes)), make([]int, len(wholes))
	for i, w := range wholes {
		if !w.mig {
			direct[i], switched[i] = s.countLinks(w.handle, byAddress)
		}
	}
	for i := range wholes {
		for j := range wholes {
			// A link through a switch ends at whatever other GPU has one.
			if n := direct[i][j] + min(switched[i], switched[j]); i != j && n > 0 && !wholes[j].mig {
				putValue(&wholes[i].device.NVLinks, wholes[j].device.UUID, n)
			}
		}
	}
	s.readPaths(wholes)
}

// countLinks counts a GPU's active NVLinks: to each other GPU, by its index in the list, and to
// NVSwitches.
func (s *nvmlSession) countLinks(handle nvml.Device, byAddress map[string]int) (direct map[int]int, switched int) {
	direct = map[int]int{}
	if !s.hasAll("nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkRemotePciInfo_v2") {
		return direct, 0
	}
	for link := range nvml.NVLINK_MAX_LINKS {
		state, ret := handle.GetNvLinkState(link)
		if ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_INVALID_ARGUMENT {
			break // the GPU has no NVLink, or no more
		}
		if ret != nvml.SUCCESS || state != nvml.FEATURE_ENABLED {
			continue
		}
		pci, ret := handle.GetNvLinkRemotePciInfo(link)
		at := pciAddress(pci.Domain, pci.Bus, pci.Device)
		switch peer, ok := byAddress[at]; {
		case s.endsAtSwitch(handle, link, at):
			switched++
		case ok && ret == nvml.SUCCESS:
			direct[peer]++
		}
	}
	return direct, switched
}

func (s *nvmlSession) endsAtSwitch(handle nvml.Device, link int, at string) bool {
	if s.has["nvmlDeviceGetNvLinkRemoteDeviceType"] {
		if kind, ret := handle.GetNvLinkRemoteDeviceType(link); ret == nvml.SUCCESS {
			return kind == nvml.NVLINK_DEVICE_TYPE_SWITCH
		}
	}
	return s.bus.isSwitch(at)
}

// readPaths reads the path of each pair of GPUs once. It is the same in both directions.
func (s *nvmlSession) readPaths(wholes []physicalGPU) {
	if !s.has["nvmlDeviceGetTopologyCommonAncestor"] {
		return
	}
	for i := range wholes {
		for j := range i {
			a, b := &wholes[i].device, &wholes[j].device
			linked := a.NVLinks[b.UUID] > 0 && b.NVLinks[a.UUID] > 0
			if linked || wholes[i].mig || wholes[j].mig {
				continue
			}
			level, ret := wholes[i].handle.GetTopologyCommonAncestor(wholes[j].handle)
			if path, ok := pathByLevel[level]; ok && ret == nvml.SUCCESS {
				putValue(&a.Paths, b.UUID, path)
				putValue(&b.Paths, a.UUID, path)
			}
		}
	}
}

func putValue[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}
