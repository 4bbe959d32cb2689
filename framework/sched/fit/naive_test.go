package fit

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// naiveCluster is a slow model without caches that was written independently of
// Cluster. It stores only what was taken.
type naiveCluster struct {
	now    time.Time
	agents []naiveAgent
}

type naiveAgent struct {
	facts  AgentResources
	amount milliAmount
	gpus   int
	parts  map[string]int // free thousandths by UUID of devices that tasks take whole
	shared map[string]*naiveShared
	ports  map[int]bool
	named  bool
	held   milliAmount
	heldN  int
	heldID map[string]bool
}

func newNaive(agents []AgentResources, now time.Time) *naiveCluster {
	n := &naiveCluster{now: now}
	for _, a := range agents {
		na := naiveAgent{
			facts:  a,
			amount: a.Free.toMilli(),
			gpus:   a.GPUs,
			parts:  map[string]int{},
			shared: map[string]*naiveShared{},
			ports:  map[int]bool{},
			named:  len(a.DeviceIDs) > 0,
			heldID: map[string]bool{},
		}
		for _, id := range a.DeviceIDs {
			na.parts[id] = wholeDevice
		}
		na.addDevices()
		for _, r := range a.Ports {
			for p := r.First; p <= r.Last; p++ {
				na.ports[p] = true
			}
		}
		n.agents = append(n.agents, na)
	}
	return n
}

func (a *naiveAgent) addDevices() {
	a.named = a.named || len(a.facts.Shared) > 0 || len(a.facts.AllShared) > 0
	for _, s := range a.facts.AllShared {
		if a.parts[s.UUID] > 0 {
			continue
		}
		if a.findShare(s.UUID); s.MemMiB > 0 {
			a.shared[s.UUID] = &naiveShared{allMem: s.MemMiB, allCores: int64(s.Cores), listed: true}
		}
	}
	for _, s := range a.facts.Shared {
		if a.parts[s.UUID] > 0 {
			continue
		}
		a.findShare(s.UUID).release(s.MemMiB, s.Cores)
	}
}

// applyPlacement takes or returns placements. It returns what is wrong with one.
func (n *naiveCluster) applyPlacement(d *Demand, s Placement, sign int) string {
	a := &n.agents[s.Agent]
	need := d.Amount.toMilli()
	for _, p := range s.Shares {
		if wrong := a.applyShare(p, int64(sign)); wrong != "" {
			return wrong
		}
	}
	if sign < 0 {
		for _, id := range s.DeviceIDs {
			if a.parts[id] < wholeDevice {
				return "takes " + id + ", which is not free"
			}
			a.parts[id] = 0
		}
		for _, p := range s.Ports {
			if !a.ports[p] {
				return "takes port " + strconv.Itoa(p) + ", which is not free"
			}
			delete(a.ports, p)
		}
		a.amount = a.amount.minus(need)
		a.gpus -= s.GPUs - len(s.Shares)
	} else {
		for _, id := range s.DeviceIDs {
			a.parts[id] = wholeDevice
		}
		for _, p := range s.Ports {
			a.ports[p] = true
		}
		a.amount = a.amount.plus(need)
		a.gpus += s.GPUs - len(s.Shares)
	}
	if a.amount.cpus < 0 || a.amount.mem < 0 || a.amount.disk < 0 || a.gpus < 0 {
		return "leaves less than nothing"
	}
	return ""
}

func (a *naiveAgent) releaseTask(h TaskResources) {
	a.amount = a.amount.plus(h.Amount.toMilli())
	a.gpus += h.GPUs
	for _, id := range h.DeviceIDs {
		a.parts[id] = wholeDevice
		a.named = true
	}
	for _, p := range h.Shares {
		a.named = true
		a.findShare(p.UUID).release(p.MemMiB, p.Cores)
	}
	for _, p := range h.Ports {
		a.ports[p] = true
	}
}

func (a *naiveAgent) reserveTask(h TaskResources) {
	a.held = a.held.plus(h.Amount.toMilli())
	a.heldN += h.GPUs
	for _, id := range h.DeviceIDs {
		a.heldID[id] = true
		a.parts[id] += 0 // the device exists, although the agent did not list it
	}
	for _, p := range h.Shares {
		s := a.shared[p.UUID]
		s.heldMem, s.heldCores = s.heldMem+p.MemMiB, s.heldCores+int64(p.Cores)
	}
}

func (a *naiveAgent) findDevice(id string) gpu.Device {
	for _, d := range a.facts.Inventory {
		if d.UUID == id {
			return d
		}
	}
	d := gpu.Device{UUID: id, NUMA: -1}
	if len(a.facts.Types) == 1 {
		d.Model = a.facts.Types[0]
	}
	if len(a.facts.Inventory) == 0 {
		d.MemMiB = a.attributeMemory()
	}
	return d
}

func (a *naiveAgent) attributeMemory() int64 {
	for _, at := range a.facts.Attributes {
		if at.Name == "gpu_memory" {
			n, _ := strconv.ParseInt(at.Value, 10, 64)
			return n
		}
	}
	return 0
}

// fitsTask reports whether one more task fits, ignoring its job's other tasks.
func (n *naiveCluster) fitsTask(i int, d *Demand) bool {
	a := &n.agents[i]
	if a.facts.Role != d.Role || !n.isAvailable(a, d) {
		return false
	}
	for _, con := range d.Constraints {
		if !con.DependsOnPeers() && !naiveSatisfies(&a.facts, con) {
			return false
		}
	}
	free, need := a.amount, d.Amount.toMilli()
	if d.AvoidReserved {
		free = free.minus(a.held)
	}
	if need.cpus > free.cpus || need.mem > free.mem || need.disk > free.disk || len(a.ports) < d.Ports {
		return false
	}
	for _, p := range d.HostPorts {
		if p != 0 && !a.ports[p] {
			return false
		}
	}
	return d.Request.GPUs == 0 || a.fitsGPUs(d)
}

func (n *naiveCluster) isAvailable(a *naiveAgent, d *Demand) bool {
	runs := d.RunTime
	if runs == 0 {
		runs = time.Hour
	}
	return a.facts.Unavailable.IsZero() || !n.now.Add(runs).After(a.facts.Unavailable)
}

func naiveIsOlder(have, want string) bool {
	if want == "" {
		return false
	}
	if have == "" {
		return true
	}
	h, w := strings.Split(have, "."), strings.Split(want, ".")
	for i := range max(len(h), len(w)) {
		x, y := 0, 0
		if i < len(h) {
			x, _ = strconv.Atoi(h[i])
		}
		if i < len(w) {
			y, _ = strconv.Atoi(w[i])
		}
		if x != y {
			return x < y
		}
	}
	return false
}

func (a *naiveAgent) fitsGPUs(d *Demand) bool {
	if naiveIsOlder(a.facts.Driver, d.Request.MinDriver) || naiveIsOlder(a.facts.CUDA, d.Request.MinCUDA) {
		return false
	}
	if !d.Request.Share.IsWhole() && a.named {
		return len(a.shareSlots(d, a.unreservedGPUs(d))) >= d.Request.GPUs
	}
	return a.fitsUnshared(d) || a.named && a.fitsWithShared(d)
}

// unreservedGPUs returns how many GPUs that are not shared the demand may have, ignoring which ones it accepts.
func (a *naiveAgent) unreservedGPUs(d *Demand) int {
	whole := 0
	for _, p := range a.parts {
		if p == wholeDevice {
			whole++
		}
	}
	left := a.gpus
	if a.named {
		left = min(left, whole)
	}
	if d.AvoidReserved {
		held := a.heldN
		for id := range a.heldID {
			if a.parts[id] != wholeDevice {
				held--
			}
		}
		left -= max(held, 0)
	}
	return left
}

// fitsUnshared reports whether the agent has whole GPUs for a task, none of them shared.
func (a *naiveAgent) fitsUnshared(d *Demand) bool {
	r, left := d.Request, a.unreservedGPUs(d)
	if !a.named {
		return r.Share.IsWhole() && a.acceptsCounted(r) && left >= r.GPUs
	}
	return left >= r.GPUs && a.hasSubset(r, a.unsharedDevices(d), nil)
}

// unsharedDevices returns the free devices, none of them shared, that the demand accepts.
func (a *naiveAgent) unsharedDevices(d *Demand) []gpu.Device {
	var good []gpu.Device
	listedAt := func(id string) int {
		return 1 + slices.IndexFunc(a.facts.Inventory, func(d gpu.Device) bool { return d.UUID == id })
	}
	bySlot := func(x, y string) int { return cmp.Or(cmp.Compare(listedAt(x), listedAt(y)), cmp.Compare(x, y)) }
	for _, id := range slices.SortedFunc(maps.Keys(a.parts), bySlot) {
		dev := a.findDevice(id)
		if a.parts[id] == wholeDevice && (!d.AvoidReserved || !a.heldID[id]) && naiveAcceptsDevice(d.Request, dev) {
			good = append(good, dev)
		}
	}
	return good
}

func naiveAcceptsDevice(r gpu.Request, d gpu.Device) bool {
	if !r.Types.AcceptsAny() && (d.Model == "" || !r.Types.Match(d.Product())) {
		return false
	}
	return r.Devices.Match(d.UUID) && (r.MinMemMiB == 0 || d.MemMiB >= r.MinMemMiB)
}

func (a *naiveAgent) acceptsCounted(r gpu.Request) bool {
	if !r.Devices.AcceptsAny() || r.GPUs > 1 && r.Topology != "" && r.Topology != gpu.AnyTopology {
		return false
	}
	if len(a.facts.Inventory) > 0 {
		return !slices.ContainsFunc(a.facts.Inventory, func(d gpu.Device) bool { return !naiveAcceptsDevice(r, d) })
	}
	if len(a.facts.Types) == 0 {
		return naiveAcceptsDevice(r, gpu.Device{MemMiB: a.attributeMemory()})
	}
	return !slices.ContainsFunc(a.facts.Types, func(m string) bool { return !naiveAcceptsDevice(r, gpu.Device{Model: m, MemMiB: a.attributeMemory()}) })
}

// hasSubset tries every choice of devices.
func (a *naiveAgent) hasSubset(r gpu.Request, good, chosen []gpu.Device) bool {
	if len(chosen) == r.GPUs {
		return naiveSatisfiesTopology(r.Topology, chosen)
	}
	for i := range good {
		if a.hasSubset(r, good[i+1:], append(slices.Clone(chosen), good[i])) {
			return true
		}
	}
	return false
}

func naiveSatisfiesTopology(t gpu.Topology, chosen []gpu.Device) bool {
	if len(chosen) <= 1 {
		return true
	}
	switch t {
	case gpu.SameNUMA:
		return !slices.ContainsFunc(chosen, func(d gpu.Device) bool { return d.NUMA < 0 || d.NUMA != chosen[0].NUMA })
	case gpu.NVLink:
		in := map[string]bool{chosen[0].UUID: true}
		for range chosen {
			for _, x := range chosen {
				for _, y := range chosen {
					if in[x.UUID] && (x.NVLinks[y.UUID] > 0 || y.NVLinks[x.UUID] > 0) {
						in[y.UUID] = true
					}
				}
			}
		}
		return len(in) == len(chosen)
	}
	return true
}

func naiveSatisfies(a *AgentResources, con job.Constraint) bool {
	v, ok := naiveFieldValue(a, con.Field)
	if !ok {
		return con.Operator == job.Unlike
	}
	switch con.Operator {
	case job.Like:
		return regexp.MustCompile(`\A(?:` + con.Value + `)\z`).MatchString(v)
	case job.Unlike:
		return !regexp.MustCompile(`\A(?:` + con.Value + `)\z`).MatchString(v)
	}
	return v == con.Value
}

func naiveFieldValue(a *AgentResources, name string) (string, bool) {
	switch strings.TrimPrefix(name, "@") {
	case "hostname":
		return a.Hostname, a.Hostname != ""
	case "zone":
		return a.Zone, a.Zone != ""
	}
	for _, at := range a.Attributes {
		if at.Name == name {
			return at.Value, true
		}
	}
	return "", false
}

// allowsPeer reports whether constraints allow one more task on the agent. peers has the agent of each other task.
func (n *naiveCluster) allowsPeer(i int, d *Demand, peers []*AgentResources) bool {
	for _, con := range d.Constraints {
		if !con.DependsOnPeers() {
			continue
		}
		v, ok := naiveFieldValue(&n.agents[i].facts, con.Field)
		if !ok {
			return false
		}
		count := map[string]int{}
		for _, b := range peers {
			if w, ok := naiveFieldValue(b, con.Field); ok {
				count[w]++
			}
		}
		switch con.Operator {
		case job.Unique:
			ok = count[v] == 0
		case job.MaxPer:
			ok = count[v] < con.NumberValue()
		case job.Cluster:
			ok = len(peers) == 0
			if !ok {
				first, has := naiveFieldValue(peers[0], con.Field)
				ok = has && first == v
			}
		case job.GroupBy:
			ok = n.fillsEvenly(d, con, v, count)
		}
		if !ok {
			return false
		}
	}
	return true
}

func (n *naiveCluster) fillsEvenly(d *Demand, con job.Constraint, v string, count map[string]int) bool {
	groups := map[string]bool{}
	for w := range count {
		groups[w] = true
	}
	least := -1
	for i := range n.agents {
		w, ok := naiveFieldValue(&n.agents[i].facts, con.Field)
		if !ok || !n.isSuitable(i, d) {
			continue
		}
		groups[w] = true
		if least < 0 || count[w] < least {
			least = count[w]
		}
	}
	if len(groups) < con.NumberValue() {
		least = 0
	}
	return count[v] <= max(least, 0)
}

// isSuitable is Cluster.IsSuitable for agents that list their devices.
func (n *naiveCluster) isSuitable(i int, d *Demand) bool {
	a := &n.agents[i]
	if a.facts.Role != d.Role {
		return false
	}
	for _, con := range d.Constraints {
		if !con.DependsOnPeers() && !naiveSatisfies(&a.facts, con) {
			return false
		}
	}
	r := d.Request
	if r.GPUs == 0 {
		return true
	}
	if naiveIsOlder(a.facts.Driver, r.MinDriver) || naiveIsOlder(a.facts.CUDA, r.MinCUDA) {
		return false
	}
	if !r.Share.IsWhole() {
		return a.countShareSlots(d) >= r.GPUs
	}
	if !a.named && a.gpus > 0 && (!r.Devices.AcceptsAny() || r.GPUs > 1 && r.Topology != "" && r.Topology != gpu.AnyTopology) {
		return false
	}
	var devices []gpu.Device
	devices = append(devices, a.facts.Inventory...)
	for id := range a.parts {
		devices = append(devices, a.findDevice(id))
	}
	if len(a.facts.Inventory) == 0 && r.Devices.AcceptsAny() {
		for _, m := range a.facts.Types {
			devices = append(devices, gpu.Device{Model: m, MemMiB: a.attributeMemory()})
		}
		if len(a.facts.Types) == 0 && a.facts.HasGPUs() {
			devices = append(devices, gpu.Device{MemMiB: a.attributeMemory()})
		}
	}
	for id := range a.shared {
		devices = append(devices, a.findDevice(id))
	}
	return slices.ContainsFunc(devices, func(dev gpu.Device) bool { return naiveAcceptsDevice(r, dev) })
}

// Clone returns a cluster in the same state. Changes to one do not affect the other.
func (c *Cluster) Clone() *Cluster {
	d := &Cluster{}
	d.CopyFrom(c)
	return d
}
