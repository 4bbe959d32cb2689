package fit

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// naive is a cluster that remembers nothing but what was taken and works
// everything out anew: slow, and written apart from what it checks.
type naive struct {
	now    time.Time
	agents []naiveAgent
}

type naiveAgent struct {
	facts  Agent
	amount amount
	gpus   int
	parts  map[string]int // thousandths free by UUID of devices that go whole
	shared map[string]*naiveShared
	ports  map[int]bool
	named  bool
	held   amount
	heldN  int
	heldID map[string]bool
}

func newNaive(agents []Agent, now time.Time) *naive {
	n := &naive{now: now}
	for _, a := range agents {
		na := naiveAgent{facts: a, amount: a.Free.milli(), gpus: a.GPUs, parts: map[string]int{}, shared: map[string]*naiveShared{}, ports: map[int]bool{}, named: len(a.DeviceIDs) > 0, heldID: map[string]bool{}}
		for _, id := range a.DeviceIDs {
			na.parts[id] = wholeDevice
		}
		na.open()
		for _, r := range a.Ports {
			for p := r.First; p <= r.Last; p++ {
				na.ports[p] = true
			}
		}
		n.agents = append(n.agents, na)
	}
	return n
}

func (a *naiveAgent) open() {
	a.named = a.named || len(a.facts.Shared) > 0 || len(a.facts.AllShared) > 0
	for _, s := range a.facts.AllShared {
		if a.parts[s.UUID] > 0 {
			continue
		}
		if a.share(s.UUID); s.MemMiB > 0 {
			a.shared[s.UUID] = &naiveShared{allMem: s.MemMiB, allCores: int64(s.Cores)}
		}
	}
	for _, s := range a.facts.Shared {
		if a.parts[s.UUID] > 0 {
			continue
		}
		a.share(s.UUID).give(s.MemMiB, s.Cores)
	}
}

// apply takes spots, or gives them back. It returns what is wrong with one.
func (n *naive) apply(d *Demand, s Spot, sign int) string {
	a := &n.agents[s.Agent]
	need := d.Amount.milli()
	for _, p := range s.Parts {
		if wrong := a.applyPart(p, int64(sign)); wrong != "" {
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
		if s.Parts == nil {
			a.gpus -= s.GPUs
		}
	} else {
		for _, id := range s.DeviceIDs {
			a.parts[id] = wholeDevice
		}
		for _, p := range s.Ports {
			a.ports[p] = true
		}
		a.amount = a.amount.plus(need)
		if s.Parts == nil {
			a.gpus += s.GPUs
		}
	}
	if a.amount.cpus < 0 || a.amount.mem < 0 || a.amount.disk < 0 || a.gpus < 0 {
		return "leaves less than nothing"
	}
	return ""
}

func (a *naiveAgent) release(h Holding) {
	a.amount = a.amount.plus(h.Amount.milli())
	a.gpus += h.GPUs
	for _, id := range h.DeviceIDs {
		a.parts[id] = wholeDevice
		a.named = true
	}
	for _, p := range h.Parts {
		a.named = true
		a.share(p.UUID).give(p.MemMiB, p.Cores)
	}
	for _, p := range h.Ports {
		a.ports[p] = true
	}
}

func (a *naiveAgent) reserve(h Holding) {
	a.held = a.held.plus(h.Amount.milli())
	a.heldN += h.GPUs
	for _, id := range h.DeviceIDs {
		a.heldID[id] = true
		a.parts[id] += 0 // it is there, though nobody had told
	}
	for _, p := range h.Parts {
		s := a.shared[p.UUID]
		s.heldMem, s.heldCores = s.heldMem+p.MemMiB, s.heldCores+int64(p.Cores)
	}
}

func (a *naiveAgent) device(id string) gpu.Device {
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
		d.MemMiB = a.memory()
	}
	return d
}

func (a *naiveAgent) memory() int64 {
	for _, at := range a.facts.Attributes {
		if at.Name == "gpu_memory" {
			n, _ := strconv.ParseInt(at.Value, 10, 64)
			return n
		}
	}
	return 0
}

// fits reports whether one more task finds place, its job's others aside.
func (n *naive) fits(i int, d *Demand) bool {
	a := &n.agents[i]
	if a.facts.Role != d.Role || !n.stays(a, d) {
		return false
	}
	for _, con := range d.Constraints {
		if !con.PerJob() && !naiveConstraint(&a.facts, con) {
			return false
		}
	}
	free, need := a.amount, d.Amount.milli()
	if d.Beyond {
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
	return d.Request.GPUs == 0 || a.gpusFit(d)
}

func (n *naive) stays(a *naiveAgent, d *Demand) bool {
	runs := d.Runs
	if runs == 0 {
		runs = time.Hour
	}
	return a.facts.Unavailable.IsZero() || !n.now.Add(runs).After(a.facts.Unavailable)
}

func naiveOlder(have, want string) bool {
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

func (a *naiveAgent) gpusFit(d *Demand) bool {
	r := d.Request
	if naiveOlder(a.facts.Driver, r.MinDriver) || naiveOlder(a.facts.CUDA, r.MinCUDA) {
		return false
	}
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
	if d.Beyond {
		held := a.heldN
		for id := range a.heldID {
			if a.parts[id] != wholeDevice {
				held--
			}
		}
		left -= max(held, 0)
	}
	shares := !r.Share.Whole()
	if !a.named {
		return !shares && a.counted(r) && left >= r.GPUs
	}
	if shares {
		return len(a.givers(d, left)) >= r.GPUs
	}
	var good []gpu.Device
	for id, p := range a.parts {
		dev := a.device(id)
		if d.Beyond && a.heldID[id] || !naiveDevice(r, dev) {
			continue
		}
		if p == wholeDevice {
			good = append(good, dev)
		}
	}
	return left >= r.GPUs && a.subset(r, good, nil)
}

func naiveDevice(r gpu.Request, d gpu.Device) bool {
	if !r.Types.Any() && (d.Model == "" || !r.Types.Match(d.Model)) {
		return false
	}
	return r.Devices.Match(d.UUID) && (r.MinMemMiB == 0 || d.MemMiB >= r.MinMemMiB)
}

func (a *naiveAgent) counted(r gpu.Request) bool {
	if !r.Devices.Any() || r.GPUs > 1 && r.Topology != "" && r.Topology != gpu.AnyTopology {
		return false
	}
	if len(a.facts.Inventory) > 0 {
		return !slices.ContainsFunc(a.facts.Inventory, func(d gpu.Device) bool { return !naiveDevice(r, d) })
	}
	if len(a.facts.Types) == 0 {
		return naiveDevice(r, gpu.Device{MemMiB: a.memory()})
	}
	return !slices.ContainsFunc(a.facts.Types, func(m string) bool { return !naiveDevice(r, gpu.Device{Model: m, MemMiB: a.memory()}) })
}

// subset tries every choice of devices.
func (a *naiveAgent) subset(r gpu.Request, good, chosen []gpu.Device) bool {
	if len(chosen) == r.GPUs {
		return naiveTopology(r.Topology, chosen)
	}
	for i := range good {
		if a.subset(r, good[i+1:], append(slices.Clone(chosen), good[i])) {
			return true
		}
	}
	return false
}

func naiveTopology(t gpu.Topology, chosen []gpu.Device) bool {
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

func naiveConstraint(a *Agent, con job.Constraint) bool {
	v, ok := naiveField(a, con.Field)
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

func naiveField(a *Agent, name string) (string, bool) {
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

// perJob reports whether the agent may have one more task beside those on
// the agents given.
func (n *naive) perJob(i int, d *Demand, beside []*Agent) bool {
	for _, con := range d.Constraints {
		if !con.PerJob() {
			continue
		}
		v, ok := naiveField(&n.agents[i].facts, con.Field)
		if !ok {
			return false
		}
		count := map[string]int{}
		for _, b := range beside {
			if w, ok := naiveField(b, con.Field); ok {
				count[w]++
			}
		}
		switch con.Operator {
		case job.Unique:
			ok = count[v] == 0
		case job.MaxPer:
			ok = count[v] < con.Count()
		case job.Cluster:
			ok = len(beside) == 0
			if !ok {
				first, has := naiveField(beside[0], con.Field)
				ok = has && first == v
			}
		case job.GroupBy:
			ok = n.evenly(d, con, v, count)
		}
		if !ok {
			return false
		}
	}
	return true
}

func (n *naive) evenly(d *Demand, con job.Constraint, v string, count map[string]int) bool {
	groups := map[string]bool{}
	for w := range count {
		groups[w] = true
	}
	least := -1
	for i := range n.agents {
		w, ok := naiveField(&n.agents[i].facts, con.Field)
		if !ok || !n.useful(i, d) {
			continue
		}
		groups[w] = true
		if least < 0 || count[w] < least {
			least = count[w]
		}
	}
	if len(groups) < con.Count() {
		least = 0
	}
	return count[v] <= max(least, 0)
}

// useful is Useful, for agents that list their devices.
func (n *naive) useful(i int, d *Demand) bool {
	a := &n.agents[i]
	if a.facts.Role != d.Role {
		return false
	}
	for _, con := range d.Constraints {
		if !con.PerJob() && !naiveConstraint(&a.facts, con) {
			return false
		}
	}
	r := d.Request
	if r.GPUs == 0 {
		return true
	}
	if naiveOlder(a.facts.Driver, r.MinDriver) || naiveOlder(a.facts.CUDA, r.MinCUDA) {
		return false
	}
	if !r.Share.Whole() {
		return a.mayGive(d) >= r.GPUs
	}
	if !a.named && a.gpus > 0 && (!r.Devices.Any() || r.GPUs > 1 && r.Topology != "" && r.Topology != gpu.AnyTopology) {
		return false
	}
	var devices []gpu.Device
	devices = append(devices, a.facts.Inventory...)
	for id := range a.parts {
		devices = append(devices, a.device(id))
	}
	if len(a.facts.Inventory) == 0 && r.Devices.Any() {
		for _, m := range a.facts.Types {
			devices = append(devices, gpu.Device{Model: m, MemMiB: a.memory()})
		}
		if len(a.facts.Types) == 0 && a.facts.HasGPUs() {
			devices = append(devices, gpu.Device{MemMiB: a.memory()})
		}
	}
	return slices.ContainsFunc(devices, func(dev gpu.Device) bool { return naiveDevice(r, dev) && a.shared[dev.UUID] == nil })
}
