package fit

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

const (
	v100 = "Tesla V100-SXM2-16GB"
	a100 = "NVIDIA A100-SXM4-80GB"
	k80  = "Tesla K80"
)

// mixedAgent returns an agent with two V100 and two A100, listed and with IDs.
func mixedAgent() AgentResources {
	a := AgentResources{
		ID: "a", Hostname: "h1.example", Role: "r", Free: Amount{16, 65536, 1000}, GPUs: 4, TotalGPUs: 4, Types: []string{"V100", "A100"},
		Driver: "535.104.05", CUDA: "12.2", DeviceIDs: []string{"GPU-0", "GPU-1", "GPU-2", "GPU-3"}, Ports: []PortRange{{31000, 31001}},
		Attributes: []Attribute{{"rack", "r1"}, {"slots", "[1-2]"}, {"weight", "1.5"}}, Region: "eu", Zone: "eu-1",
	}
	for i, model := range []string{v100, v100, a100, a100} {
		mem := int64(16160)
		if model == a100 {
			mem = 81920
		}
		a.Inventory = append(a.Inventory, gpu.Device{UUID: a.DeviceIDs[i], Model: model, MemMiB: mem, Minor: i, NUMA: i / 2})
	}
	return a
}

// sharedAgent returns an agent that shares n V100, "GPU-0" and so on.
func sharedAgent(n int, mem int64) AgentResources {
	a := AgentResources{ID: "a", Hostname: "h1.example", Role: "r", Free: Amount{16, 65536, 1000}}
	for i := range n {
		id := fmt.Sprintf("GPU-%d", i)
		a.Shared = append(a.Shared, SharedDevice{id, mem, gpu.AllCores})
		a.Inventory = append(a.Inventory, gpu.Device{UUID: id, Model: v100, MemMiB: mem, Minor: i, NUMA: -1})
	}
	return a
}

// countedAgent returns an agent that offers four GPUs by count.
func countedAgent(types ...string) AgentResources {
	return AgentResources{ID: "a", Role: "r", Free: Amount{16, 65536, 1000}, GPUs: 4, TotalGPUs: 4, Types: types}
}

func TestFeasibility(t *testing.T) {
	with := func(a AgentResources, change func(*AgentResources)) AgentResources {
		change(&a)
		return a
	}
	small := Amount{CPUs: 1}
	for _, c := range []struct {
		name  string
		agent AgentResources
		d     Demand
		want  int // of four tasks
	}{
		{"no GPUs", mixedAgent(), Demand{Amount: Amount{CPUs: 4}}, 4},
		{"cpus", mixedAgent(), Demand{Amount: Amount{CPUs: 5}}, 3},
		{"memory", mixedAgent(), Demand{Amount: Amount{MemMiB: 32768}}, 2},
		{"disk", mixedAgent(), Demand{Amount: Amount{DiskMiB: 1001}}, 0},
		{"ports", mixedAgent(), Demand{Amount: small, Ports: 1}, 2},
		{"another role", mixedAgent(), Demand{Role: "s", Amount: small}, 0},
		{"any GPUs", mixedAgent(), Demand{Request: gpu.Request{GPUs: 1}}, 4},
		{"two of a type", mixedAgent(), Demand{Request: gpu.Request{GPUs: 2, Types: gpu.TypeSelector{Include: []string{"a100"}}}}, 1},
		{"three of a type", mixedAgent(), Demand{Request: gpu.Request{GPUs: 3, Types: gpu.TypeSelector{Include: []string{"A100"}}}}, 0},
		{"not a type", mixedAgent(), Demand{Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Exclude: []string{"A100"}}}}, 2},
		{"device memory", mixedAgent(), Demand{Request: gpu.Request{GPUs: 1, MinMemMiB: 81920}}, 2},
		{"too much device memory", mixedAgent(), Demand{Request: gpu.Request{GPUs: 1, MinMemMiB: 81921}}, 0},
		{"unknown device memory", with(mixedAgent(), func(a *AgentResources) { a.Inventory[0].MemMiB = 0 }), Demand{Request: gpu.Request{GPUs: 1, MinMemMiB: 1}}, 3},
		{"named devices", mixedAgent(), Demand{Request: gpu.Request{GPUs: 1, Devices: gpu.DeviceSelector{Include: []string{"GPU-1", "GPU-9"}}}}, 1},
		{"all but named devices", mixedAgent(), Demand{Request: gpu.Request{GPUs: 1, Devices: gpu.DeviceSelector{Exclude: []string{"GPU-1"}}}}, 3},
		{"the very driver", mixedAgent(), Demand{Request: gpu.Request{GPUs: 1, MinDriver: "535.104.5"}}, 4},
		{"shorter driver", mixedAgent(), Demand{Request: gpu.Request{GPUs: 1, MinDriver: "535"}}, 4},
		{"numerically newer driver", mixedAgent(), Demand{Request: gpu.Request{GPUs: 1, MinDriver: "535.99"}}, 4},
		{"too new a driver", mixedAgent(), Demand{Request: gpu.Request{GPUs: 1, MinDriver: "535.104.06"}}, 0},
		{"CUDA with zero", mixedAgent(), Demand{Request: gpu.Request{GPUs: 1, MinCUDA: "12.2.0"}}, 4},
		{"too new a CUDA", mixedAgent(), Demand{Request: gpu.Request{GPUs: 1, MinCUDA: "12.10"}}, 0},
		{"unknown CUDA", with(mixedAgent(), func(a *AgentResources) { a.CUDA = "" }), Demand{Request: gpu.Request{GPUs: 1, MinCUDA: "1"}}, 0},
		{"no version at all", with(mixedAgent(), func(a *AgentResources) { a.Driver = "beta" }), Demand{Request: gpu.Request{GPUs: 1, MinDriver: "1"}}, 0},
		{"versions do not matter without GPUs", mixedAgent(), Demand{Amount: small, Request: gpu.Request{MinDriver: "999"}}, 4},
		{"fewer GPUs by the scalar", with(mixedAgent(), func(a *AgentResources) { a.GPUs = 1 }), Demand{Request: gpu.Request{GPUs: 1}}, 1},
		{"one NUMA node", mixedAgent(), Demand{Request: gpu.Request{GPUs: 2, Topology: gpu.SameNUMA}}, 2},
		{"too many for a NUMA node", mixedAgent(), Demand{Request: gpu.Request{GPUs: 3, Topology: gpu.SameNUMA}}, 0},
		{"no links", mixedAgent(), Demand{Request: gpu.Request{GPUs: 2, Topology: gpu.NVLink}}, 0},
		{"one device needs no link", mixedAgent(), Demand{Request: gpu.Request{GPUs: 1, Topology: gpu.NVLink}}, 4},
		{"unlisted devices have the only type",
			AgentResources{Role: "r", GPUs: 2, Types: []string{"V100"}, DeviceIDs: []string{"x", "y"}},
			Demand{Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"V100"}}}}, 2},
		{"unlisted devices of two types",
			AgentResources{Role: "r", GPUs: 2, Types: []string{"V100", "K80"}, DeviceIDs: []string{"x", "y"}},
			Demand{Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"V100"}}}}, 0},

		{"by count", countedAgent("V100"), Demand{Request: gpu.Request{GPUs: 2}}, 2},
		{"by count and type", countedAgent("V100"), Demand{Request: gpu.Request{GPUs: 2, Types: gpu.TypeSelector{Include: []string{"V100"}}}}, 2},
		{"by count, mixed", countedAgent("V100", "K80"), Demand{Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"V100"}}}}, 0},
		{"by count, both fit", countedAgent("V100", "K80"), Demand{Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"V100", "K80"}}}}, 4},
		{"by count, no type known", countedAgent(), Demand{Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Exclude: []string{"K80"}}}}, 0},
		{"by count, memory unknown", countedAgent("V100"), Demand{Request: gpu.Request{GPUs: 1, MinMemMiB: 16000}}, 0},
		{"by count, memory as attribute",
			with(countedAgent("V100"), func(a *AgentResources) { a.Attributes = []Attribute{{"gpu_memory", "16160"}} }),
			Demand{Request: gpu.Request{GPUs: 1, MinMemMiB: 16000}}, 4},
		{"by count, named devices", countedAgent("V100"), Demand{Request: gpu.Request{GPUs: 1, Devices: gpu.DeviceSelector{Exclude: []string{"x"}}}}, 0},
		{"by count, topology", countedAgent("V100"), Demand{Request: gpu.Request{GPUs: 2, Topology: gpu.SameNUMA}}, 0},
		{"by count, a share", countedAgent("V100"), Demand{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemMiB: 500}}}, 0},
		{"thousandths of a trace",
			with(makeDivisible(mixedAgent()), func(a *AgentResources) { a.GPUs, a.DeviceIDs = 1, a.DeviceIDs[:1] }),
			Demand{Request: gpu.Request{GPUs: 1, Share: MilliShare(400)}}, 2},
		{"a share of whole devices", mixedAgent(), Demand{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemMiB: 1}}}, 0},
		{"a whole device where all are shared", sharedAgent(2, 16000), Demand{Request: gpu.Request{GPUs: 1}}, 0},
		{"shares of memory", sharedAgent(2, 16000), Demand{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemMiB: 8000}}}, 4},
		{"shares that leave too little", sharedAgent(2, 16000), Demand{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemMiB: 8001}}}, 2},
		{"shares of memory in percent", sharedAgent(1, 16000), Demand{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemPercent: 33}}}, 3},
		{"shares of cores", sharedAgent(1, 16000), Demand{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemMiB: 1, Cores: 40}}}, 2},
		{"memory follows cores", sharedAgent(1, 16000), Demand{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{Cores: 30}}}, 3},
		{"alone on a device", sharedAgent(2, 16000), Demand{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{Cores: 100}}}, 2},
		{"alone on a device that is in use", with(sharedAgent(2, 16000), func(a *AgentResources) { a.Shared[1].MemMiB-- }),
			Demand{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{Cores: 100}}}, 1},
		{"shares of two devices", sharedAgent(3, 16000), Demand{Request: gpu.Request{GPUs: 2, Share: gpu.ShareRequest{MemMiB: 8000}}}, 3},
		{"shares of more devices than there are", sharedAgent(3, 16000), Demand{Request: gpu.Request{GPUs: 4, Share: gpu.ShareRequest{MemMiB: 1}}}, 0},
		{"no cores wanted, none left", with(sharedAgent(1, 16000), func(a *AgentResources) { a.Shared[0].Cores = 0 }),
			Demand{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemMiB: 1}}}, 0},
		{"no cores wanted, none there",
			with(sharedAgent(1, 16000), func(a *AgentResources) { a.Shared[0].Cores, a.AllShared = 0, []SharedDevice{{"GPU-0", 16000, 0}} }),
			Demand{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemMiB: 4000}}}, 4},
		{"a share and a type", with(sharedAgent(2, 16000), func(a *AgentResources) { a.Inventory[1].Model = k80 }),
			Demand{Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"K80"}}, Share: gpu.ShareRequest{MemMiB: 8000}}},
			2},
		{"a share and a UUID", sharedAgent(2, 16000),
			Demand{Request: gpu.Request{GPUs: 1, Devices: gpu.DeviceSelector{Exclude: []string{"GPU-0"}}, Share: gpu.ShareRequest{MemMiB: 8000}}},
			2},
		{"more memory than the device has", with(sharedAgent(1, 16000), func(a *AgentResources) { a.Shared[0].MemMiB = 24000 }),
			Demand{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemMiB: 24000}}}, 1},
		{"percent are of the device's own", with(sharedAgent(1, 16000), func(a *AgentResources) { a.Shared[0].MemMiB = 24000 }),
			Demand{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemPercent: 50}}}, 3},
		{"a device that no inventory lists", with(sharedAgent(1, 16000), func(a *AgentResources) { a.Inventory = nil }),
			Demand{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemPercent: 50}}}, 2},

		{"maintenance far away", with(mixedAgent(), func(a *AgentResources) { a.Unavailable = noon.Add(time.Hour) }), Demand{Amount: small}, 4},
		{"maintenance soon", with(mixedAgent(), func(a *AgentResources) { a.Unavailable = noon.Add(59 * time.Minute) }), Demand{Amount: small}, 0},
		{"done before maintenance", with(mixedAgent(), func(a *AgentResources) { a.Unavailable = noon.Add(time.Minute) }),
			Demand{Amount: small, RunTime: time.Minute}, 4},
		{"not done before maintenance", with(mixedAgent(), func(a *AgentResources) { a.Unavailable = noon.Add(2 * time.Hour) }),
			Demand{Amount: small, RunTime: 3 * time.Hour}, 0},
		{"under maintenance", with(mixedAgent(), func(a *AgentResources) { a.Unavailable = noon }), Demand{Amount: small, RunTime: time.Nanosecond}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.d.Role == "" {
				c.d.Role = "r"
			}
			cluster := NewCluster([]AgentResources{c.agent}, PlacementPolicy{}, noon)
			if got := len(cluster.PlaceTasks(&c.d, 4)); got != c.want {
				t.Errorf("%d tasks find a place, want %d", got, c.want)
			}
			one := len(NewCluster([]AgentResources{c.agent}, PlacementPolicy{}, noon).PlaceTasks(&c.d, 1))
			if want := min(c.want, 1); one != want {
				t.Errorf("of one task %d find a place, want %d", one, want)
			}
		})
	}
}

func TestFixedConstraints(t *testing.T) {
	for _, c := range []struct {
		text string
		want bool
	}{
		{"hostname LIKE h[0-9].example", true},
		{"@hostname LIKE h1", false}, // the whole value
		{"hostname UNLIKE h1", true},
		{"hostname IS h1.example", true},
		{"hostname CLUSTER h2.example", false},
		{"@region IS eu", true},
		{"@zone LIKE eu-[12]", true},
		{"@zone UNLIKE eu-[12]", false},
		{"rack CLUSTER r1", true},
		{"rack IS R1", false},
		{"slots IS [1-2]", true},
		{"weight IS 1.50", true},
		{"weight IS 1.5004", true}, // three decimals, as Mesos keeps
		{"weight IS 1.51", false},
		{"weight LIKE 1.5", true},
		{"none LIKE .*", false},
		{"none UNLIKE .*", true},
		{"none IS x", false},
		{"none CLUSTER x", false},
		{"none UNIQUE", false},
		{"none MAX_PER 3", false},
		{"none GROUP_BY", false},
		{"none CLUSTER", false},
		{"rack UNIQUE", true},
	} {
		con, err := job.ParseConstraint(c.text)
		if err != nil {
			t.Fatal(err)
		}
		cluster := NewCluster([]AgentResources{mixedAgent()}, PlacementPolicy{}, noon)
		d := &Demand{Role: "r", Constraints: []job.Constraint{con}}
		if got := len(cluster.PlaceTasks(d, 1)) == 1; got != c.want {
			t.Errorf("%s: got %t, want %t", c.text, got, c.want)
		}
	}
}

// agentsInRacks returns agents h0, h1, … each with room for two tasks of one CPU.
func agentsInRacks(names ...string) []AgentResources {
	var agents []AgentResources
	for i, rack := range names {
		a := AgentResources{ID: string(rune('a' + i)), Hostname: "h" + string(rune('0'+i)), Free: Amount{CPUs: 2}}
		if rack != "" {
			a.Attributes = []Attribute{{"rack", rack}}
		}
		agents = append(agents, a)
	}
	return agents
}

func TestPerJobConstraints(t *testing.T) {
	for _, c := range []struct {
		name   string
		agents []AgentResources
		texts  []string
		peers  []int
		n      int
		want   string // agents, in order
	}{
		{"unique host", agentsInRacks("r1", "r1", "r2"), []string{"hostname UNIQUE"}, nil, 4, "abc"},
		{"unique rack", agentsInRacks("r1", "r1", "r2"), []string{"rack UNIQUE"}, nil, 4, "ac"},
		{"unique with others", agentsInRacks("r1", "r1", "r2"), []string{"rack UNIQUE"}, []int{0}, 4, "c"},
		{"missing value", agentsInRacks("r1", "", "r2"), []string{"rack UNIQUE"}, nil, 4, "ac"},
		{"max per rack", agentsInRacks("r1", "r1", "r2", "r2"), []string{"rack MAX_PER 3"}, []int{0}, 9, "aaccd"},
		{"cluster by the first", agentsInRacks("r1", "r2", "r1"), []string{"rack CLUSTER"}, nil, 3, "aac"},
		{"cluster where all fit", agentsInRacks("r1", "r2", "r2"), []string{"rack CLUSTER"}, nil, 3, "bbc"},
		{"cluster where most fit", agentsInRacks("r1", "r2", "r2"), []string{"rack CLUSTER"}, nil, 9, "bbcc"},
		{"cluster where there is no room", agentsInRacks("r1", "r2"), []string{"rack CLUSTER", "hostname LIKE x"}, nil, 3, ""},
		{"cluster where just all fit", agentsInRacks("r1", "r2", "r2"), []string{"rack CLUSTER"}, nil, 2, "aa"},
		{"cluster where others allow it", agentsInRacks("r1", "r2", "r2"), []string{"rack CLUSTER", "hostname UNIQUE"}, nil, 2, "bc"},
		{"cluster by two fields", agentsInRacks("r1", "r1", "r2"), []string{"rack CLUSTER", "hostname CLUSTER"}, nil, 3, "aa"},
		{"cluster with others", agentsInRacks("r1", "r2", "r2"), []string{"rack CLUSTER"}, []int{0}, 3, "aa"},
		{"cluster of agents that have a value", agentsInRacks("", "", "r1"), []string{"rack CLUSTER"}, nil, 3, "cc"},
		{"cluster with one without a value", agentsInRacks("", "r1"), []string{"rack CLUSTER"}, []int{0}, 2, ""},
		{"group by", agentsInRacks("r1", "r1", "r2"), []string{"rack GROUP_BY"}, nil, 9, "acacb"},
		{"group by with others", agentsInRacks("r1", "r1", "r2"), []string{"rack GROUP_BY"}, []int{0, 0}, 2, "cc"},
		{"group by more groups than there are", agentsInRacks("r1", "r2"), []string{"rack GROUP_BY 3"}, nil, 9, "ab"},
		{"group by fewer groups than there are", agentsInRacks("r1", "r2", "r3"), []string{"rack GROUP_BY 2"}, nil, 6, "abcabc"},
		{"group by ignores groups without suitable agents", agentsInRacks("r1", "r2"), []string{"rack GROUP_BY", "hostname UNLIKE h1"}, nil, 2, "aa"},
		{"group by counts no group without suitable agents", agentsInRacks("r1", "r2"), []string{"rack GROUP_BY 2", "hostname UNLIKE h1"}, nil, 2, "a"},
		{"group by counts a group that has a task", agentsInRacks("r1", "r2"), []string{"rack GROUP_BY 2", "hostname UNLIKE h1"}, []int{1}, 2, "aa"},
		{"two constraints", agentsInRacks("r1", "r1", "r2", "r2"), []string{"hostname UNIQUE", "rack MAX_PER 1"}, nil, 9, "ac"},
		{"with fixed ones", agentsInRacks("r1", "r1", "r2", "r2"), []string{"rack UNIQUE", "hostname UNLIKE h0"}, nil, 9, "bc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &Demand{Amount: Amount{CPUs: 1}}
			for _, text := range c.texts {
				con, err := job.ParseConstraint(text)
				if err != nil {
					t.Fatal(err)
				}
				d.Constraints = append(d.Constraints, con)
			}
			for _, i := range c.peers {
				d.PeerAgents = append(d.PeerAgents, &c.agents[i])
			}
			cluster := NewCluster(c.agents, PlacementPolicy{}, noon)
			got := ""
			for _, s := range cluster.PlaceTasks(d, c.n) {
				got += cluster.Agents()[s.Agent].ID
			}
			if got != c.want {
				t.Errorf("placed on %q, want %q", got, c.want)
			}
			rest := len(cluster.PlaceTasks(&Demand{Amount: Amount{CPUs: 1}}, 99))
			if want := 2*len(c.agents) - len(c.want); rest != want {
				t.Errorf("then %d more tasks find room, want %d", rest, want)
			}
		})
	}
}

// TestGroupByMinimumGroups compares Marathon's documentation of GROUP_BY, "at least so many groups", which this
// package follows, with Marathon's code, "exactly so many", for six tasks in three racks.
func TestGroupByMinimumGroups(t *testing.T) {
	// coded computes what Marathon's code does: each of n groups gets an equal part of the tasks, the first ones the
	// remainder, and other groups get none.
	coded := func(n, tasks, racks int) []int {
		counts := make([]int, racks)
		for i := range min(n, racks) {
			counts[i] = tasks / n
			if i < tasks%n {
				counts[i]++
			}
		}
		return counts
	}
	for _, c := range []struct {
		text   string
		n      int
		want   []int
		differ bool
	}{
		{"rack GROUP_BY", 0, []int{2, 2, 2}, true}, // Marathon's code divides by zero
		{"rack GROUP_BY 2", 2, []int{2, 2, 2}, true},
		{"rack GROUP_BY 3", 3, []int{2, 2, 2}, false},
		{"rack GROUP_BY 4", 4, []int{1, 1, 1}, true}, // the rest waits for a fourth rack
	} {
		con, err := job.ParseConstraint(c.text)
		if err != nil {
			t.Fatal(err)
		}
		agents := agentsInRacks("r1", "r1", "r2", "r2", "r3", "r3")
		cluster := NewCluster(agents, PlacementPolicy{}, noon)
		got := make([]int, 3)
		for _, s := range cluster.PlaceTasks(&Demand{Amount: Amount{CPUs: 1}, Constraints: []job.Constraint{con}}, 6) {
			got[s.Agent/2]++
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v tasks on the racks, want %v", c.text, got, c.want)
		}
		if c.n > 0 && slices.Equal(got, coded(c.n, 6, 3)) == c.differ {
			t.Errorf("%s: %v, and Marathon's code has %v: want them to differ: %t", c.text, got, coded(c.n, 6, 3), c.differ)
		}
	}
}

// GROUP_BY places no task in a larger group while the smallest one is full.
func TestGroupByWaitsForSmallestGroup(t *testing.T) {
	agents := agentsInRacks("r1", "r2")
	agents[0].Free.CPUs = 0.5
	c := NewCluster(agents, PlacementPolicy{}, noon)
	d := &Demand{Amount: Amount{CPUs: 1}, Constraints: []job.Constraint{{Field: "rack", Operator: job.GroupBy}}, PeerAgents: []*AgentResources{&agents[1]}}
	if got := c.PlaceTasks(d, 1); len(got) != 0 {
		t.Errorf("placed on %v, want none", got)
	}
}

// CLUSTER selects the value of the best agent, if its group has room for all tasks.
func TestClusterBeginsWithBestAgent(t *testing.T) {
	agents := agentsInRacks("r1", "r2", "r3")
	agents[0].Free.CPUs, agents[2].Free.CPUs = 4, 3 // b is filled first
	c := NewCluster(agents, PlacementPolicy{Name: "binpack"}, noon)
	for _, p := range c.PlaceTasks(&Demand{Amount: Amount{CPUs: 1}, Constraints: []job.Constraint{{Field: "rack", Operator: job.Cluster}}}, 2) {
		if p.Agent != 1 {
			t.Errorf("placed on agent %d, want 1", p.Agent)
		}
	}
}

// The type that a constraint compares is that of the GPUs which the task gets.
func TestConstraintOnTypeOfGrantedGPUs(t *testing.T) {
	agent := func(id string, models ...string) AgentResources {
		a := AgentResources{ID: id, Hostname: id, Free: Amount{CPUs: 2}, GPUs: len(models)}
		for i, model := range models {
			uuid := fmt.Sprint("GPU-", id, i)
			a.DeviceIDs = append(a.DeviceIDs, uuid)
			a.Inventory = append(a.Inventory, gpu.Device{UUID: uuid, Model: model})
		}
		return a
	}
	agents := []AgentResources{agent("a", "Tesla K80"), agent("b", "Tesla V100", "Tesla K80"), agent("c", "Tesla V100"), agent("d", "Tesla V100", "Tesla T4")}
	c := NewCluster(agents, PlacementPolicy{}, noon)
	d := &Demand{
		Amount: Amount{CPUs: 1}, Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"V100", "T4"}}},
		Constraints: []job.Constraint{{Field: job.GPUTypeField, Operator: job.Cluster}}, PeerAgents: []*AgentResources{&agents[2]},
	}
	got := ""
	for _, p := range c.PlaceTasks(d, 4) {
		got += agents[p.Agent].ID
	}
	if got != "bc" && got != "cb" { // a has no accepted type, d may grant another one
		t.Errorf("placed on %q, want b and c", got)
	}
}

// A task on an agent that no longer exists still counts.
func TestPeerOnUnknownAgent(t *testing.T) {
	gone := agentsInRacks("r9")
	for text, want := range map[string]int{"rack CLUSTER": 0, "rack GROUP_BY 3": 4, "rack GROUP_BY 4": 2, "rack UNIQUE": 2} {
		con, err := job.ParseConstraint(text)
		if err != nil {
			t.Fatal(err)
		}
		c := NewCluster(agentsInRacks("r1", "r2"), PlacementPolicy{}, noon)
		d := &Demand{Amount: Amount{CPUs: 1}, Constraints: []job.Constraint{con}, PeerAgents: []*AgentResources{&gone[0]}}
		if got := len(c.PlaceTasks(d, 4)); got != want {
			t.Errorf("%s: %d tasks placed, want %d", text, got, want)
		}
	}
}
