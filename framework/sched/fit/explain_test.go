package fit

import (
	"testing"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// typedAgent returns an agent with four GPUs of a model, of which some are free.
func typedAgent(id, model string, free int) AgentResources {
	a := AgentResources{
		ID:        id,
		Hostname:  id + ".example",
		Free:      Amount{16, 65536, 10000},
		TotalGPUs: 4,
		Types:     []string{gpu.TypeOf(model)},
		Driver:    "525.60.13",
		CUDA:      "12.0",
	}
	for g := range 4 {
		d := gpu.Device{UUID: id + string(rune('0'+g)), Model: model, MemMiB: 16160, Minor: g, NUMA: g / 2}
		a.Inventory = append(a.Inventory, d)
		if g < free {
			a.DeviceIDs = append(a.DeviceIDs, d.UUID)
		}
	}
	a.GPUs = free
	return a
}

// closedAgent returns an agent that accepts no tasks.
func closedAgent(id string) AgentResources {
	a := typedAgent(id, v100, 0)
	a.Free, a.Closed = Amount{}, true
	return a
}

func mustParseConstraint(t *testing.T, text string) job.Constraint {
	t.Helper()
	con, err := job.ParseConstraint(text)
	if err != nil {
		t.Fatal(err)
	}
	return con
}

// sharingAgents returns two agents with four devices each, some of them shared.
func sharingAgents() []AgentResources {
	a, b := typedAgent("a", v100, 0), typedAgent("b", v100, 0)
	a.Inventory[3].Model = k80
	a.Shared = []SharedDevice{{"a0", 2048, 100}, {"a1", 16160, 10}, {"a3", 16160, 100}}
	b.Shared = []SharedDevice{{"b0", 2048, 100}, {"b1", 1024, 10}, {"b2", 6000, 10}}
	a.TotalGPUs, b.TotalGPUs = 1, 1
	return []AgentResources{a, b}
}

func TestExplainShortage(t *testing.T) {
	cluster := []AgentResources{
		typedAgent("a", v100, 1), typedAgent("b", v100, 1), typedAgent("c", v100, 0),
		{ID: "d", Free: Amount{16, 65536, 10000}, GPUs: 8, Types: []string{"K80"}},
	}
	v := gpu.TypeSelector{Include: []string{"V100"}}
	over := Amount{CPUs: 0.1, MemMiB: 32}
	with := func(a AgentResources, change func(*AgentResources)) AgentResources {
		change(&a)
		return a
	}
	for _, c := range []struct {
		name       string
		agents     []AgentResources
		d          Demand
		lack, seen string
	}{
		// These texts must not change: they are older than constraints.
		{"type", cluster, Demand{Request: gpu.Request{GPUs: 2, Types: v}}, "2 free V100 on one agent", "3 agents have the type, 2 have 1 free"},
		{"type nowhere", cluster, Demand{Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"A100"}}}},
			"1 free A100 on one agent", "no agent has the type, 4 agents are known: K80 on 1, V100 on 3"},
		{"another product", []AgentResources{typedAgent("p", "NVIDIA A100-SXM4-40GB", 4)},
			Demand{Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"A100-80GB"}}}},
			"1 free A100-80GB on one agent", "no agent has the type, 1 agent is known: NVIDIA A100-SXM4-40GB on 1"},
		{"MIG devices only", []AgentResources{typedAgent("m", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", 4)}, Demand{Request: gpu.Request{GPUs: 1}},
			"1 free GPU on one agent",
			"no agent has the type, 1 agent is known: A100 MIG 1g.10gb on 1; only tasks that name MIG devices get them: gpu_type: 1g.10gb"},
		{"any type", cluster, Demand{Request: gpu.Request{GPUs: 16}}, "16 free GPUs on one agent", "4 agents have GPUs, the largest has 8"},
		{"totals not told", []AgentResources{{ID: "a", Types: []string{"V100"}}, cluster[3]},
			Demand{Request: gpu.Request{GPUs: 16}}, "16 free GPUs on one agent", "2 agents have GPUs, 1 has 8 free"},
		{"none free", cluster[2:3], Demand{Request: gpu.Request{GPUs: 1}}, "1 free GPU on one agent", "1 agent has GPUs, none has one free"},
		{"too large", cluster[:3], Demand{Request: gpu.Request{GPUs: 5, Types: v}}, "5 free V100 on one agent", "3 agents have the type, the largest has 4"},
		{"cpus", cluster, Demand{Amount: Amount{CPUs: 64.1}, Overhead: over},
			"64.1 CPUs (including 0.1 for the executor) on one agent", "4 agents are known, the most free on one is 16"},
		{"cpus with GPUs", cluster,
			Demand{Amount: Amount{CPUs: 32}, Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"K80"}}}},
			"32 CPUs and 1 free K80 on one agent", "1 agent has the GPUs, the most free on one is 16"},
		{"all but a type", cluster[3:],
			Demand{Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Exclude: []string{"V100"}}}, Amount: Amount{CPUs: 17}},
			"17 CPUs and 1 free GPU other than V100 on one agent", "1 agent has the GPUs, the most free on one is 16"},
		{"closed", []AgentResources{closedAgent("a"), cluster[3]}, Demand{Request: gpu.Request{GPUs: 1, Types: v}},
			"1 free V100 on one agent", "no agent that accepts tasks has the type, 1 agent accepts tasks: K80 on 1"},
		{"all closed", []AgentResources{closedAgent("a"), closedAgent("b")}, Demand{Request: gpu.Request{GPUs: 1}},
			"1 free GPU on one agent", "none of 2 agents accepts tasks"},
		{"no agent", nil, Demand{Request: gpu.Request{GPUs: 1}}, "1 free GPU on one agent", "no agent is known yet"},
		{"no agent, without GPUs", nil, Demand{Amount: Amount{CPUs: 1}}, "1 CPU on one agent", "no agent is known yet"},
		{"room", cluster, Demand{Amount: Amount{CPUs: 1}}, "an offer", "4 agents had room when last offered"},
		{"no GPU anywhere", []AgentResources{{ID: "e"}}, Demand{Request: gpu.Request{GPUs: 1}}, "1 free GPU on one agent", "1 agent has no GPU"},

		{"role", cluster, Demand{Role: "ml", Amount: Amount{CPUs: 1}}, "1 CPU on one agent", `none of 4 agents offers to role "ml"`},
		{"ports", cluster, Demand{Ports: 2}, "2 ports on one agent", "4 agents are known, the most free on one is 0"},
		{"memory", cluster, Demand{Request: gpu.Request{GPUs: 1, Types: v, MinMemMiB: 80000}},
			"1 free V100 of 80000 MiB or more on one agent",
			"3 agents have the type, 3 lack devices of 80000 MiB or more: the largest has 16160 MiB"},
		{"driver", cluster[:3], Demand{Request: gpu.Request{GPUs: 1, MinDriver: "535"}},
			"1 free GPU with driver 535 or newer on one agent",
			"3 agents have GPUs, 3 lack driver 535 or newer: the newest is 525.60.13"},
		{"CUDA and driver", cluster, Demand{Request: gpu.Request{GPUs: 1, MinDriver: "525", MinCUDA: "12.2"}},
			"1 free GPU with driver 525 and CUDA 12.2 or newer on one agent",
			"4 agents have GPUs, 4 lack CUDA 12.2 or newer: the newest is 12.0"},
		{"unknown version", cluster[3:], Demand{Request: gpu.Request{GPUs: 1, MinCUDA: "12.2"}},
			"1 free GPU with CUDA 12.2 or newer on one agent",
			"1 agent has GPUs, 1 lacks CUDA 12.2 or newer: none reports its CUDA"},
		{"devices", cluster, Demand{Request: gpu.Request{GPUs: 1, Devices: gpu.DeviceSelector{Include: []string{"x", "y"}}}},
			"1 free GPU among the 2 named on one agent",
			"4 agents have GPUs, 4 lack devices among the 2 named: they have none of them"},
		{"named device in use", cluster[:1],
			Demand{Request: gpu.Request{GPUs: 1, Devices: gpu.DeviceSelector{Include: []string{"a3"}}}},
			"1 free GPU among the 1 named on one agent", "1 agent has such GPUs, none has one free"},
		{"links", cluster[:2], Demand{Request: gpu.Request{GPUs: 2, Topology: gpu.NVLink}},
			"2 free GPUs connected by NVLink on one agent",
			"2 agents have GPUs, 2 lack 2 devices connected by NVLink: the largest group has 1"},
		{"NUMA in use", cluster[:2], Demand{Request: gpu.Request{GPUs: 2, Topology: gpu.SameNUMA}},
			"2 free GPUs of one NUMA node on one agent", "2 agents have such GPUs, 2 have 1 free together"},
		{"constraint", cluster[:3],
			Demand{Request: gpu.Request{GPUs: 1}, Constraints: []job.Constraint{mustParseConstraint(t, "hostname LIKE x.*")}},
			"1 free GPU on one agent", "3 agents have GPUs, 3 lack hostname LIKE x.*: they have a.example, b.example, c.example"},
		{"constraint without GPUs", cluster,
			Demand{Amount: Amount{CPUs: 1}, Constraints: []job.Constraint{mustParseConstraint(t, "rack IS r1")}},
			"1 CPU on one agent", "4 agents are known, 4 lack rack IS r1: they have no rack"},
		{"constraint and use", cluster[:3],
			Demand{Request: gpu.Request{GPUs: 2}, Constraints: []job.Constraint{mustParseConstraint(t, "hostname IS a.example")}},
			"2 free GPUs on one agent",
			"1 agent has GPUs, 1 has 1 free; of the others 2 lack hostname IS a.example: they have b.example, c.example"},
		{"maintenance",
			[]AgentResources{with(cluster[0], func(a *AgentResources) { a.Unavailable = noon.Add(10 * time.Minute) })},
			Demand{Request: gpu.Request{GPUs: 1}}, "1 free GPU on one agent",
			"1 agent has GPUs, 1 lacks 1h0m0s before maintenance: the longest is 10m0s"},
		{"share", sharingAgents(),
			Demand{Request: gpu.Request{GPUs: 1, Types: v, Share: gpu.ShareRequest{MemMiB: 4096, Cores: 30}}},
			"4096 MiB and 30 % cores of one shared V100 on one agent",
			"3 of 8 devices lack 4096 MiB of shared memory (most free 2048), 2 lack 30 % cores (most free 10 %), " +
				"2 are whole (not shared: see mesos-gpu agent share), 1 is of another type"},
		{"share of two", sharingAgents()[1:2], Demand{Request: gpu.Request{GPUs: 2, Share: gpu.ShareRequest{MemMiB: 4096}}},
			"4096 MiB of each of 2 shared GPUs on one agent",
			"2 of 4 devices lack 4096 MiB of shared memory (most free 2048), 1 is whole (not shared: see mesos-gpu agent share), 1 is suitable"},
		{"alone", sharingAgents()[:1], Demand{Request: gpu.Request{GPUs: 1, Types: v, Share: gpu.ShareRequest{Cores: 100}}},
			"all of one shared V100 on one agent",
			"2 of 4 devices are in use, 1 is whole (not shared: see mesos-gpu agent share), 1 is of another type"},
		{"percent", sharingAgents()[1:],
			Demand{Request: gpu.Request{GPUs: 1, Types: v, Share: gpu.ShareRequest{MemPercent: 50}}},
			"50 % memory of one shared V100 on one agent",
			"3 of 4 devices lack 50 % of shared memory (most free 6000), 1 is whole (not shared: see mesos-gpu agent share)"},
		{"whole among shared", sharingAgents()[1:2], Demand{Request: gpu.Request{GPUs: 2}}, "2 free GPUs on one agent",
			"1 agent has GPUs, none has one free"},
		{"whole among shared in use", []AgentResources{sharedByMethod("a", "9000/100", "16000/100", "16000/99")}, Demand{Request: gpu.Request{GPUs: 2}},
			"2 free GPUs on one agent", "1 agent has GPUs, 1 has 1 free; tasks have shares of 2"},
		{"more than there are, whole or shared", []AgentResources{sharedByMethod("a", "9000/100", "16000/100")}, Demand{Request: gpu.Request{GPUs: 3}},
			"3 free GPUs on one agent", "1 agent has GPUs, the largest has 2; tasks have shares of 1"},
		{"no cores left",
			[]AgentResources{with(sharedAgent(1, 16000), func(a *AgentResources) { a.Shared[0].Cores, a.Role = 0, "" })},
			Demand{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemMiB: 1}}}, "1 MiB of one shared GPU on one agent",
			"1 of 1 device has no cores left"},
		{"unique", cluster[:2],
			Demand{Constraints: []job.Constraint{mustParseConstraint(t, "hostname UNIQUE")}, PeerAgents: []*AgentResources{&cluster[0], &cluster[1]}},
			"an agent that hostname UNIQUE allows", "2 agents have room, 2 are excluded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := NewCluster(c.agents, PlacementPolicy{}, noon).ExplainShortage(&c.d)
			if got.Missing != c.lack || got.Found != c.seen {
				t.Errorf("got  %q; %q\nwant %q; %q", got.Missing, got.Found, c.lack, c.seen)
			}
		})
	}
}

func TestExplainReservedResources(t *testing.T) {
	c := NewCluster([]AgentResources{typedAgent("a", v100, 2)}, PlacementPolicy{}, noon)
	c.ReserveResources("a", "", TaskResources{GPUs: 2, DeviceIDs: []string{"a0", "a1"}})
	got := c.ExplainShortage(&Demand{Request: gpu.Request{GPUs: 1}, AvoidReserved: true})
	want := Shortage{"1 free GPU on one agent, not reserved for jobs ahead", "1 agent has enough, reserved for jobs ahead"}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestExplainGang checks that the shortage of a gang is about all of its tasks.
func TestExplainGang(t *testing.T) {
	small := typedAgent("b", v100, 1)
	small.Free.CPUs = 0.5
	over := Amount{CPUs: 0.1}
	for _, c := range []struct {
		name       string
		agents     []AgentResources
		d          Demand
		n          int
		lack, seen string
	}{
		{"one task alone", []AgentResources{typedAgent("a", v100, 1)}, Demand{Request: gpu.Request{GPUs: 2}}, 0,
			"2 free GPUs on one agent", "1 agent has GPUs, 1 has 1 free"},
		{"not even one", []AgentResources{typedAgent("a", v100, 1)}, Demand{Request: gpu.Request{GPUs: 2}}, 3,
			"2 free GPUs on one agent for each of the 3 tasks of the gang", "1 agent has GPUs, 1 has 1 free"},
		{"all", []AgentResources{typedAgent("a", v100, 4)}, Demand{Request: gpu.Request{GPUs: 2}}, 2, "an offer", "1 agent had room when last offered"},
		{"CPUs", []AgentResources{typedAgent("a", v100, 4)},
			Demand{Amount: Amount{CPUs: 9}, Overhead: over, Request: gpu.Request{GPUs: 1}}, 2,
			"18 CPUs (including 0.2 for the executors) for the gang of 2 together", "1 agent with the GPUs has 16 free"},
		{"CPUs without GPUs", []AgentResources{typedAgent("a", v100, 4), small}, Demand{Amount: Amount{CPUs: 9}}, 2,
			"18 CPUs for the gang of 2 together", "2 agents have 16.5 free together"},
		{"memory, of which there is less", []AgentResources{typedAgent("a", v100, 4)},
			Demand{Amount: Amount{CPUs: 9, MemMiB: 60000}}, 3, "180000 MiB of memory for the gang of 3 together",
			"1 agent has 65536 free"},
		{"GPUs", []AgentResources{typedAgent("a", v100, 3), small},
			Demand{Request: gpu.Request{GPUs: 2, Types: gpu.TypeSelector{Include: []string{"V100"}}}}, 3,
			"6 free V100 for the gang of 3 together", "2 agents have 4 free together"},
		{"not where they are wanted", []AgentResources{typedAgent("a", v100, 3), small}, Demand{Request: gpu.Request{GPUs: 2}},
			2, "2 free GPUs on one agent for the gang of 2",
			"there is room for 1 of its tasks; after that, 2 agents have GPUs, 2 have 1 free"},
		{"constraint", []AgentResources{typedAgent("a", v100, 4), typedAgent("b", v100, 4)},
			Demand{Request: gpu.Request{GPUs: 1}, Constraints: []job.Constraint{mustParseConstraint(t, "hostname UNIQUE")}}, 3,
			"an agent that hostname UNIQUE allows for the gang of 3",
			"there is room for 2 of its tasks; after that, 2 agents have room, 2 are excluded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := NewCluster(c.agents, PlacementPolicy{}, noon)
			for range 2 { // explanations do not change the cluster
				got := cluster.ExplainGang(&c.d, c.n)
				if got.Missing != c.lack || got.Found != c.seen {
					t.Errorf("got  %q; %q\nwant %q; %q", got.Missing, got.Found, c.lack, c.seen)
				}
			}
		})
	}
}

func TestRefusalReasons(t *testing.T) {
	v := gpu.TypeSelector{Include: []string{"V100"}}
	small := func(d Demand) Demand {
		d.Job = "train"
		return d
	}
	agent := typedAgent("a", v100, 1)
	agent.Unavailable = noon.Add(2 * time.Hour)
	for _, c := range []struct {
		d    Demand
		want string
	}{
		{Demand{Request: gpu.Request{GPUs: 2, Types: v}}, "train wants 2 V100, agent has 1 free"},
		{Demand{Request: gpu.Request{GPUs: 3}}, "train wants 3 GPUs, agent has 1 free"},
		{Demand{Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"A100"}}, MinDriver: "999"}},
			"train wants 1 A100 with driver 999 or newer, agent has 0 free"},
		{Demand{Amount: Amount{CPUs: 64.1}}, "train wants 64.1 CPUs, agent has 16"},
		{Demand{Amount: Amount{MemMiB: 99999}, Request: gpu.Request{GPUs: 1}}, "train wants 99999 MiB of memory, agent has 65536"},
		{Demand{Ports: 1}, "train wants 1 port, agent has 0"},
		{Demand{Role: "ml"}, `train wants offers to role "ml", agent offers to ""`},
		{Demand{Request: gpu.Request{GPUs: 1, MinMemMiB: 80000}}, "train wants devices of 80000 MiB or more, agent has 16160 MiB"},
		{Demand{Request: gpu.Request{GPUs: 1, MinDriver: "535"}}, "train wants driver 535 or newer, agent has 525.60.13"},
		{Demand{Request: gpu.Request{GPUs: 1, MinCUDA: "12.2"}}, "train wants CUDA 12.2 or newer, agent has 12.0"},
		{Demand{Request: gpu.Request{GPUs: 1, Devices: gpu.DeviceSelector{Exclude: []string{"a0", "a1", "a2", "a3"}}}},
			"train wants devices outside of the 4 excluded, agent has none of them"},
		{Demand{Request: gpu.Request{GPUs: 3, Topology: gpu.SameNUMA}}, "train wants 3 devices of one NUMA node, agent has 2"},
		{Demand{Constraints: []job.Constraint{mustParseConstraint(t, "rack IS r1")}}, "train wants rack IS r1, agent has no rack"},
		{Demand{RunTime: 3 * time.Hour}, "train wants 3h0m0s before maintenance, agent has 2h0m0s"},
		{Demand{Constraints: []job.Constraint{mustParseConstraint(t, "hostname MAX_PER 1")}, PeerAgents: []*AgentResources{&agent}},
			"train wants hostname MAX_PER 1, agent has a.example with 1 task of the job"},
		{Demand{Request: gpu.Request{GPUs: 1}}, "train cannot start with this offer alone"},
	} {
		d := small(c.d)
		if got := NewCluster([]AgentResources{agent}, PlacementPolicy{}, noon).RefusalReasons(&d)(0); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}

func TestIsSuitable(t *testing.T) {
	full := typedAgent("a", v100, 0)
	for _, c := range []struct {
		name  string
		agent AgentResources
		d     Demand
		want  bool
	}{
		{"nothing free", full, Demand{Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"V100"}}}}, true},
		{"no GPUs wanted", full, Demand{Amount: Amount{CPUs: 999}}, true},
		{"another type", full, Demand{Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"A100"}}}}, false},
		{"too little memory", full, Demand{Request: gpu.Request{GPUs: 1, MinMemMiB: 80000}}, false},
		{"old driver", full, Demand{Request: gpu.Request{GPUs: 1, MinDriver: "535"}}, false},
		{"a device named", full, Demand{Request: gpu.Request{GPUs: 1, Devices: gpu.DeviceSelector{Include: []string{"a3"}}}}, true},
		{"no device named", full, Demand{Request: gpu.Request{GPUs: 1, Devices: gpu.DeviceSelector{Include: []string{"b3"}}}}, false},
		{"constraint", full, Demand{Constraints: []job.Constraint{mustParseConstraint(t, "hostname IS b.example")}}, false},
		{"constraint about other tasks", full,
			Demand{Constraints: []job.Constraint{mustParseConstraint(t, "hostname UNIQUE")}, PeerAgents: []*AgentResources{&full}},
			true},
		{"role", full, Demand{Role: "ml"}, false},
		{"some of a mixed agent by count", countedAgent("V100", "K80"),
			Demand{Role: "r", Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"K80"}}}}, true},
		{"no GPUs", AgentResources{}, Demand{Request: gpu.Request{GPUs: 1}}, false},
		{"GPUs of no known type", AgentResources{TotalGPUs: 4}, Demand{Request: gpu.Request{GPUs: 1}}, true},
	} {
		if got := NewCluster([]AgentResources{c.agent}, PlacementPolicy{}, noon).SuitableFor(&c.d)(0); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
}
