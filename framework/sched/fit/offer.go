package fit

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"mesos-gpu/gpu"
)

// Offer is what one Mesos offer says, in the terms that placing needs.
type Offer struct {
	ID       string
	AgentID  string
	Hostname string
	AgentURL string
	Free     Amount
	// GPUs is the scalar of that name. DeviceIDs are the items of gpu_ids;
	// an agent whose offers have none hands out GPUs by count alone.
	GPUs      int
	DeviceIDs []string
	// Shared is what is free of the devices that tasks share.
	Shared []SharedDevice
	// Types are the gpu_type attributes, Inventory the devices that the
	// gpu_inventory attribute lists.
	Types     []string
	Inventory []gpu.Device
	// Role is what the offer is allocated to.
	Role string
	// Driver and CUDA are the host's versions, "" where it does not tell.
	Driver, CUDA string
	// Attributes are all of the agent's, in its order.
	Attributes []Attribute
	// Region and Zone are the agent's fault domain.
	Region, Zone string
	Ports        []PortRange
	// Reserved says that it has resources reserved for a role, Unreserved that
	// it has others.
	Reserved, Unreserved bool
	// Unavailable is when maintenance of the agent begins; zero if none is
	// planned.
	Unavailable time.Time
}

// Attribute is an agent attribute as Marathon's constraints compare it: text
// as it is, a scalar with at most three decimals, ranges and sets in Mesos's
// notation ("[1-2]", "{a,b}" sorted).
type Attribute struct{ Name, Value string }

// AgentResources is what one agent offers to one role, joined from its offers, and the
// facts about it.
type AgentResources struct {
	ID, Hostname, URL, Role string
	// Offers are their ids, sorted; empty for an agent that is known but not
	// offered now.
	Offers []string
	// Closed: it takes no tasks, and has nothing free. Reasons leave it out,
	// while constraints count the tasks on it.
	Closed bool
	Free   Amount
	// GPUs and DeviceIDs are free; DeviceIDs is empty where the agent hands
	// out GPUs by count alone.
	GPUs      int
	DeviceIDs []string
	// Shared is what is free of the devices that tasks share, AllShared what
	// there is of each, free or not, as far as somebody told.
	Shared, AllShared []SharedDevice
	// Divisible says that each of DeviceIDs may be taken whole or in
	// thousandths, as in recorded traces: a device is then 1000 units of
	// memory, its cores have no limit, and a part is made by Thousandths.
	Divisible bool
	Ports     []PortRange
	// Types and Inventory are all that the agent has, free or not.
	Types     []string
	Inventory []gpu.Device
	// TotalGPUs counts them, free or not; 0 where nobody told.
	TotalGPUs    int
	Driver, CUDA string
	Attributes   []Attribute
	Region, Zone string
	// Reserved and Unreserved say what its offers hold of each.
	Reserved, Unreserved bool
	// Unavailable is when maintenance begins; zero if none is planned.
	Unavailable time.Time
}

// JoinOffers groups offers by agent and role, and sorts by them. The result does
// not depend on the order of the offers, which it does not modify.
func JoinOffers(offers []Offer) []AgentResources {
	sorted := make([]*Offer, len(offers))
	for i := range offers {
		sorted[i] = &offers[i]
	}
	slices.SortFunc(sorted, func(a, b *Offer) int {
		if c := strings.Compare(a.AgentID, b.AgentID); c != 0 { // most are told apart here
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
	agents := make([]AgentResources, 0, n) // they are large
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

// HasGPUs tells an agent with GPUs, free or not, from one without.
func (a *AgentResources) HasGPUs() bool {
	return a.GPUs > 0 || a.TotalGPUs > 0 || len(a.DeviceIDs) > 0 || len(a.Types) > 0 || len(a.Inventory) > 0 ||
		len(a.Shared) > 0 || len(a.AllShared) > 0
}

// ShareLimitOf is what holds tasks to parts of an agent's devices, by its attribute
// gpu_share_limit; "" where it has none.
func ShareLimitOf(attributes []Attribute) gpu.EnforcementMethod {
	for _, at := range attributes {
		if at.Name == "gpu_share_limit" {
			return gpu.EnforcementMethod(at.Value)
		}
	}
	return ""
}

// Models lists the GPU models the agent is known to have, one a device where
// the inventory tells, else one a type.
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
