package fit

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"mesos-gpu/gpu"
)

// Offer is the content of a Mesos offer that placement needs.
type Offer struct {
	ID       string
	AgentID  string
	Hostname string
	AgentURL string
	Free     Amount
	// GPUs is the scalar gpus. DeviceIDs are the items of gpu_ids; an agent that
	// offers none offers GPUs by count alone.
	GPUs      int
	DeviceIDs []string
	// Shared is what is free of shared devices.
	Shared []SharedDevice
	// Types are the gpu_type attributes. Inventory is the content of the
	// attribute gpu_inventory.
	Types     []string
	Inventory []gpu.Device
	// Role is the role that the offer is allocated to.
	Role string
	// Driver and CUDA are the host's versions, "" if unknown.
	Driver, CUDA string
	// Attributes are all attributes of the agent, in its order.
	Attributes []Attribute
	// Region and Zone are the agent's fault domain.
	Region, Zone string
	Ports        []PortRange
	// Reserved is set if some of the resources are reserved for a role,
	// Unreserved if some are not.
	Reserved, Unreserved bool
	// Unavailable is when maintenance of the agent starts; zero if none is
	// planned.
	Unavailable time.Time
}

// Attribute is an agent attribute as Marathon's constraints compare it: text
// unchanged, a scalar with at most three decimals, ranges and sets in Mesos's
// notation ("[1-2]", "{a,b}" sorted).
type Attribute struct{ Name, Value string }

// AgentResources is what one agent offers to one role, joined from its offers,
// and the facts about the agent.
type AgentResources struct {
	ID, Hostname, URL, Role string
	// Offers are the offer IDs, sorted; empty for an agent without offers.
	Offers []string
	// Closed is set for an agent that accepts no tasks. It has nothing free.
	// Explanations ignore it, and constraints count the tasks on it.
	Closed bool
	Free   Amount
	// GPUs and DeviceIDs are free. DeviceIDs is empty if the agent offers GPUs
	// by count alone.
	GPUs      int
	DeviceIDs []string
	// Shared is what is free of shared devices. AllShared is the total of each, free or not, where it is known.
	Shared, AllShared []SharedDevice
	// Divisible is set if each of DeviceIDs may be taken whole or in
	// thousandths, as in recorded traces. A device then has 1000 units of
	// memory and no limit of cores; MilliShare makes such a share.
	Divisible bool
	Ports     []PortRange
	// Types and Inventory describe all devices, free or not.
	Types     []string
	Inventory []gpu.Device
	// TotalGPUs counts all GPUs, free or not; 0 if unknown.
	TotalGPUs    int
	Driver, CUDA string
	Attributes   []Attribute
	Region, Zone string
	// Reserved and Unreserved are those of its offers.
	Reserved, Unreserved bool
	// Unavailable is when maintenance starts; zero if none is planned.
	Unavailable time.Time
}

// JoinOffers groups offers by agent and role, sorted by both. The result does
// not depend on the order of the offers. It does not modify them.
func JoinOffers(offers []Offer) []AgentResources {
	sorted := make([]*Offer, len(offers))
	for i := range offers {
		sorted[i] = &offers[i]
	}
	slices.SortFunc(sorted, func(a, b *Offer) int {
		if c := strings.Compare(a.AgentID, b.AgentID); c != 0 { // the most frequent case
			return c
		}
		return cmp.Or(strings.Compare(a.Role, b.Role), strings.Compare(a.ID, b.ID))
	})
	first := func(i int) bool {
		return i == 0 || sorted[i-1].AgentID != sorted[i].AgentID || sorted[i-1].Role != sorted[i].Role
	}
	n := 0
	for i := range sorted {
		if first(i) {
			n++
		}
	}
	agents := make([]AgentResources, 0, n) // sized exactly: the elements are large
	for i, o := range sorted {
		if first(i) {
			agents = append(agents, AgentResources{ID: o.AgentID, Role: o.Role})
		}
		agents[len(agents)-1].addOffer(o)
	}
	for i := range agents {
		a := &agents[i]
		slices.Sort(a.DeviceIDs)
		a.DeviceIDs = slices.Compact(a.DeviceIDs)
		a.Ports = mergePorts(a.Ports)
		a.Shared = mergeShared(a.Shared)
	}
	return agents
}

func (a *AgentResources) addOffer(o *Offer) {
	a.Offers = append(a.Offers, o.ID)
	a.Free = a.Free.Plus(o.Free)
	a.GPUs += max(o.GPUs, 0)
	a.DeviceIDs = append(a.DeviceIDs, o.DeviceIDs...)
	a.Ports = append(a.Ports, o.Ports...)
	a.Shared = append(a.Shared, o.Shared...)
	for _, t := range o.Types {
		if !slices.Contains(a.Types, t) {
			a.Types = append(a.Types, t)
		}
	}
	if len(a.Inventory) == 0 {
		a.Inventory = o.Inventory
	}
	if len(a.Attributes) == 0 {
		a.Attributes = o.Attributes
	}
	a.Hostname, a.URL = cmp.Or(a.Hostname, o.Hostname), cmp.Or(a.URL, o.AgentURL)
	a.Driver, a.CUDA = cmp.Or(a.Driver, o.Driver), cmp.Or(a.CUDA, o.CUDA)
	a.Region, a.Zone = cmp.Or(a.Region, o.Region), cmp.Or(a.Zone, o.Zone)
	a.Reserved, a.Unreserved = a.Reserved || o.Reserved, a.Unreserved || o.Unreserved
	if !o.Unavailable.IsZero() && (a.Unavailable.IsZero() || o.Unavailable.Before(a.Unavailable)) {
		a.Unavailable = o.Unavailable
	}
}

// HasGPUs reports whether the agent has GPUs, free or not.
func (a *AgentResources) HasGPUs() bool {
	return a.GPUs > 0 || a.TotalGPUs > 0 || len(a.DeviceIDs) > 0 || len(a.Types) > 0 || len(a.Inventory) > 0 ||
		len(a.Shared) > 0 || len(a.AllShared) > 0
}

// ShareLimitOf returns how an agent limits tasks to their shares of devices, by
// its attribute gpu_share_limit; "" if it has none.
func ShareLimitOf(attributes []Attribute) gpu.EnforcementMethod {
	for _, at := range attributes {
		if at.Name == "gpu_share_limit" {
			return gpu.EnforcementMethod(at.Value)
		}
	}
	return ""
}

// Models returns the agent's GPU models: one for each device of the inventory,
// or one for each type if there is no inventory.
func (a *AgentResources) Models() []string {
	if len(a.Inventory) == 0 {
		return a.Types
	}
	models := make([]string, len(a.Inventory))
	for i, d := range a.Inventory {
		models[i] = d.Model
	}
	return models
}

func compareAgent(a *AgentResources, id, role string) int {
	if c := strings.Compare(a.ID, id); c != 0 {
		return c
	}
	return strings.Compare(a.Role, role)
}
