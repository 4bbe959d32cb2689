package fit

import "slices"

// deviceLayout is an agent's hardware together with devices that it does not
// list. Forecasts of ending tasks add the same devices repeatedly.
type deviceLayout struct {
	extraIDs []string
	hardware *hardwareClass
	uuids    []string // by slot
}

// newLayout returns the layout of an agent with devices that it may not list.
func (x *clusterIndex) newLayout(a *AgentResources, extraIDs []string) deviceLayout {
	devices := devicesOf(a, extraIDs)
	l := deviceLayout{extraIDs: extraIDs, hardware: x.findHardwareClass(a, devices), uuids: make([]string, len(devices))}
	for s := range devices {
		l.uuids[s] = devices[s].UUID
	}
	return l
}

// listsDevice reports whether a device is in the agent's inventory.
func (a *AgentResources) listsDevice(id string) bool {
	for d := range a.Inventory {
		if a.Inventory[d].UUID == id {
			return id != ""
		}
	}
	return false
}

// sameHardware reports whether a and b describe the same hardware, ignoring free
// resources. It may return false for equal agents: slices that can be long are
// compared by identity.
func (a *AgentResources) sameHardware(b *AgentResources) bool {
	return a.HasGPUs() == b.HasGPUs() && a.Divisible == b.Divisible && a.Driver == b.Driver && a.CUDA == b.CUDA &&
		slices.Equal(a.Types, b.Types) && sameList(a.Inventory, b.Inventory) && sameList(a.Attributes, b.Attributes)
}

// isUnchanged reports whether a and b have equal capacities. Like sameHardware
// it may return false for equal agents.
func (a *AgentResources) isUnchanged(b *AgentResources) bool {
	return a.sameHardware(b) && a.Free == b.Free && a.GPUs == b.GPUs && a.TotalGPUs == b.TotalGPUs && a.Unavailable.Equal(b.Unavailable) &&
		slices.Equal(a.DeviceIDs, b.DeviceIDs) && slices.Equal(a.Shared, b.Shared) && slices.Equal(a.AllShared, b.AllShared) && slices.Equal(a.Ports, b.Ports)
}

// sameList reports whether two slices have the same memory, or are both empty.
func sameList[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
