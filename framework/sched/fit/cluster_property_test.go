package fit

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

var noon = time.Unix(1_700_000_000, 0).UTC()

// drawFrom draws one of several values.
func drawFrom[T any](t *rapid.T, label string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, label)
}

func genAgents(t *rapid.T, atMost int) []AgentResources {
	var agents []AgentResources
	for i := range rapid.IntRange(0, atMost).Draw(t, "agents") {
		if i > 0 && rapid.Bool().Draw(t, "like the last") {
			a := similarAgent(agents[i-1], i)
			if rapid.IntRange(0, 3).Draw(t, "by count") == 0 && !a.Divisible && a.Shared == nil && a.AllShared == nil {
				a.DeviceIDs = nil
			}
			agents = append(agents, a)
			continue
		}
		agents = append(agents, genAgent(t, i))
	}
	return agents
}

// similarAgent returns an agent with the same hardware and the same free amounts.
func similarAgent(a AgentResources, i int) AgentResources {
	rename := func(id string) string { return fmt.Sprintf("GPU-%d-%s", i, id[len(id)-1:]) }
	a.ID, a.Hostname = fmt.Sprintf("a%d", i), fmt.Sprintf("h%d", i)
	a.DeviceIDs, a.Inventory = slices.Clone(a.DeviceIDs), slices.Clone(a.Inventory)
	a.Shared, a.AllShared = slices.Clone(a.Shared), slices.Clone(a.AllShared)
	for _, list := range [][]SharedDevice{a.Shared, a.AllShared} {
		for s := range list {
			list[s].UUID = rename(list[s].UUID)
		}
	}
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

// genAgent draws an agent with up to four GPUs, by ID or by count, with or without
// an inventory.
func genAgent(t *rapid.T, i int) AgentResources {
	a := AgentResources{
		ID: fmt.Sprintf("a%d", i), Hostname: fmt.Sprintf("h%d", i), Role: drawFrom(t, "role", "r", "r", "s"),
		Free: Amount{
			CPUs:    float64(rapid.IntRange(0, 40).Draw(t, "cpus")) / 10,
			MemMiB:  float64(rapid.IntRange(0, 10).Draw(t, "mem")) * 100,
			DiskMiB: float64(rapid.IntRange(0, 2).Draw(t, "disk")) * 100,
		},
		Driver: drawFrom(t, "driver", "", "525.60", "535.104.05"), CUDA: drawFrom(t, "cuda", "", "11.8", "12.2"),
		Zone: drawFrom(t, "zone", "", "z1", "z2"),
	}
	if rack := drawFrom(t, "rack", "", "r1", "r2"); rack != "" {
		a.Attributes = append(a.Attributes, Attribute{"rack", rack})
	}
	if mem := drawFrom(t, "gpu_memory", "", "16000"); mem != "" {
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
		a.GPUs = max(a.GPUs+drawFrom(t, "scalar", 0, 0, 1, -1), 0)
		a.Divisible = rapid.IntRange(0, 5).Draw(t, "divisible") == 0
	}
	if !a.Divisible && rapid.IntRange(0, 2).Draw(t, "sharing") > 0 && (len(a.DeviceIDs) > 0 || a.GPUs == 0) {
		genShared(t, &a, devices)
		if limit := drawFrom(t, "limit", "", "preload", "mps", "mig"); limit != "" {
			a.Attributes = append(a.Attributes, Attribute{"gpu_share_limit", limit})
		}
	}
	return a
}

// genShared makes an agent share devices that it does not offer whole. Sometimes
// it also shares one that it does, as a late list would.
func genShared(t *rapid.T, a *AgentResources, devices []gpu.Device) {
	for _, d := range devices {
		if slices.Contains(a.DeviceIDs, d.UUID) && rapid.IntRange(0, 9).Draw(t, "late") > 0 {
			continue
		}
		all := SharedDevice{d.UUID, drawFrom(t, "shared memory", d.MemMiB, 8000, 24000), drawFrom(t, "shared cores", 100, 100, 150, 0)}
		if rapid.Bool().Draw(t, "told") {
			a.AllShared = append(a.AllShared, all)
		}
		if free := (SharedDevice{d.UUID, drawFrom(t, "left", all.MemMiB, all.MemMiB/2, 3000, 0), drawFrom(t, "cores left",
			all.Cores, 40, 0)}); free.MemMiB > 0 || free.Cores > 0 {
			a.Shared = append(a.Shared, free)
		}
	}
}

func genDevices(t *rapid.T, agent int) []gpu.Device {
	devices := make([]gpu.Device, rapid.IntRange(0, 4).Draw(t, "gpus"))
	for i := range devices {
		devices[i] = gpu.Device{
			UUID: fmt.Sprintf("GPU-%d-%d", agent, i), Minor: i, NUMA: rapid.IntRange(-1, 1).Draw(t, "numa"),
			Model:  drawFrom(t, "model", "Tesla V100-SXM2-16GB", "Tesla V100-SXM2-16GB", "NVIDIA A100 80GB PCIe"),
			MemMiB: drawFrom(t, "devmem", int64(0), 16000, 80000),
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

// genDemand draws a demand. Each requirement has a chance of one in three, so that
// most demands fit.
func genDemand(t *rapid.T, perJob bool) *Demand {
	wish := func(label string) bool { return rapid.IntRange(0, 2).Draw(t, label) == 0 }
	d := &Demand{
		Job: "j", Role: drawFrom(t, "role", "r", "r", "r", "s", "none"), Ports: drawFrom(t, "ports", 0, 0, 1, 3), AvoidReserved: rapid.Bool().Draw(t, "beyond"),
		Amount: Amount{
			CPUs: float64(rapid.IntRange(0, 20).Draw(t, "cpus")) / 10, MemMiB: float64(rapid.IntRange(0, 5).Draw(t, "mem")) * 100,
			DiskMiB: drawFrom(t, "disk", 0.0, 0, 50),
		},
		RunTime: drawFrom(t, "runs", 0, time.Minute, 2*time.Hour),
	}
	r := &d.Request
	if r.GPUs = rapid.IntRange(0, 3).Draw(t, "gpus"); r.GPUs > 0 && rapid.Bool().Draw(t, "share") {
		r.Share = genShare(t)
	}
	if wish("types") {
		r.Types = gpu.TypeSelector{
			Include: drawFrom(t, "include", nil, []string{"V100"}, []string{"a100", "V100"}),
			Exclude: drawFrom(t, "exclude", nil, []string{"A100"}),
		}
	}
	if wish("memory") {
		r.MinMemMiB = drawFrom(t, "minmem", int64(16000), 80000)
	}
	if wish("versions") {
		r.MinDriver, r.MinCUDA = drawFrom(t, "mindriver", "", "535", "525.60"), drawFrom(t, "mincuda", "", "12.0")
	}
	if wish("topology") {
		r.Topology = drawFrom(t, "topology", gpu.AnyTopology, gpu.NVLink, gpu.SameNUMA)
	}
	if wish("uuid") {
		r.Devices = gpu.DeviceSelector{
			Include: drawFrom(t, "uuids", nil, []string{"GPU-0-0", "GPU-0-1", "GPU-1-0", "GPU-1-1"}),
			Exclude: drawFrom(t, "not", nil, []string{"GPU-0-0", "GPU-2-1"}),
		}
	}
	if d.Ports > 0 && wish("host ports") {
		d.HostPorts = drawFrom(t, "numbers", []int{31001}, []int{31010}, []int{0, 31000, 31011}, []int{31002, 0})
		d.Ports = max(d.Ports, len(d.HostPorts))
	}
	d.Constraints = genConstraints(t, perJob)
	return d
}

// genShare draws a share of useful size for both shared devices and divisible ones.
func genShare(t *rapid.T) gpu.ShareRequest {
	return drawFrom(t, "part", MilliShare(200), MilliShare(500), MilliShare(700), gpu.ShareRequest{MemMiB: 4000}, gpu.ShareRequest{MemMiB: 3000, Cores: 30},
		gpu.ShareRequest{MemPercent: 30}, gpu.ShareRequest{MemPercent: 1, Cores: 50}, gpu.ShareRequest{Cores: 25}, gpu.ShareRequest{Cores: gpu.AllCores})
}

// genVariant returns a demand that differs in one field.
func genVariant(t *rapid.T, of *Demand) *Demand {
	d, other := *of, genDemand(t, true)
	r := &d.Request
	switch rapid.IntRange(0, 9).Draw(t, "variant") {
	case 0:
		d.AvoidReserved = !d.AvoidReserved
	case 1:
		d.RunTime = other.RunTime
	case 2:
		d.Ports, d.HostPorts = other.Ports, other.HostPorts
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
		if r.Share = (gpu.ShareRequest{}); r.GPUs > 0 && rapid.IntRange(0, 2).Draw(t, "part") > 0 {
			r.Share = genShare(t)
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
		list = append(list, drawFrom(t, "constraint", fixed...))
	}
	if perJob && rapid.IntRange(0, 2).Draw(t, "perJob") > 0 {
		field := drawFrom(t, "field", "hostname", "rack", "@zone")
		list = append(list, drawFrom(t, "spread",
			job.Constraint{Field: field, Operator: job.Unique}, job.Constraint{Field: field, Operator: job.MaxPer, Value: "2"},
			job.Constraint{Field: field, Operator: job.Cluster}, job.Constraint{Field: field, Operator: job.GroupBy},
			job.Constraint{Field: field, Operator: job.GroupBy, Value: "2"},
		))
	}
	return list
}

func genPolicy(t *rapid.T) PlacementPolicy {
	p := PlacementPolicy{Name: drawFrom(t, "policy", PolicyNames()...)}
	for range rapid.IntRange(0, 4).Draw(t, "typical") {
		d := genDemand(t, false)
		p.Typical = append(p.Typical, TypicalTask{Demand: *d, Weight: float64(rapid.IntRange(1, 5).Draw(t, "weight"))})
	}
	return p
}

// clusterPair is a cluster and a naive model that get the same calls.
type clusterPair struct {
	cluster *Cluster
	model   *naiveCluster
	taken   []takenPlacements
	// roleCopy is put into the state of the cluster repeatedly, with CopyRole.
	roleCopy Cluster
}

type takenPlacements struct {
	demand     *Demand
	placements []Placement
}

func newClusterPair(agents []AgentResources, p PlacementPolicy) *clusterPair {
	c := NewCluster(agents, p, noon)
	return &clusterPair{cluster: c, model: newNaive(c.Agents(), noon)}
}

type testFailer interface {
	Fatalf(format string, args ...any)
}

// checkPlaceTasks checks PlaceTasks: each placement fits when it is taken, a task
// is missing only if none fits, and a cluster without caches returns the same.
func (m *clusterPair) checkPlaceTasks(t testFailer, d *Demand, n int) {
	fresh := m.cluster.Clone()
	for i := range fresh.capacities {
		fresh.agentChanged(i)
	}
	first := fresh.scoreEach(d)
	if k := m.cluster.BestScore(d); (k > 0) != (first >= 0) || first >= 0 && k != fresh.scoreAgent(first, fresh.classifyDemand(d)) {
		t.Fatalf("%+v has the best score %d, but agent %d scores most", d, k, first)
	}
	want := fresh.PlaceTasks(d, n)
	if len(d.Constraints) == 0 && (len(want) > 0) != (first >= 0) || first >= 0 && len(d.Constraints) == 0 && want[0].Agent != first {
		t.Fatalf("demand %+v is placed at %+v, but agent %d has the highest score", d, want, first)
	}
	if explained := m.cluster.ExplainShortage(d); explained.Missing == "" || explained.Found == "" {
		t.Fatalf("no explanation: %+v", explained)
	}
	m.roleCopy.CopyRole(m.cluster, d.Role)
	count, countable := m.roleCopy.CountTasks(d, n)
	got := m.cluster.PlaceTasks(d, n)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("a cluster without caches places %+v differently (-fresh +cached):\n%s", d, diff)
	}
	if diff := cmp.Diff(want, m.roleCopy.PlaceTasks(d, n)); diff != "" {
		t.Fatalf("a copy places %+v differently (-fresh +copy):\n%s", d, diff)
	}
	if countable && min(count.Tasks, n) != len(got) {
		t.Fatalf("%d of %d tasks of %+v were placed, %d by count", len(got), n, d, count.Tasks)
	}
	if len(got) > n {
		t.Fatalf("%d placements for %d tasks", len(got), n)
	}
	peers := slices.Clone(d.PeerAgents)
	for _, s := range got {
		m.checkPlacement(t, d, s, peers)
		peers = append(peers, &m.model.agents[s.Agent].facts)
	}
	if len(got) == n {
		m.taken = append(m.taken, takenPlacements{d, got})
		return
	}
	for i := range m.model.agents {
		if m.model.fitsTask(i, d) && m.model.allowsPeer(i, d, peers) {
			t.Fatalf("%d of %d tasks of %+v were placed, but %s has room", len(got), n, d, m.model.agents[i].facts.ID)
		}
		if m.cluster.RefusalReasons(d)(i) == "" {
			t.Fatalf("no refusal of %s", m.model.agents[i].facts.ID)
		}
	}
	m.taken = append(m.taken, takenPlacements{d, got})
}

// scoreEach scores every agent without caches and returns the first of those with
// the highest score, or -1 if none fits.
func (c *Cluster) scoreEach(d *Demand) int {
	best, most := -1, int64(0)
	for i := range c.capacities {
		if k := c.scoreAgent(i, c.classifyDemand(d)); k > most {
			best, most = i, k
		}
	}
	return best
}

func (m *clusterPair) checkPlacement(t testFailer, d *Demand, s Placement, peers []*AgentResources) {
	a := &m.model.agents[s.Agent]
	if !m.model.fitsTask(s.Agent, d) || !m.model.allowsPeer(s.Agent, d, peers) {
		t.Fatalf("%+v does not fit on %s, which has %+v", d, a.facts.ID, *a)
	}
	if len(s.Ports) != d.Ports || s.GPUs != d.Request.GPUs {
		t.Fatalf("%+v gets %+v", d, s)
	}
	for i, p := range d.HostPorts {
		if p != 0 && s.Ports[i] != p {
			t.Fatalf("%+v gets ports %v", d, s.Ports)
		}
	}
	if !d.Request.Share.IsWhole() && d.Request.GPUs > 0 {
		m.checkShares(t, d, s)
	} else {
		m.checkWhole(t, d, s)
	}
	var chosen []gpu.Device
	for _, p := range s.Shares {
		if d.Request.Share.IsWhole() {
			chosen = append(chosen, a.findDevice(p.UUID))
		}
	}
	for _, id := range s.DeviceIDs {
		dev := a.findDevice(id)
		if !naiveAcceptsDevice(d.Request, dev) || d.AvoidReserved && a.heldID[id] {
			t.Fatalf("%+v gets %+v", d, dev)
		}
		chosen = append(chosen, dev)
	}
	if !naiveSatisfiesTopology(d.Request.Topology, chosen) {
		t.Fatalf("%+v gets %v", d, s.DeviceIDs)
	}
	if wrong := m.model.applyPlacement(d, s, -1); wrong != "" {
		t.Fatalf("%+v for %+v on %+v %s", s, d, *a, wrong)
	}
}

// checkWhole checks that a task for whole GPUs gets as many as it requests, all of each, and shared ones only where no
// agent has enough others.
func (m *clusterPair) checkWhole(t testFailer, d *Demand, s Placement) {
	a := &m.model.agents[s.Agent]
	if a.named && len(s.DeviceIDs)+len(s.Shares) != d.Request.GPUs || !a.named && s.Shares != nil {
		t.Fatalf("%+v gets devices %v and all of %v", d, s.DeviceIDs, s.Shares)
	}
	seen := map[string]bool{}
	for _, p := range s.Shares {
		on := a.shared[p.UUID]
		if seen[p.UUID] || on == nil || !on.isIdle() || !a.mayTakeWhole(d, p.UUID) {
			t.Fatalf("%+v gets all of %s, which is %+v", d, p.UUID, on)
		}
		seen[p.UUID] = true
		if p.MemMiB != on.allMem || int64(p.Cores) != on.allCores || p.MilliDevices != wholeDevice || p.LimitedBy != "" {
			t.Fatalf("%+v gets %+v of %+v", d, p, on)
		}
	}
	if len(s.Shares) == 0 {
		return
	}
	hasPeers := slices.ContainsFunc(d.Constraints, job.Constraint.DependsOnPeers)
	for i := range m.model.agents {
		if (i == s.Agent || !hasPeers) && m.model.fitsTask(i, d) && m.model.agents[i].fitsUnshared(d) {
			t.Fatalf("%+v gets shared devices %v, and %s has others", d, s.Shares, m.model.agents[i].facts.ID)
		}
	}
}

// checkShares checks that a task gets as many different shared devices as it requests, exactly the share of each, and
// exclusive devices alone.
func (m *clusterPair) checkShares(t testFailer, d *Demand, s Placement) {
	a, seen := &m.model.agents[s.Agent], map[string]bool{}
	if len(s.Shares) != d.Request.GPUs || s.DeviceIDs != nil {
		t.Fatalf("%+v gets parts %v and devices %v", d, s.Shares, s.DeviceIDs)
	}
	for _, p := range s.Shares {
		dev := a.findDevice(p.UUID)
		if seen[p.UUID] || !naiveAcceptsDevice(d.Request, dev) || d.AvoidReserved && a.heldID[p.UUID] || !a.shareFits(d, p.UUID) || p.Type != dev.Type() {
			t.Fatalf("%+v gets %+v of %+v", d, p, dev)
		}
		seen[p.UUID] = true
		if p.MilliDevices < 1 || p.MilliDevices > wholeDevice {
			t.Fatalf("%+v counts for %d thousandths", p, p.MilliDevices)
		}
		if a.facts.Divisible {
			continue
		}
		if mem, cores := a.shareTaken(d.Request.Share, p.UUID); p.MemMiB != mem || int64(p.Cores) != cores {
			t.Fatalf("%+v gets %+v, want %d MiB and %d %%", d, p, mem, cores)
		}
		if on := a.shared[p.UUID]; d.Request.Share.IsExclusive() && (on.mem != on.allMem || on.cores != on.allCores) {
			t.Fatalf("%+v does not have %+v exclusively", d, on)
		}
	}
}

func (m *clusterPair) undoTaken(i int) {
	u := m.taken[i]
	m.cluster.UndoPlacements(u.demand, u.placements)
	for _, s := range u.placements {
		m.model.applyPlacement(u.demand, s, 1)
	}
	m.taken = slices.Delete(m.taken, i, i+1)
}

// checkEqual checks that cluster and model have the same free.
func (m *clusterPair) checkEqual(t testFailer) {
	for i := range m.cluster.capacities {
		r, a := &m.cluster.capacities[i], &m.model.agents[i]
		if r.free != a.amount || int(r.scalarGPUs) != a.gpus || countPorts(r.ports) != len(a.ports) || int(r.portCount) != len(a.ports) {
			t.Fatalf("%s has %+v free, want %+v", a.facts.ID, *r, *a)
		}
		for s, id := range r.uuids {
			if whole := m.cluster.wholeMask(r).Has(s); whole != (a.parts[id] == wholeDevice) {
				t.Fatalf("device %s: whole free %t, free share %d", id, whole, a.parts[id])
			}
			var got, want [4]int64
			if r.shareOffset >= 0 {
				free, all := m.cluster.sharesOf(r)[s].free, m.cluster.sharesOf(r)[s].total
				got = [4]int64{int64(free.mem), int64(free.cores), int64(all.mem), int64(all.cores)}
			}
			if on := a.shared[id]; on != nil {
				want = [4]int64{on.mem, on.cores, on.allMem, on.allCores}
			} else if a.facts.Divisible {
				want = [4]int64{int64(a.parts[id])}
			}
			if got != want {
				t.Fatalf("of %s are free and there (memory, cores) %v, want %v", id, got, want)
			}
		}
	}
}

// TestRandomSequenceMatchesNaiveModel is the most important property: after any
// sequence of placements, undos, releases and reservations, the result is correct
// and equals that of a cluster without caches.
func TestRandomSequenceMatchesNaiveModel(t *testing.T) { rapid.Check(t, runRandomSequence) }

// FuzzCluster runs the same sequences from fuzzer input.
func FuzzCluster(f *testing.F) { f.Fuzz(rapid.MakeFuzz(runRandomSequence)) }

func runRandomSequence(t *rapid.T) {
	m := newClusterPair(genAgents(t, 5), genPolicy(t))
	m.cluster.rankings.SetLimit(rapid.IntRange(1, 8).Draw(t, "rankings"))
	var demands []*Demand
	for range rapid.IntRange(1, 3).Draw(t, "demands") {
		d := genDemand(t, true)
		demands = append(demands, d, genVariant(t, d))
	}
	for range rapid.IntRange(1, 25).Draw(t, "steps") {
		m.runStep(t, demands)
		m.checkEqual(t)
	}
}

func (m *clusterPair) runStep(t *rapid.T, demands []*Demand) {
	switch what := rapid.IntRange(0, 9).Draw(t, "step"); {
	case what < 5:
		d := *drawFrom(t, "demand", demands...)
		for range rapid.IntRange(0, 2).Draw(t, "peers") {
			if len(m.model.agents) > 0 {
				d.PeerAgents = append(d.PeerAgents, &m.model.agents[rapid.IntRange(0, len(m.model.agents)-1).Draw(t, "other")].facts)
			}
		}
		m.checkPlaceTasks(t, &d, rapid.IntRange(1, 4).Draw(t, "n"))
	case what < 6:
		if len(m.taken) > 0 {
			m.undoTaken(rapid.IntRange(0, len(m.taken)-1).Draw(t, "undo"))
		}
	case what < 8:
		d := *drawFrom(t, "counted", demands...)
		d.AvoidReserved = false
		count, countable := m.cluster.CountTasks(&d, 3)
		m.releaseTask(t)
		if !countable {
			break
		}
		for i := range m.model.agents {
			if m.model.agents[i].facts.Role == d.Role {
				count.UpdateAgent(i)
			}
		}
		if fresh, _ := m.cluster.Clone().CountTasks(&d, 3); fresh.Tasks != count.Tasks {
			t.Fatalf("%d tasks of %+v fit by the cached count, %d by a new one", count.Tasks, &d, fresh.Tasks)
		}
	default:
		m.reserveTask(t)
	}
}

// releaseTask releases devices that no task has, listed or not.
func (m *clusterPair) releaseTask(t *rapid.T) {
	m.cluster.ReleaseResources("nowhere", "r", TaskResources{Amount: Amount{CPUs: 1}, GPUs: 1})
	if len(m.model.agents) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.model.agents)-1).Draw(t, "agent")
	a := &m.model.agents[i]
	am := Amount{CPUs: drawFrom(t, "cpus", 0.1, 1), MemMiB: 100}
	var ids []string
	var parts []gpu.DeviceShare
	gpus := 0
	if id := fmt.Sprintf("GPU-%d-%d", i, rapid.IntRange(0, 4).Draw(t, "of")); !a.facts.Divisible && a.parts[id] == 0 &&
		!m.isTakenWhole(id) && rapid.Bool().Draw(t, "a part") {
		parts = []gpu.DeviceShare{{UUID: id, MemMiB: 2000, Cores: drawFrom(t, "part of cores", 0, 30)}}
	}
	if a.named || a.gpus == 0 && rapid.Bool().Draw(t, "by name") {
		for g := range 5 {
			id := fmt.Sprintf("GPU-%d-%d", i, g)
			if m.isTaken(id) || a.parts[id] != 0 || a.shared[id] != nil || parts != nil && parts[0].UUID == id || !rapid.Bool().Draw(t, "device") {
				continue
			}
			ids = append(ids, id)
		}
		gpus = len(ids)
	} else {
		gpus = rapid.IntRange(0, 1).Draw(t, "count")
	}
	var ports []int
	if p := 31005; !a.ports[p] && rapid.Bool().Draw(t, "port") && !m.isPortTaken(i, p) {
		ports = []int{p}
	}
	h := TaskResources{am, gpus, ids, parts, ports}
	m.cluster.ReleaseResources(a.facts.ID, a.facts.Role, h)
	a.releaseTask(h)
}

// isTakenWhole reports whether a task placed here has the whole device.
func (m *clusterPair) isTakenWhole(id string) bool {
	return slices.ContainsFunc(m.taken, func(u takenPlacements) bool {
		return slices.ContainsFunc(u.placements, func(s Placement) bool { return slices.Contains(s.DeviceIDs, id) })
	})
}

// isTaken reports whether a task placed here has part of the device.
func (m *clusterPair) isTaken(id string) bool {
	return slices.ContainsFunc(m.taken, func(u takenPlacements) bool {
		return slices.ContainsFunc(u.placements, func(s Placement) bool {
			return slices.Contains(s.DeviceIDs, id) || slices.ContainsFunc(s.Shares, func(p gpu.DeviceShare) bool { return p.UUID == id })
		})
	})
}

func (m *clusterPair) isPortTaken(agent, port int) bool {
	return slices.ContainsFunc(m.taken, func(u takenPlacements) bool {
		return slices.ContainsFunc(u.placements, func(s Placement) bool { return s.Agent == agent && slices.Contains(s.Ports, port) })
	})
}

func (m *clusterPair) reserveTask(t *rapid.T) {
	m.cluster.ReserveResources("nowhere", "r", TaskResources{GPUs: 1})
	if len(m.model.agents) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.model.agents)-1).Draw(t, "agent")
	a := &m.model.agents[i]
	am := Amount{CPUs: drawFrom(t, "cpus", 0.1, 1, 3)}
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
	h := TaskResources{Amount: am, GPUs: gpus, DeviceIDs: ids}
	for _, id := range slices.Sorted(maps.Keys(a.shared)) {
		if rapid.IntRange(0, 2).Draw(t, "hold a part") == 0 {
			h.Shares = append(h.Shares, gpu.DeviceShare{UUID: id, MemMiB: 3000, Cores: drawFrom(t, "held cores", 0, 20)})
		}
	}
	m.cluster.ReserveResources(a.facts.ID, a.facts.Role, h)
	a.reserveTask(h)
}
