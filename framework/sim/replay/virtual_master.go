package replay

import (
	"cmp"
	"fmt"
	"math/rand"
	"slices"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/internal/minimesos/offers"
)

// virtualMaster replaces Mesos: it offers the free resources of each agent to the role with the least GPUs for its
// weight, and applies filters, REVIVE and SUPPRESS.
type virtualMaster struct {
	// agents are the cluster; roles compete for its offers.
	agents []virtualAgent
	// index has the position of each agent by id.
	index map[string]int
	// order is the order in which agents are offered.
	order []int
	roles []masterRole
	// isFlat reports that no role is below another one.
	isFlat bool
	// offers are neither accepted nor declined, by id.
	offers map[string]*pendingOffer
	// filters has the resources that roles refused for some time.
	filters *offers.Filters[filterSlot, resourceSet]
	// ports are in every offer. They never run out.
	ports []sched.PortRange
	// lastOfferNumber is part of the id of the last offer.
	lastOfferNumber int
}

// virtualAgent is an agent in the master's view.
type virtualAgent struct {
	ReplayAgent
	// devices are the UUIDs, by the bit of a deviceMask. types has the model, if it is known.
	devices, types []string
	// free is neither taken nor offered.
	free resourceSet
}

// resourceSet is an amount of resources.
type resourceSet struct {
	// cpus, mem and rdma are in thousandths; gpus has a bit for each device.
	cpus, mem, rdma int64
	gpus            deviceMask
}

// add and subtract work on sets of devices: those of o must not be in r, or must be in it.
func (r resourceSet) add(o resourceSet) resourceSet {
	return resourceSet{r.cpus + o.cpus, r.mem + o.mem, r.rdma + o.rdma, r.gpus | o.gpus}
}
func (r resourceSet) subtract(o resourceSet) resourceSet {
	return resourceSet{r.cpus - o.cpus, r.mem - o.mem, r.rdma - o.rdma, r.gpus &^ o.gpus}
}

// fitsIn reports whether o has all of the resources, and each of the devices.
func (r resourceSet) fitsIn(o resourceSet) bool {
	return r.cpus <= o.cpus && r.mem <= o.mem && r.rdma <= o.rdma && r.gpus&^o.gpus == 0
}

// totalOf returns all resources of an agent.
func totalOf(a *ReplayAgent) resourceSet {
	return resourceSet{toMilli(a.Has.CPUs), toMilli(a.Has.MemMiB), toMilli(a.RDMA), fullMask(a.GPUs)}
}

// isOfferable reports whether Mesos would offer the resources.
func (r resourceSet) isOfferable() bool {
	return r.cpus >= toMilli(offers.MinCPUs) || r.mem >= toMilli(offers.MinMemMiB)
}

// toMilli rounds to thousandths, so that sums of CPUs are exact.
func toMilli(x float64) int64 { return int64(x*1000 + 0.5) }

// filterSlot is an agent and a role, to which filters apply.
type filterSlot struct{ agent, role int }

// masterRole is a role to which the master makes offers.
type masterRole struct {
	name string
	// weight divides the GPUs of the role for the order of offers. It is above 0.
	weight float64
	// suppressed is set while the scheduler wants no offers to the role.
	suppressed bool
	// gpus counts the GPUs that are taken or offered.
	gpus int
}

// pendingOffer is an offer that the scheduler has not answered.
type pendingOffer struct {
	id string
	// agent and role are indices in virtualMaster.agents and roles.
	agent, role int
	resources   resourceSet
}

// newVirtualMaster returns a master with all resources free. The seed determines the order in which agents
// are offered.
func newVirtualMaster(agents []ReplayAgent, roles []queue.Role, seed int64) (*virtualMaster, error) {
	m := &virtualMaster{
		index:   map[string]int{},
		ports:   []sched.PortRange{{First: 31000, Last: 32000}},
		offers:  map[string]*pendingOffer{},
		order:   rand.New(rand.NewSource(seed)).Perm(len(agents)),
		filters: offers.NewFilters[filterSlot](func(have, want resourceSet) bool { return want.fitsIn(have) }),
	}
	for i, a := range agents {
		if _, twice := m.index[a.ID]; twice || a.GPUs < 0 || a.GPUs > maxGPUs {
			return nil, fmt.Errorf("agent %q comes twice or has %d GPUs, not 0 to %d", a.ID, a.GPUs, maxGPUs)
		}
		m.index[a.ID] = i
		one := virtualAgent{ReplayAgent: a, free: totalOf(&a)}
		for g := range a.GPUs {
			one.devices = append(one.devices, "GPU-"+a.ID+"-"+strconv.Itoa(g))
		}
		if a.Model != "" {
			one.types = []string{a.Model}
		}
		m.agents = append(m.agents, one)
	}
	m.isFlat = !slices.ContainsFunc(roles, func(r queue.Role) bool { return strings.Contains(r.Name, "/") })
	for _, r := range roles {
		one := masterRole{name: r.Name, weight: r.Weight}
		if one.weight == 0 {
			one.weight = 1
		}
		m.roles = append(m.roles, one)
	}
	return m, nil
}

// equalizeWeights gives all roles the same weight.
func (m *virtualMaster) equalizeWeights() {
	for r := range m.roles {
		m.roles[r].weight = 1
	}
}

// allocateOffers offers all free resources.
func (m *virtualMaster) allocateOffers(now time.Duration) []sched.Offer {
	var made []*pendingOffer
	m.filters.RemoveExpired(epoch().Add(now))
	for _, i := range m.order {
		if !m.agents[i].free.isOfferable() {
			continue
		}
		if to := m.nextRole(i, now); to >= 0 {
			made = append(made, m.makeOffer(i, to))
		}
	}
	list := make([]sched.Offer, len(made))
	for i, o := range made {
		list[i] = m.describeOffer(o)
	}
	return list
}

// nextRole returns the role to which an agent's resources are offered, or -1 if no role accepts offers of them.
func (m *virtualMaster) nextRole(i int, now time.Duration) int {
	best := -1
	for r := range m.roles {
		if m.roles[r].suppressed || m.filters.Refuses(filterSlot{i, r}, m.agents[i].free, epoch().Add(now)) {
			continue
		}
		if best < 0 || m.compareShares(r, best) < 0 {
			best = r
		}
	}
	return best
}

// compareShares compares the GPUs of two roles, divided by their weights, at the level where their paths part, as Mesos
// does. The role with the least gets the next offer.
func (m *virtualMaster) compareShares(a, b int) int {
	if m.isFlat {
		return cmp.Compare(float64(m.roles[a].gpus)/m.roles[a].weight, float64(m.roles[b].gpus)/m.roles[b].weight)
	}
	x, y := strings.Split(m.roles[a].name, "/"), strings.Split(m.roles[b].name, "/")
	n := 0
	for n < len(x) && n < len(y) && x[n] == y[n] {
		n++
	}
	return cmp.Compare(m.shareAt(a, x, n), m.shareAt(b, y, n))
}

// shareAt returns the share of the role that the first n + 1 components of a path name, with the roles below it, or of the
// role itself, at weight 1, if its path has only n.
func (m *virtualMaster) shareAt(role int, path []string, n int) float64 {
	if n == len(path) {
		return float64(m.roles[role].gpus)
	}
	above, gpus, weight := strings.Join(path[:n+1], "/"), 0, 1.0
	for r := range m.roles {
		if name := m.roles[r].name; name == above {
			gpus, weight = gpus+m.roles[r].gpus, m.roles[r].weight
		} else if strings.HasPrefix(name, above+"/") {
			gpus += m.roles[r].gpus
		}
	}
	return float64(gpus) / weight
}

// makeOffer offers all that an agent has free to one role.
func (m *virtualMaster) makeOffer(i, to int) *pendingOffer {
	a := &m.agents[i]
	m.lastOfferNumber++
	o := &pendingOffer{id: "o" + strconv.Itoa(m.lastOfferNumber), agent: i, role: to, resources: a.free}
	m.offers[o.id] = o
	a.free = resourceSet{}
	m.roles[to].gpus += o.resources.gpus.countDevices()
	return o
}

// describeOffer returns an offer as the scheduler receives it.
func (m *virtualMaster) describeOffer(o *pendingOffer) sched.Offer {
	a := &m.agents[o.agent]
	s := sched.Offer{
		ID: o.id, AgentID: a.ID, Hostname: a.ID, Role: m.roles[o.role].name, GPUs: o.resources.gpus.countDevices(),
		Free: sched.Amount{
			CPUs:    float64(o.resources.cpus) / 1000,
			MemMiB:  float64(o.resources.mem) / 1000,
			DiskMiB: float64(o.resources.rdma) / 1000,
		}, // see setRDMA
		Types: a.types, Ports: m.ports,
	}
	s.DeviceIDs = make([]string, 0, s.GPUs)
	for g, id := range a.devices {
		if o.resources.gpus>>g&1 != 0 {
			s.DeviceIDs = append(s.DeviceIDs, id)
		}
	}
	return s
}

// withdrawOffer ends an offer; its resources are free.
func (m *virtualMaster) withdrawOffer(id string) (*pendingOffer, error) {
	o := m.offers[id]
	if o == nil {
		return nil, fmt.Errorf("offer %s does not exist", id)
	}
	delete(m.offers, id)
	m.roles[o.role].gpus -= o.resources.gpus.countDevices()
	a := &m.agents[o.agent]
	a.free = a.free.add(o.resources)
	return o, nil
}

// addFilter keeps what was refused of an offer from its role. Other resources of the agent are not affected, also if they
// became free before the refusal.
func (m *virtualMaster) addFilter(o *pendingOffer, now, d time.Duration) {
	if d > 0 {
		m.filters.Add(filterSlot{o.agent, o.role}, o.resources, epoch().Add(now+d))
	}
}

// takeResources takes what a launch needs from an agent, and returns an error if that is not free.
func (m *virtualMaster) takeResources(i, role int, l *sched.TaskLaunch) (resourceSet, error) {
	a := &m.agents[i]
	need := resourceSet{
		cpus: toMilli(l.Spec.CPUs) + toMilli(l.Overhead.CPUs),
		mem:  toMilli(l.Spec.MemMiB) + toMilli(l.Overhead.MemMiB),
		rdma: toMilli(rdmaOf(l.Spec)),
	}
	for _, id := range l.DeviceIDs {
		g := slices.Index(a.devices, id)
		if g < 0 {
			return need, fmt.Errorf("launch %s: agent %s has no device %s", l.TaskID, a.ID, id)
		}
		need.gpus |= 1 << g
	}
	if !need.fitsIn(a.free) || need.gpus.countDevices() != l.Spec.Request.GPUs {
		return need, fmt.Errorf("launch %s: agent %s has %+v free, the task takes %+v for %d GPUs", l.TaskID, a.ID, a.free, need, l.Spec.Request.GPUs)
	}
	a.free = a.free.subtract(need)
	m.roles[role].gpus += need.gpus.countDevices()
	return need, nil
}

// returnResources frees what a task had.
func (m *virtualMaster) returnResources(i, role int, r resourceSet) {
	m.agents[i].free = m.agents[i].free.add(r)
	m.roles[role].gpus -= r.gpus.countDevices()
}

// reviveRoles removes the filters of roles; no name means all roles.
func (m *virtualMaster) reviveRoles(names []string) {
	m.forEachRole(names, func(r int) {
		m.roles[r].suppressed = false
		m.filters.Remove(func(s filterSlot) bool { return s.role == r })
	})
}

// suppressRoles stops offers to roles until they are revived; no name means all roles.
func (m *virtualMaster) suppressRoles(names []string) {
	m.forEachRole(names, func(r int) { m.roles[r].suppressed = true })
}

// forEachRole calls do with the index of each named role, or of all roles if there are no names.
func (m *virtualMaster) forEachRole(names []string, do func(r int)) {
	for r := range m.roles {
		if len(names) == 0 || slices.Contains(names, m.roles[r].name) {
			do(r)
		}
	}
}

// roleIndex finds a role by name. It returns -1 for an unknown role.
func (m *virtualMaster) roleIndex(name string) int {
	return slices.IndexFunc(m.roles, func(r masterRole) bool { return r.name == name })
}
