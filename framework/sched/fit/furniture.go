package fit

import "slices"

// furniture is what an agent's hardware is with more devices than it lists.
// Tasks that are thought to end bring the same ones again and again.
type furniture struct {
	more  []string
	kind  *kind
	uuids []string // by slot
}

// maxFurniture bounds what is remembered of one agent.
const maxFurniture = 4

// furniture finds the kind of an agent and its devices by slot. Nobody changes
// what it is given, nor what it returns.
func (w *world) furniture(i int, more []string) (*kind, []string) {
	if !slices.ContainsFunc(more, func(id string) bool { return !w.agents[i].lists(id) }) {
		more = nil // what the agent lists changes nothing
	}
	known := w.furnished[i]
	for at := range known {
		if slices.Equal(known[at].more, more) {
			return known[at].kind, known[at].uuids
		}
	}
	a := &w.agents[i]
	devices := devicesOf(a, more)
	f := furniture{more: more, kind: w.kind(a, devices), uuids: make([]string, len(devices))}
	for s := range devices {
		f.uuids[s] = devices[s].UUID
	}
	if len(known) >= maxFurniture {
		known = known[:0]
	}
	w.furnished[i] = append(known, f)
	return f.kind, f.uuids
}

// lists reports whether a device is in the agent's inventory.
func (a *Agent) lists(id string) bool {
	for d := range a.Inventory {
		if a.Inventory[d].UUID == id {
			return id != ""
		}
	}
	return false
}

// same reports whether b is told of in the same words as a, but for what they
// have free: it is then the same kind whatever devices are added to both. It
// looks at no list that may be long, and says no where it does not know.
func (a *Agent) same(b *Agent) bool {
	return a.HasGPUs() == b.HasGPUs() && a.Divisible == b.Divisible && a.Driver == b.Driver && a.CUDA == b.CUDA &&
		slices.Equal(a.Types, b.Types) && isList(a.Inventory, b.Inventory) && isList(a.Attributes, b.Attributes)
}

// stays reports whether nothing that a room is made of has changed.
func (a *Agent) stays(b *Agent) bool {
	return a.same(b) && a.Free == b.Free && a.GPUs == b.GPUs && a.TotalGPUs == b.TotalGPUs && a.Unavailable.Equal(b.Unavailable) &&
		slices.Equal(a.DeviceIDs, b.DeviceIDs) && slices.Equal(a.Shared, b.Shared) && slices.Equal(a.AllShared, b.AllShared) && slices.Equal(a.Ports, b.Ports)
}

// isList reports whether two lists are one, or both empty.
func isList[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
