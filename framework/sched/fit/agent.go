package fit

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/framework/sched/fit/hardware"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Attribute is an agent attribute as Marathon's constraints compare it: text
// unchanged, a scalar with at most three decimals, ranges and sets in Mesos's
// notation ("[1-2]", "{a,b}" sorted).
type Attribute struct{ Name, Value string }

// AgentResources contains the resources that one agent offers to one role, joined from its
// offers, and the facts about the agent.
type AgentResources struct {
	ID, Hostname, URL string
	// Role is the role that all of the offers are allocated to.
	Role string
	// Offers are the offer IDs, sorted; empty for an agent without offers.
	Offers []string
	// Closed is set for an agent that accepts no tasks. It has nothing free.
	// Explanations ignore it, and constraints count the tasks on it.
	Closed bool
	// Free, GPUs, DeviceIDs and Ports are free. DeviceIDs is empty if the agent offers GPUs by count alone.
	Free      Amount
	GPUs      int
	DeviceIDs []string
	Ports     []PortRange
	// Shared has the free amounts of shared devices. AllShared has their totals, if these are known.
	Shared, AllShared []SharedDevice
	// Divisible is set if each of DeviceIDs may be taken whole or in
	// thousandths, as in recorded traces. A device then has 1000 units of
	// memory and no limit of cores; MilliShare makes such a share.
	Divisible bool
	// Types and Inventory describe all devices, free or not.
	Types     []string
	Inventory []gpu.Device
	// TotalGPUs counts all GPUs, free or not; 0 if unknown.
	TotalGPUs int
	// Total and AllPorts are the amounts and ports of the agent, free or not; zero if unknown. Only TotalCapacity uses them.
	Total    Amount
	AllPorts []PortRange
	// Driver and CUDA are the host's versions, "" if unknown.
	Driver, CUDA string
	// Attributes are all attributes of the agent, in its order.
	Attributes []Attribute
	// Region and Zone are the agent's fault domain, "" without one.
	Region, Zone string
	// Reserved and Unreserved report whether its offers contain such resources.
	Reserved, Unreserved bool
	// Unavailable is when maintenance starts; zero if none is planned.
	Unavailable time.Time
}

// HasGPUs reports whether the agent has GPUs, free or not.
func (a *AgentResources) HasGPUs() bool {
	return a.GPUs > 0 || a.TotalGPUs > 0 || len(a.DeviceIDs) > 0 || len(a.Types) > 0 || len(a.Inventory) > 0 ||
		len(a.Shared) > 0 || len(a.AllShared) > 0
}

// Products iterates over the products of the agent's GPUs: one for each device of the inventory,
// or one for each type if there is no inventory.
func (a *AgentResources) Products() iter.Seq[gpu.Product] {
	return func(yield func(gpu.Product) bool) {
		for i := range a.Inventory {
			if !yield(a.Inventory[i].Product()) {
				return
			}
		}
		if len(a.Inventory) > 0 {
			return
		}
		if len(a.Types) == 1 {
			yield(gpu.Product{Model: a.Types[0], MemMiB: attributeMemory(a)})
			return
		}
		for _, name := range a.Types {
			if !yield(gpu.Product{Model: name}) {
				return
			}
		}
	}
}

// ProductOf returns the product of a device of the agent.
func (a *AgentResources) ProductOf(uuid string) gpu.Product {
	for i := range a.Inventory {
		if a.Inventory[i].UUID == uuid {
			return a.Inventory[i].Product()
		}
	}
	d := unlistedDevice(a, uuid)
	return d.Product()
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

// attributeMemory returns the minimum memory of the agent's devices by its
// attribute gpu_memory, in MiB; 0 if unknown.
func attributeMemory(a *AgentResources) int64 {
	least := int64(0)
	for _, at := range a.Attributes {
		if at.Name != "gpu_memory" {
			continue
		}
		f, err := strconv.ParseFloat(at.Value, 64)
		if err != nil || !(f > 0) || f > float64(maxMilli) {
			return 0
		}
		if n := int64(f); least == 0 || n < least {
			least = n
		}
	}
	return least
}

// FieldValue returns the agent's value of a constraint's field.
func (a *AgentResources) FieldValue(name string) (value string, ok bool) {
	switch name {
	case "hostname", "@hostname":
		return a.Hostname, a.Hostname != ""
	case "@region":
		return a.Region, a.Region != ""
	case "@zone":
		return a.Zone, a.Zone != ""
	case "@gpus":
		return strconv.Itoa(a.GPUs), true
	case "@driver":
		return a.Driver, a.Driver != ""
	case job.ReservationField:
		return a.reservationState(), true
	}
	for _, at := range a.Attributes {
		if at.Name == name {
			return at.Value, true
		}
	}
	return "", false
}

// reservationState returns whether the agent offers reserved resources, unreserved ones or both. An agent that offers
// neither counts as unreserved.
func (a *AgentResources) reservationState() string {
	switch {
	case a.Reserved && a.Unreserved:
		return job.SomeReserved
	case a.Reserved:
		return job.Reserved
	default:
		return job.Unreserved
	}
}

// devicesOf returns the agent's devices and the extra ones that it does not
// list, sorted by minor and UUID.
func devicesOf(a *AgentResources, extraIDs []string) []gpu.Device {
	devices := make([]gpu.Device, 0, max(len(a.Inventory), len(extraIDs)))
	known := func(uuid string) bool {
		return uuid != "" && slices.ContainsFunc(devices, func(d gpu.Device) bool { return d.UUID == uuid })
	}
	for _, d := range a.Inventory {
		if !known(d.UUID) {
			devices = append(devices, d)
		}
	}
	for _, id := range extraIDs {
		if !known(id) {
			devices = append(devices, unlistedDevice(a, id))
		}
	}
	slices.SortStableFunc(devices, func(x, y gpu.Device) int {
		return cmp.Or(cmp.Compare(x.Minor, y.Minor), cmp.Compare(x.UUID, y.UUID))
	})
	return devices
}

// unlistedDevice describes a device that the inventory lacks. If the agent has
// one type only, the device is of that type.
func unlistedDevice(a *AgentResources, uuid string) gpu.Device {
	d := gpu.Device{UUID: uuid, Minor: -1, NUMA: -1}
	if len(a.Types) == 1 {
		d.Model = a.Types[0]
	}
	if len(a.Inventory) == 0 {
		d.MemMiB = attributeMemory(a)
	}
	if gpu.IsMIGUUID(uuid) && d.Model != "" {
		d.MIG = &gpu.MIG{}
	}
	return d
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

func compareAgent(a *AgentResources, id, role string) int {
	if c := strings.Compare(a.ID, id); c != 0 {
		return c
	}
	return strings.Compare(a.Role, role)
}

// describeHardware returns what the agent reports about its GPUs as a whole.
func (a *AgentResources) describeHardware() hardware.Description {
	return hardware.Description{
		Types: a.Types, Driver: a.Driver, CUDA: a.CUDA, MemMiB: attributeMemory(a), ShareLimit: ShareLimitOf(a.Attributes),
		HasInventory: len(a.Inventory) > 0, HasGPUs: a.HasGPUs(), Divisible: a.Divisible,
	}
}
