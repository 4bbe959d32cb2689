package fit

import (
	"slices"
	"time"

	"mesos-gpu/job"
)

// unknownAmount is assumed of agents whose totals are not known.
const unknownAmount = 1 << 30

// TotalCapacity answers whether tasks fit on agents on which nothing is in use. Only one goroutine may use it at a time.
type TotalCapacity struct {
	cluster *Cluster
	// shortages are the results of ExplainInfeasible, by demand and number of tasks.
	shortages map[totalKey]*Shortage
	// fitting are the results of FittingAgents, by demand.
	fitting map[string][]bool
}

type totalKey struct {
	demand string
	tasks  int
}

// NewTotalCapacity returns the capacity of agents, of which the role and what is free are ignored. Total is the agent's
// sum of all roles. An agent whose list of devices, amounts or ports is not known has enough of that.
func NewTotalCapacity(agents []AgentResources, p PlacementPolicy, now time.Time) *TotalCapacity {
	all := make([]AgentResources, len(agents))
	for i := range agents {
		all[i] = emptyAgent(agents[i])
	}
	p.Name = "binpack" // which places as many tasks as any, and needs no statistics
	c := NewCluster(all, p, now)
	c.ofTotals = true
	return &TotalCapacity{cluster: c, shortages: map[totalKey]*Shortage{}, fitting: map[string][]bool{}}
}

// emptyAgent returns an agent of no role with all of its resources free.
func emptyAgent(a AgentResources) AgentResources {
	a.Role, a.Offers, a.Closed, a.Unavailable, a.Reserved, a.Unreserved = "", nil, false, time.Time{}, false, true
	a.Free = a.Total
	for _, amount := range []*float64{&a.Free.CPUs, &a.Free.MemMiB, &a.Free.DiskMiB} {
		if *amount == 0 {
			*amount = unknownAmount
		}
	}
	if a.Ports = a.AllPorts; len(a.Ports) == 0 {
		a.Ports = []PortRange{{First: 1, Last: maxPort}}
	}
	shared := func(uuid string) bool {
		return slices.ContainsFunc(a.AllShared, func(s SharedDevice) bool { return s.UUID == uuid })
	}
	a.Shared, a.DeviceIDs = a.AllShared, nil
	for i := range a.Inventory {
		if id := a.Inventory[i].UUID; !shared(id) {
			a.DeviceIDs = append(a.DeviceIDs, id)
		}
	}
	a.GPUs = max(a.TotalGPUs, len(a.DeviceIDs))
	return a
}

// Agents returns the agents, sorted by id, with everything free. The caller must not change them.
func (t *TotalCapacity) Agents() []AgentResources { return t.cluster.Agents() }

// demandOnTotals returns the demand without what depends on the present state of the cluster. Reservations of Mesos belong
// to roles, and are not known in total.
func demandOnTotals(d *Demand) *Demand {
	any := *d
	any.Role, any.RunTime, any.PeerAgents, any.AvoidReserved = "", 0, nil, false
	any.Constraints = slices.DeleteFunc(slices.Clone(d.Constraints), func(c job.Constraint) bool { return c.Field == job.ReservationField })
	return &any
}

// ExplainInfeasible returns what n tasks of the demand that start together lack on empty agents, nil if they fit. Tasks
// that need not start together are one. Without agents it returns nil.
func (t *TotalCapacity) ExplainInfeasible(d *Demand, n int) *Shortage {
	if len(t.cluster.capacities) == 0 {
		return nil
	}
	d = demandOnTotals(d)
	key := totalKey{d.Key(), max(n, 1)}
	short, known := t.shortages[key]
	if !known {
		places := t.cluster.PlaceTasks(d, key.tasks)
		t.cluster.UndoPlacements(d, places)
		if len(places) < key.tasks {
			s := t.cluster.ExplainGang(d, key.tasks)
			short = &s
		}
		t.shortages[key] = short
	}
	return short
}

// FittingAgents reports for each of Agents whether one task of the demand fits there if it is empty. The caller must not
// change the result.
func (t *TotalCapacity) FittingAgents(d *Demand) []bool {
	d = demandOnTotals(d)
	key := d.Key()
	list, known := t.fitting[key]
	if !known {
		class := t.cluster.classifyDemand(d)
		list = make([]bool, len(t.cluster.capacities))
		for i := range list {
			list[i] = t.cluster.fitsTask(i, class)
		}
		t.fitting[key] = list
	}
	return list
}
