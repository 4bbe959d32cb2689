package sched

import (
	"cmp"
	"slices"
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
	// Unavailable is when maintenance of the agent begins; zero if none is
	// planned.
	Unavailable time.Time
}

// Attribute is an agent attribute as Marathon's constraints compare it: text
// as it is, a scalar with at most three decimals, ranges and sets in Mesos's
// notation ("[1-2]", "{a,b}" sorted).
type Attribute struct{ Name, Value string }

// PortRange is a range of ports, both ends included.
type PortRange struct{ First, Last int }

// agent is all that the offers of one agent say together, and what is taken
// from it while a plan is made.
type agent struct {
	id, hostname, url string
	offers            []string
	free              amount
	gpus              int
	devices           []gpu.Device // free and named; empty where GPUs go by count
	named             bool         // the offers name devices
	types             []string
	inventory         []gpu.Device
	total             int // GPUs of the agent, where somebody told; else 0
	launches          []Launch
}

// join groups offers by agent. The result does not depend on their order.
func join(offers []Offer) []*agent {
	sorted := slices.Clone(offers)
	slices.SortFunc(sorted, func(a, b Offer) int {
		return cmp.Or(cmp.Compare(a.AgentID, b.AgentID), cmp.Compare(a.ID, b.ID))
	})
	var agents []*agent
	for i := range sorted {
		o := &sorted[i]
		if n := len(agents); n == 0 || agents[n-1].id != o.AgentID {
			agents = append(agents, &agent{id: o.AgentID, hostname: o.Hostname, url: o.AgentURL})
		}
		agents[len(agents)-1].add(o)
	}
	for _, a := range agents {
		a.sortDevices()
	}
	return agents
}

func (a *agent) add(o *Offer) {
	a.offers = append(a.offers, o.ID)
	a.free = a.free.plus(o.Free.milli())
	a.gpus += max(o.GPUs, 0)
	if len(a.inventory) == 0 {
		a.inventory = o.Inventory
	}
	for _, t := range o.Types {
		if !slices.Contains(a.types, t) {
			a.types = append(a.types, t)
		}
	}
	for _, id := range o.DeviceIDs {
		a.named = true
		if !slices.ContainsFunc(a.devices, func(d gpu.Device) bool { return d.UUID == id }) {
			a.devices = append(a.devices, a.device(id))
		}
	}
}

// device finds an offered UUID in the inventory. A device that the inventory
// lacks gets the agent's type, if the agent has but one.
func (a *agent) device(uuid string) gpu.Device {
	for _, d := range a.inventory {
		if d.UUID == uuid {
			return d
		}
	}
	d := gpu.Device{UUID: uuid, Minor: -1}
	if len(a.types) == 1 {
		d.Model = a.types[0]
	}
	return d
}

func (a *agent) sortDevices() {
	slices.SortFunc(a.devices, func(x, y gpu.Device) int {
		return cmp.Or(cmp.Compare(x.Minor, y.Minor), cmp.Compare(x.UUID, y.UUID))
	})
}

// freeGPUs is how many GPUs may be taken: a task takes the scalar and, where
// devices have names, as many of those.
func (a *agent) freeGPUs() int {
	if a.named {
		return min(a.gpus, len(a.devices))
	}
	return a.gpus
}

// hasGPUs tells an agent with GPUs, free or not, from one without.
func (a *agent) hasGPUs() bool {
	return a.gpus > 0 || a.total > 0 || a.named || len(a.types) > 0 || len(a.inventory) > 0
}

// models lists the GPU models the agent is known to have, one a device where
// the inventory tells, else one a type.
func (a *agent) models() []string {
	if len(a.inventory) == 0 {
		return a.types
	}
	models := make([]string, len(a.inventory))
	for i, d := range a.inventory {
		models[i] = d.Model
	}
	return models
}
