//go:build linux && cgo

package nvml

import (
	"cmp"
	"fmt"
	"slices"

	"mesos-gpu/gpu"
)

// describeFailure is why a GPU that NVML counts cannot be described. uuid is empty if it could not
// be read.
type describeFailure struct {
	uuid string
	err  error
}

// findLost returns the devices that were described before and are not found now, and the GPUs that
// NVML counts and that were never described. A GPU in whose slot another one is was replaced, and is
// not lost.
func (s *nvmlSession) findLost(found []physicalGPU, failures []describeFailure) []gpu.LostDevice {
	var lost []gpu.LostDevice
	for _, d := range s.missingGPUs(found) {
		reason := s.missingReason(d.PCI)
		i := slices.IndexFunc(failures, func(f describeFailure) bool { return f.uuid == physicalUUID(d) })
		if i < 0 { // NVML numbers GPUs by their PCI addresses, and a GPU that cannot be opened has only its number
			i = slices.IndexFunc(failures, func(f describeFailure) bool { return f.uuid == "" })
		}
		if i >= 0 {
			reason = failures[i].err.Error()
			failures = slices.Delete(failures, i, i+1)
		}
		for _, known := range s.cfg.Known {
			if physicalUUID(known) == physicalUUID(d) {
				lost = append(lost, gpu.LostDevice{Device: known, Reason: reason})
			}
		}
	}
	for _, f := range failures {
		lost = append(lost, gpu.LostDevice{Device: gpu.Device{UUID: f.uuid, Minor: -1, NUMA: -1}, Reason: f.err.Error()})
	}
	return lost
}

// missingGPUs returns one device of each known GPU that is not found, sorted by PCI address.
func (s *nvmlSession) missingGPUs(found []physicalGPU) []gpu.Device {
	var missing []gpu.Device
	for _, d := range s.cfg.Known {
		uuid := physicalUUID(d)
		isHere := func(w physicalGPU) bool { return w.device.UUID == uuid || w.device.PCI == d.PCI }
		isSame := func(m gpu.Device) bool { return physicalUUID(m) == uuid }
		if !slices.ContainsFunc(found, isHere) && !slices.ContainsFunc(missing, isSame) {
			missing = append(missing, d)
		}
	}
	slices.SortFunc(missing, func(a, b gpu.Device) int { return cmp.Compare(a.PCI, b.PCI) })
	return missing
}

// missingReason describes a known GPU that NVML does not count.
func (s *nvmlSession) missingReason(pci string) string {
	if s.bus.readPresence(pci) == presenceAbsent {
		return fmt.Sprintf("it is not on the PCI bus at %s", pci)
	}
	return fmt.Sprintf("it is on the PCI bus at %s, and the driver does not list it", pci)
}

// physicalUUID returns the UUID of the GPU that a device is, or is a slice of.
func physicalUUID(d gpu.Device) string {
	if d.MIG != nil {
		return d.MIG.Parent
	}
	return d.UUID
}
