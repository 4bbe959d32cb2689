package fit

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"time"

	"mesos-gpu/gpu"
)

// Offer is the content of a Mesos offer that placement needs.
type Offer struct {
	ID, AgentID, Hostname, AgentURL string
	// Role is the role that the offer is allocated to.
	Role string
	Free Amount
	// GPUs is the scalar gpus. DeviceIDs are the items of gpu_ids; an agent that
	// offers none offers GPUs by count alone.
	GPUs      int
	DeviceIDs []string
	// Shared has the free amounts of shared devices.
	Shared []SharedDevice
	Ports  []PortRange
	// Types are the gpu_type attributes. Inventory is the content of the
	// attribute gpu_inventory.
	Types     []string
	Inventory []gpu.Device
	// Driver and CUDA are the host's versions, "" if unknown.
	Driver, CUDA string
	// Attributes are all attributes of the agent, in its order.
	Attributes []Attribute
	// Region and Zone are the agent's fault domain, "" without one.
	Region, Zone string
	// Reserved is set if some of the resources are reserved for a role,
	// Unreserved if some are not.
	Reserved, Unreserved bool
	// Unavailable is when maintenance of the agent starts; zero if none is
	// planned.
	Unavailable time.Time
}

// JoinOffers yields what each agent offers to each role, sorted by both. It sorts
// the slice, so the result does not depend on its order. Agents share memory with
// their offers, which are not modified.
func JoinOffers(offers []*Offer) iter.Seq[AgentResources] {
	return func(yield func(AgentResources) bool) {
		slices.SortFunc(offers, func(a, b *Offer) int {
			if c := strings.Compare(a.AgentID, b.AgentID); c != 0 { // the most frequent case
				return c
			}
			return cmp.Or(strings.Compare(a.Role, b.Role), strings.Compare(a.ID, b.ID))
		})
		for first, next := 0, 0; first < len(offers); first = next {
			a := AgentResources{ID: offers[first].AgentID, Role: offers[first].Role}
			for next < len(offers) && offers[next].AgentID == a.ID && offers[next].Role == a.Role {
				a.addOffer(offers[next])
				next++
			}
			a.DeviceIDs = mergeDeviceIDs(a.DeviceIDs)
			a.Ports = mergePorts(a.Ports)
			a.Shared = mergeShared(a.Shared)
			if !yield(a) {
				return
			}
		}
	}
}

// CollectAgents returns what JoinOffers yields.
func CollectAgents(offers []*Offer) []AgentResources {
	agents := make([]AgentResources, 0, len(offers)) // most agents have one offer, and the elements are large
	return slices.AppendSeq(agents, JoinOffers(offers))
}

func (a *AgentResources) addOffer(o *Offer) {
	a.Offers = append(a.Offers, o.ID)
	a.Free = a.Free.Plus(o.Free)
	a.GPUs += max(o.GPUs, 0)
	a.DeviceIDs = concatLists(a.DeviceIDs, o.DeviceIDs)
	a.Ports = concatLists(a.Ports, o.Ports)
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

// concatLists returns the elements of both lists. It returns b itself if a is empty, as for the only offer of an agent.
func concatLists[T any](a, b []T) []T {
	if len(a) == 0 {
		return b
	}
	return slices.Concat(a, b)
}

// mergeDeviceIDs returns the ids in order, each once. The caller must not change the
// result, which may be the list itself.
func mergeDeviceIDs(ids []string) []string {
	for i := 1; i < len(ids); i++ {
		if ids[i-1] >= ids[i] {
			return slices.Compact(slices.Sorted(slices.Values(ids)))
		}
	}
	return ids
}
