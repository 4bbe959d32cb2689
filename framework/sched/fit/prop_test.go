package fit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

var noon = time.Unix(1_700_000_000, 0).UTC()

// from draws one of some values.
func from[T any](t *rapid.T, label string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, label)
}

func genAgents(t *rapid.T, atMost int) []Agent {
	var agents []Agent
	for i := range rapid.IntRange(0, atMost).Draw(t, "agents") {
		if i > 0 && rapid.Bool().Draw(t, "like the last") {
			a := another(agents[i-1], i)
			if rapid.IntRange(0, 3).Draw(t, "by count") == 0 {
				a.DeviceIDs = nil
			}
			agents = append(agents, a)
			continue
		}
		agents = append(agents, genAgent(t, i))
	}
	return agents
}

// another is an agent of the same hardware and with as much free.
func another(a Agent, i int) Agent {
	rename := func(id string) string { return fmt.Sprintf("GPU-%d-%s", i, id[len(id)-1:]) }
	a.ID, a.Hostname = fmt.Sprintf("a%d", i), fmt.Sprintf("h%d", i)
	a.DeviceIDs, a.Inventory = slices.Clone(a.DeviceIDs), slices.Clone(a.Inventory)
	for g, id := range a.DeviceIDs {
		a.DeviceIDs[g] = rename(id)
	}
	for g, d := range a.Inventory {
		links := map[string]int{}
		for id, n := range d.NVLinks {
			links[rename(id)] = n
		}
		a.Inventory[g].UUID, a.Inventory[g].NVLinks = rename(d.UUID), links
	}
	return a
}

// genAgent draws an agent with up to four GPUs, which go by name or by count
// and are listed or not.
func genAgent(t *rapid.T, i int) Agent {
	a := Agent{
		ID: fmt.Sprintf("a%d", i), Hostname: fmt.Sprintf("h%d", i), Role: from(t, "role", "r", "r", "s"),
		Free: Amount{
			CPUs:    float64(rapid.IntRange(0, 40).Draw(t, "cpus")) / 10,
			MemMiB:  float64(rapid.IntRange(0, 10).Draw(t, "mem")) * 100,
			DiskMiB: float64(rapid.IntRange(0, 2).Draw(t, "disk")) * 100,
		},
		Driver: from(t, "driver", "", "525.60", "535.104.05"), CUDA: from(t, "cuda", "", "11.8", "12.2"),
		Zone: from(t, "zone", "", "z1", "z2"),
	}
	if rack := from(t, "rack", "", "r1", "r2"); rack != "" {
		a.Attributes = append(a.Attributes, Attribute{"rack", rack})
	}
	if mem := from(t, "gpu_memory", "", "16000"); mem != "" {
		a.Attributes = append(a.Attributes, Attribute{"gpu_memory", mem})
	}
	if rapid.Bool().Draw(t, "ports") {
		a.Ports = []PortRange{{31000, 31000 + rapid.IntRange(0, 3).Draw(t, "last")}, {31010, 31011}}
	}
	if hours := rapid.IntRange(0, 5).Draw(t, "maintenance"); hours < 3 {
		a.Unavailable = noon.Add(time.Duration(hours) * time.Hour)
	}
	devices := genDevices(t, i)
	for _, d := range devices {
		if !slices.Contains(a.Types, d.Type()) {
			a.Types = append(a.Types, d.Type())
		}
	}
	a.TotalGPUs = len(devices)
	if rapid.Bool().Draw(t, "listed") {
		a.Inventory = devices
	}
	a.GPUs = rapid.IntRange(0, len(devices)).Draw(t, "free")
	if rapid.IntRange(0, 3).Draw(t, "named") > 0 {
		for _, d := range rapid.Permutation(devices).Draw(t, "offered")[:a.GPUs] {
			a.DeviceIDs = append(a.DeviceIDs, d.UUID)
		}
		a.GPUs = max(a.GPUs+from(t, "scalar", 0, 0, 1, -1), 0)
	}
	return a
}

func genDevices(t *rapid.T, agent int) []gpu.Device {
	devices := make([]gpu.Device, rapid.IntRange(0, 4).Draw(t, "gpus"))
	for i := range devices {
		devices[i] = gpu.Device{
			UUID: fmt.Sprintf("GPU-%d-%d", agent, i), Minor: i, NUMA: rapid.IntRange(-1, 1).Draw(t, "numa"),
			Model:  from(t, "model", "Tesla V100-SXM2-16GB", "Tesla V100-SXM2-16GB", "NVIDIA A100 80GB PCIe"),
			MemMiB: from(t, "devmem", int64(0), 16000, 80000),
		}
		for j := range i {
			if n := rapid.IntRange(0, 3).Draw(t, "links"); n > 1 {
				if devices[i].NVLinks == nil {
					devices[i].NVLinks = map[string]int{}
				}
				devices[i].NVLinks[devices[j].UUID] = n
			}
		}
	}
	return devices
}

// genDemand draws a demand; wishes come one in three so that most find place.
func genDemand(t *rapid.T, perJob bool) *Demand {
	wish := func(label string) bool { return rapid.IntRange(0, 2).Draw(t, label) == 0 }
	d := &Demand{
		Job: "j", Role: from(t, "role", "r", "r", "r", "s", "none"), Ports: from(t, "ports", 0, 0, 1, 3), Beyond: rapid.Bool().Draw(t, "beyond"),
		Amount: Amount{
			CPUs: float64(rapid.IntRange(0, 20).Draw(t, "cpus")) / 10, MemMiB: float64(rapid.IntRange(0, 5).Draw(t, "mem")) * 100,
			DiskMiB: from(t, "disk", 0.0, 0, 50),
		},
		Runs: from(t, "runs", 0, time.Minute, 2*time.Hour),
	}
	r := &d.Request
	if r.GPUs = rapid.IntRange(0, 3).Draw(t, "gpus"); r.GPUs == 1 && wish("share") {
		d.Milli = from(t, "milli", 200, 500, 700)
	}
	if wish("types") {
		r.Types = gpu.Types{Include: from(t, "include", nil, []string{"V100"}, []string{"a100", "V100"}), Exclude: from(t, "exclude", nil, []string{"A100"})}
	}
	if wish("memory") {
		r.MinMemMiB = from(t, "minmem", int64(16000), 80000)
	}
	if wish("versions") {
		r.MinDriver, r.MinCUDA = from(t, "mindriver", "", "535", "525.60"), from(t, "mincuda", "", "12.0")
	}
	if wish("topology") {
		r.Topology = from(t, "topology", gpu.AnyTopology, gpu.NVLink, gpu.SameNUMA)
	}
	if wish("uuid") {
		r.Devices = gpu.Devices{Include: from(t, "uuids", nil, []string{"GPU-0-0", "GPU-0-1", "GPU-1-0", "GPU-1-1"}), Exclude: from(t, "not", nil, []string{"GPU-0-0", "GPU-2-1"})}
	}
	d.Constraints = genConstraints(t, perJob)
	return d
}

// genVariant differs from a demand in one thing.
func genVariant(t *rapid.T, of *Demand) *Demand {
	d, other := *of, genDemand(t, true)
	r := &d.Request
	switch rapid.IntRange(0, 9).Draw(t, "variant") {
	case 0:
		d.Beyond = !d.Beyond
	case 1:
		d.Runs = other.Runs
	case 2:
		d.Ports = other.Ports
	case 3:
		d.Amount = other.Amount
	case 4:
		r.Types = other.Request.Types
	case 5:
		r.MinMemMiB = other.Request.MinMemMiB
	case 6:
		r.MinDriver, r.MinCUDA = other.Request.MinDriver, other.Request.MinCUDA
	case 7:
		r.Topology, r.Devices = other.Request.Topology, other.Request.Devices
	case 8:
		d.Constraints = other.Constraints
	default:
		if d.Milli = from(t, "milli", 0, 200, 700); r.GPUs != 1 {
			d.Milli = 0
		}
	}
	return &d
}

func genConstraints(t *rapid.T, perJob bool) []job.Constraint {
	fixed := []job.Constraint{
		{Field: "rack", Operator: job.Like, Value: "r[12]"}, {Field: "rack", Operator: job.Unlike, Value: "r1"},
		{Field: "hostname", Operator: job.Is, Value: "h0"}, {Field: "@zone", Operator: job.Cluster, Value: "z1"},
	}
	var list []job.Constraint
	if rapid.IntRange(0, 3).Draw(t, "fixed") == 0 {
		list = append(list, from(t, "constraint", fixed...))
	}
	if perJob && rapid.IntRange(0, 2).Draw(t, "perJob") > 0 {
		field := from(t, "field", "hostname", "rack", "@zone")
		list = append(list, from(t, "spread",
			job.Constraint{Field: field, Operator: job.Unique}, job.Constraint{Field: field, Operator: job.MaxPer, Value: "2"},
			job.Constraint{Field: field, Operator: job.Cluster}, job.Constraint{Field: field, Operator: job.GroupBy},
			job.Constraint{Field: field, Operator: job.GroupBy, Value: "2"},
		))
	}
	return list
}

func genPolicy(t *rapid.T) Policy {
	p := Policy{Name: from(t, "policy", Policies()...)}
	for range rapid.IntRange(0, 4).Draw(t, "typical") {
		d := genDemand(t, false)
		p.Typical = append(p.Typical, Typical{*d, float64(rapid.IntRange(1, 5).Draw(t, "weight"))})
	}
	return p
}

// pair is a cluster and a naive one that are told the same.
type pair struct {
	c     *Cluster
	n     *naive
	taken []taking
}

type taking struct {
	d     *Demand
	spots []Spot
}

func newPair(agents []Agent, p Policy) *pair {
	c := NewCluster(agents, p, noon)
	return &pair{c: c, n: newNaive(c.Agents(), noon)}
}

type failer interface {
	Fatalf(format string, args ...any)
}

// fill checks Fill: each spot fits when it is taken, one is missing only if
// none fits, and a cluster without memory of earlier answers says the same.
func (m *pair) fill(t failer, d *Demand, n int) {
	fresh := m.c.Clone()
	for i := range fresh.rooms {
		fresh.changed(i)
	}
	first := fresh.scoreEach(d)
	if k := m.c.Best(d); (k > 0) != (first >= 0) || first >= 0 && k != fresh.score(first, fresh.class(d)) {
		t.Fatalf("%+v suits its best place by %d, and agent %d scores most", d, k, first)
	}
	want := fresh.Fill(d, n)
	if len(d.Constraints) == 0 && (len(want) > 0) != (first >= 0) || first >= 0 && len(d.Constraints) == 0 && want[0].Agent != first {
		t.Fatalf("%+v goes to %+v, and agent %d scores most", d, want, first)
	}
	if explained := m.c.Explain(d); explained.Lack == "" || explained.Seen == "" {
		t.Fatalf("no explanation: %+v", explained)
	}
	got := m.c.Fill(d, n)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("a fresh cluster places %+v otherwise (-fresh +cached):\n%s", d, diff)
	}
	if len(got) > n {
		t.Fatalf("%d spots for %d tasks", len(got), n)
	}
	beside := slices.Clone(d.Beside)
	for _, s := range got {
		m.check(t, d, s, beside)
		beside = append(beside, &m.n.agents[s.Agent].facts)
	}
	if len(got) == n {
		m.taken = append(m.taken, taking{d, got})
		return
	}
	for i := range m.n.agents {
		if m.n.fits(i, d) && m.n.perJob(i, d, beside) {
			t.Fatalf("%d of %d tasks of %+v have a place, and %s has room", len(got), n, d, m.n.agents[i].facts.ID)
		}
		if m.c.Refusal(i, d) == "" {
			t.Fatalf("no refusal of %s", m.n.agents[i].facts.ID)
		}
	}
	m.taken = append(m.taken, taking{d, got})
}

// scoreEach asks of each agent anew and returns the first of those that score
// most, -1 if none fits.
func (c *Cluster) scoreEach(d *Demand) int {
	best, most := -1, int64(0)
	for i := range c.rooms {
		if k := c.score(i, c.class(d)); k > most {
			best, most = i, k
		}
	}
	return best
}

func (m *pair) check(t failer, d *Demand, s Spot, beside []*Agent) {
	a := &m.n.agents[s.Agent]
	if !m.n.fits(s.Agent, d) || !m.n.perJob(s.Agent, d, beside) {
		t.Fatalf("%+v does not fit on %s, which has %+v", d, a.facts.ID, *a)
	}
	if len(s.Ports) != d.Ports || s.GPUs != d.Request.GPUs || s.Milli != d.Milli {
		t.Fatalf("%+v gets %+v", d, s)
	}
	if a.named && len(s.DeviceIDs) != d.Request.GPUs {
		t.Fatalf("%+v gets devices %v", d, s.DeviceIDs)
	}
	var chosen []gpu.Device
	for _, id := range s.DeviceIDs {
		dev := a.device(id)
		if !naiveDevice(d.Request, dev) || d.Beyond && a.heldID[id] {
			t.Fatalf("%+v gets %+v", d, dev)
		}
		chosen = append(chosen, dev)
	}
	if !naiveTopology(d.Request.Topology, chosen) {
		t.Fatalf("%+v gets %v", d, s.DeviceIDs)
	}
	if wrong := m.n.apply(d, s, -1); wrong != "" {
		t.Fatalf("%+v for %+v on %+v %s", s, d, *a, wrong)
	}
}

func (m *pair) undo(i int) {
	u := m.taken[i]
	m.c.Undo(u.d, u.spots)
	for _, s := range u.spots {
		m.n.apply(u.d, s, 1)
	}
	m.taken = slices.Delete(m.taken, i, i+1)
}

// same checks that what is free is what the naive cluster says.
func (m *pair) same(t failer) {
	for i := range m.c.rooms {
		r, a := &m.c.rooms[i], &m.n.agents[i]
		if r.free != a.amount || int(r.gpus) != a.gpus || countPorts(r.ports) != len(a.ports) || int(r.nports) != len(a.ports) {
			t.Fatalf("%s has %+v free, want %+v", a.facts.ID, *r, *a)
		}
		for s, id := range r.uuids {
			got := int(m.c.sharesOf(r)[s])
			if whole := m.c.wholeOf(r)[s/64]>>(s%64)&1 != 0; got != a.parts[id] || whole != (got == wholeDevice) {
				t.Fatalf("%d of %s are free (whole: %t), want %d", got, id, whole, a.parts[id])
			}
		}
	}
}

// TestAnySequence is the property that matters most: whatever was filled,
// undone, released and reserved before, the answer is right, and the same as
// that of a cluster that remembers nothing.
func TestAnySequence(t *testing.T) { rapid.Check(t, anySequence) }

// FuzzCluster lets the fuzzer choose the sequence.
func FuzzCluster(f *testing.F) { f.Fuzz(rapid.MakeFuzz(anySequence)) }

func anySequence(t *rapid.T) {
	m := newPair(genAgents(t, 5), genPolicy(t))
	m.c.ranks.most = rapid.IntRange(1, 8).Draw(t, "rankings")
	var demands []*Demand
	for range rapid.IntRange(1, 3).Draw(t, "demands") {
		d := genDemand(t, true)
		demands = append(demands, d, genVariant(t, d))
	}
	for range rapid.IntRange(1, 25).Draw(t, "steps") {
		m.step(t, demands)
		m.same(t)
	}
}

func (m *pair) step(t *rapid.T, demands []*Demand) {
	switch what := rapid.IntRange(0, 9).Draw(t, "step"); {
	case what < 5:
		d := *from(t, "demand", demands...)
		for range rapid.IntRange(0, 2).Draw(t, "beside") {
			if len(m.n.agents) > 0 {
				d.Beside = append(d.Beside, &m.n.agents[rapid.IntRange(0, len(m.n.agents)-1).Draw(t, "other")].facts)
			}
		}
		m.fill(t, &d, rapid.IntRange(1, 4).Draw(t, "n"))
	case what < 6:
		if len(m.taken) > 0 {
			m.undo(rapid.IntRange(0, len(m.taken)-1).Draw(t, "undo"))
		}
	case what < 8:
		m.release(t)
	default:
		m.reserve(t)
	}
}

// release gives back devices nobody has now, of the inventory or new.
func (m *pair) release(t *rapid.T) {
	m.c.Release("nowhere", "r", Amount{CPUs: 1}, 1, nil, nil)
	if len(m.n.agents) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.n.agents)-1).Draw(t, "agent")
	a := &m.n.agents[i]
	am := Amount{CPUs: from(t, "cpus", 0.1, 1), MemMiB: 100}
	var ids []string
	gpus := 0
	if a.named || a.gpus == 0 && rapid.Bool().Draw(t, "by name") {
		for g := range 5 {
			id := fmt.Sprintf("GPU-%d-%d", i, g)
			if m.busy(id) || a.parts[id] != 0 || !rapid.Bool().Draw(t, "device") {
				continue
			}
			ids = append(ids, id)
		}
		gpus = len(ids)
	} else {
		gpus = rapid.IntRange(0, 1).Draw(t, "count")
	}
	var ports []int
	if p := 31005; !a.ports[p] && rapid.Bool().Draw(t, "port") && !m.portBusy(i, p) {
		ports = []int{p}
	}
	m.c.Release(a.facts.ID, a.facts.Role, am, gpus, ids, ports)
	a.release(am, gpus, ids, ports)
}

// busy: a task placed here has part of the device, and will give it back.
func (m *pair) busy(id string) bool {
	return slices.ContainsFunc(m.taken, func(u taking) bool {
		return slices.ContainsFunc(u.spots, func(s Spot) bool { return slices.Contains(s.DeviceIDs, id) })
	})
}

func (m *pair) portBusy(agent, port int) bool {
	return slices.ContainsFunc(m.taken, func(u taking) bool {
		return slices.ContainsFunc(u.spots, func(s Spot) bool { return s.Agent == agent && slices.Contains(s.Ports, port) })
	})
}

func (m *pair) reserve(t *rapid.T) {
	m.c.Reserve("nowhere", "r", Amount{}, 1, nil)
	if len(m.n.agents) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.n.agents)-1).Draw(t, "agent")
	a := &m.n.agents[i]
	am := Amount{CPUs: from(t, "cpus", 0.1, 1, 3)}
	var ids []string
	if a.named {
		for g := range 5 {
			id := fmt.Sprintf("GPU-%d-%d", i, g)
			if !a.heldID[id] && rapid.Bool().Draw(t, "device") {
				ids = append(ids, id)
			}
		}
	}
	gpus := rapid.IntRange(0, max(len(ids), 2)).Draw(t, "count")
	m.c.Reserve(a.facts.ID, a.facts.Role, am, gpus, ids)
	a.reserve(am, gpus, ids)
}
