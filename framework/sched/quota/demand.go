package quota

import (
	"maps"
	"slices"

	"mesos-gpu/framework/sched/entitlement"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// AddDemand adds waiting tasks of a job to what its role demands. A task counts for each type that it accepts, and once in
// AllTypes. What the user's limits or used-up budgets do not permit is no demand.
func (t *Tracker) AddDemand(spec *job.Spec, tasks int) {
	t.addHostDemand(spec, tasks)
	role, r, u := spec.Role, &spec.Request, UserOf(spec)
	if r.GPUs == 0 || tasks == 0 || t.IsBlockedByBudget(u, *r) {
		return
	}
	if t.demand == nil {
		t.demand = map[string]map[string]int{}
	}
	if t.demand[role] == nil {
		t.demand[role] = map[string]int{}
	}
	for _, name := range t.GPUTypes() {
		if t.mayUse(r, name) {
			t.demand[role][name] += t.limitUserDemand(u, name, tasks*t.MilliPerTask(r, name))
		}
	}
}

// GPUTypes returns the names of all GPU types that agents have or that are in a role's entries, sorted, and AllTypes.
func (t *Tracker) GPUTypes() []string {
	if t.types != nil {
		return t.types
	}
	t.capacity = t.countCapacity()
	var names []string
	add := func(name string) {
		if !slices.ContainsFunc(names, func(known string) bool { return isSameType(known, name) }) {
			names = append(names, name)
		}
	}
	for _, product := range slices.Sorted(maps.Keys(t.capacity)) {
		if product != AllTypes {
			add(gpu.TypeOf(product))
		}
	}
	for i := range t.entitlements {
		for _, entries := range []Quota{t.entitlements[i].Deserved, t.entitlements[i].Quota} {
			for _, name := range slices.Sorted(maps.Keys(entries)) {
				add(name)
			}
		}
	}
	add(AllTypes)
	slices.Sort(names)
	t.types = names
	return names
}

// countCapacity counts the thousandths of GPUs of agents that accept tasks, by product.
func (t *Tracker) countCapacity() map[string]int {
	type productCount struct {
		name    string
		devices int
	}
	capacity, counted := map[string]int{}, make(map[string]bool, len(t.agents))
	names := map[gpu.Product]string{}
	var last gpu.Product // of the device before
	var lastName string
	var found []productCount // of one agent
	for i := range t.agents {
		a := &t.agents[i]
		if counted[a.ID] || a.Closed {
			continue
		}
		counted[a.ID] = true
		found = found[:0]
		for next := range a.Products() {
			if next != last {
				name, known := names[next]
				if !known {
					name = next.String()
					names[next] = name
				}
				last, lastName = next, name
			}
			at := slices.IndexFunc(found, func(c productCount) bool { return c.name == lastName })
			if at < 0 {
				at, found = len(found), append(found, productCount{name: lastName})
			}
			found[at].devices++
		}
		gpus := max(a.TotalGPUs+len(a.AllShared), a.GPUs+len(a.Shared), len(a.DeviceIDs))
		if gpus == 0 {
			gpus = len(a.Inventory)
		}
		capacity[AllTypes] += gpus * MilliPerGPU
		for _, c := range found {
			if c.name == "" {
				continue
			}
			if len(found) == 1 || len(a.Inventory) == 0 {
				c.devices = gpus // of an agent that only lists its types, each may be of any of them
			}
			capacity[c.name] += c.devices * MilliPerGPU
		}
	}
	return capacity
}

// Capacity returns the GPUs of a type on agents that accept tasks, and at least what roles hold.
func (t *Tracker) Capacity(gpuType string) int {
	t.GPUTypes()
	held := 0
	for role := range t.held {
		held += t.heldOf(role, gpuType)
	}
	all := t.capacity[AllTypes]
	if gpuType != AllTypes {
		all = 0
		for product, n := range t.capacity {
			if product != AllTypes && CountsProduct(gpuType, product) {
				all += n
			}
		}
	}
	return max(all, held)
}

// heldOf returns what a role itself holds of a type, or of all.
func (t *Tracker) heldOf(role, gpuType string) int {
	if gpuType == AllTypes {
		return t.total[role]
	}
	sum := 0
	for name, n := range t.held[role] {
		if CountsProduct(gpuType, name) {
			sum += n
		}
	}
	return sum
}

// demandOf returns what a role itself holds or waits for.
func (t *Tracker) demandOf(role, gpuType string) int {
	return t.heldOf(role, gpuType) + t.demand[role][gpuType]
}

// DemandWithin returns what a role and the roles below it hold or wait for.
func (t *Tracker) DemandWithin(role, gpuType string) int {
	sum := 0
	roles := map[string]bool{}
	for name := range t.held {
		roles[name] = true
	}
	for name := range t.demand {
		roles[name] = true
	}
	for name := range roles {
		if IsWithinRole(name, role) {
			sum += t.demandOf(name, gpuType)
		}
	}
	return sum
}

// ClaimOf returns what a role claims of one type, or of all types together.
func (t *Tracker) ClaimOf(role, gpuType string) entitlement.Claim {
	c := entitlement.Claim{Role: role, Limit: -1, Demand: t.demandOf(role, gpuType)}
	for i := range t.entitlements {
		e := &t.entitlements[i]
		if e.Role != role {
			continue
		}
		c.Weight = e.Weight
		for _, name := range []string{gpuType, AllTypes} { // the role holds no more of one type than of all
			if limit, ok := e.Quota.EntryFor(name); ok && (c.Limit < 0 || limit*MilliPerGPU < c.Limit) {
				c.Limit = limit * MilliPerGPU
			}
		}
		n, ok := e.Deserved.EntryFor(gpuType)
		if !ok {
			n, ok = e.Deserved.EntryFor(AllTypes)
		}
		if gpuType == AllTypes && e.Deserved != nil {
			n, ok = e.Deserved.Total(), true
		}
		c.Deserved, c.HasDeserved = n*MilliPerGPU, ok
	}
	for i := range t.mesosQuotas {
		if q := &t.mesosQuotas[i]; q.Role == role && (c.Limit < 0 || q.Limit*MilliPerGPU < c.Limit) {
			c.Limit = q.Limit * MilliPerGPU
		}
	}
	return c
}
