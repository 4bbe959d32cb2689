package fit

import "slices"

// deviceLayout is what an agent's hardware is with more devices than it lists.
// Tasks that are thought to end bring the same ones again and again.
type deviceLayout struct {
	extraIDs []string
	hardware *hardwareClass
	uuids    []string // by slot
}

// maxLayouts bounds what is remembered of one agent.
const maxLayouts = 4

// findLayout finds the kind of an agent and its devices by slot. Nobody changes
// what it is given, nor what it returns.
func (w *clusterIndex) findLayout(i int, more []string) (*hardwareClass, []string) {
	if !slices.ContainsFunc(more, func(id string) bool { return !w.agents[i].listsDevice(id) }) {
		more = nil // what the agent lists changes nothing
	}
	known := w.layouts[i]
	for at := range known {
		if slices.Equal(known[at].extraIDs, more) {
			return known[at].hardware, known[at].uuids
		}
	}
	a := &w.agents[i]
	devices := devicesOf(a, more)
	f := deviceLayout{extraIDs: more, hardware: w.findHardwareClass(a, devices), uuids: make([]string, len(devices))}
	for s := range devices {
		f.uuids[s] = devices[s].UUID
	}
	if len(known) >= maxLayouts {
		known = known[:0]
	}
	w.layouts[i] = append(known, f)
	return f.hardware, f.uuids
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

// sameHardware reports whether b is told of in the same words as a, but for what they
// have free: it is then the same kind whatever devices are added to both. It
// looks at no list that may be long, and says no where it does not know.
func (a *AgentResources) sameHardware(b *AgentResources) bool {
	return a.HasGPUs() == b.HasGPUs() && a.Divisible == b.Divisible && a.Driver == b.Driver && a.CUDA == b.CUDA &&
		slices.Equal(a.Types, b.Types) && sameList(a.Inventory, b.Inventory) && sameList(a.Attributes, b.Attributes)
}

// isUnchanged reports whether nothing that a room is made of has changed.
func (a *AgentResources) isUnchanged(b *AgentResources) bool {
	return a.sameHardware(b) && a.Free == b.Free && a.GPUs == b.GPUs && a.TotalGPUs == b.TotalGPUs && a.Unavailable.Equal(b.Unavailable) &&
		slices.Equal(a.DeviceIDs, b.DeviceIDs) && slices.Equal(a.Shared, b.Shared) && slices.Equal(a.AllShared, b.AllShared) && slices.Equal(a.Ports, b.Ports)
}

// sameList reports whether two lists are one, or both empty.
func sameList[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
