package fit

import (
	"testing"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// typed is an agent of a type with so many GPUs free of four.
func typed(id, model string, free int) Agent {
	a := Agent{ID: id, Hostname: id + ".example", Free: Amount{16, 65536, 10000}, TotalGPUs: 4, Types: []string{gpu.TypeOf(model)}, Driver: "525.60.13", CUDA: "12.0"}
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

// closed is one that takes no tasks.
func closed(id string) Agent {
	a := typed(id, v100, 0)
	a.Free, a.Closed = Amount{}, true
	return a
}

func constraint(t *testing.T, text string) job.Constraint {
	t.Helper()
	con, err := job.ParseConstraint(text)
	if err != nil {
		t.Fatal(err)
	}
	return con
}

// sharing are two agents with four devices each, some of them shared.
func sharing() []Agent {
	a, b := typed("a", v100, 0), typed("b", v100, 0)
	a.Inventory[3].Model = k80
	a.Shared = []Shared{{"a0", 2048, 100}, {"a1", 16160, 10}, {"a3", 16160, 100}}
	b.Shared = []Shared{{"b0", 2048, 100}, {"b1", 1024, 10}, {"b2", 6000, 10}}
	a.TotalGPUs, b.TotalGPUs = 1, 1
	return []Agent{a, b}
}

func TestExplain(t *testing.T) {
	cluster := []Agent{typed("a", v100, 1), typed("b", v100, 1), typed("c", v100, 0), {ID: "d", Free: Amount{16, 65536, 10000}, GPUs: 8, Types: []string{"K80"}}}
	v := gpu.Types{Include: []string{"V100"}}
	over := Amount{CPUs: 0.1, MemMiB: 32}
	with := func(a Agent, change func(*Agent)) Agent {
		change(&a)
		return a
	}
	for _, c := range []struct {
		name       string
		agents     []Agent
		d          Demand
		lack, seen string
	}{
		// What jobs have always been told.
		{"type", cluster, Demand{Request: gpu.Request{GPUs: 2, Types: v}}, "2 free V100 on one agent", "3 agents have the type, 2 have 1 free"},
		{"type nowhere", cluster, Demand{Request: gpu.Request{GPUs: 1, Types: gpu.Types{Include: []string{"A100"}}}}, "1 free A100 on one agent", "no agent has the type, 4 agents are known: K80 on 1, V100 on 3"},
		{"any type", cluster, Demand{Request: gpu.Request{GPUs: 16}}, "16 free GPUs on one agent", "4 agents have GPUs, the largest has 8"},
		{"totals not told", []Agent{{ID: "a", Types: []string{"V100"}}, cluster[3]}, Demand{Request: gpu.Request{GPUs: 16}}, "16 free GPUs on one agent", "2 agents have GPUs, 1 has 8 free"},
		{"none free", cluster[2:3], Demand{Request: gpu.Request{GPUs: 1}}, "1 free GPU on one agent", "1 agent has GPUs, none has one free"},
		{"too large", cluster[:3], Demand{Request: gpu.Request{GPUs: 5, Types: v}}, "5 free V100 on one agent", "3 agents have the type, the largest has 4"},
		{"cpus", cluster, Demand{Amount: Amount{CPUs: 64.1}, Overhead: over}, "64.1 CPUs (0.1 of it for the executor) on one agent", "4 agents are known, the most free on one is 16"},
		{"cpus beside GPUs", cluster, Demand{Amount: Amount{CPUs: 32}, Request: gpu.Request{GPUs: 1, Types: gpu.Types{Include: []string{"K80"}}}}, "32 CPUs beside 1 free K80 on one agent", "1 agent has the GPUs, the most free on one is 16"},
		{"all but a type", cluster[3:], Demand{Request: gpu.Request{GPUs: 1, Types: gpu.Types{Exclude: []string{"V100"}}}, Amount: Amount{CPUs: 17}}, "17 CPUs beside 1 free GPU other than V100 on one agent", "1 agent has the GPUs, the most free on one is 16"},
		{"closed", []Agent{closed("a"), cluster[3]}, Demand{Request: gpu.Request{GPUs: 1, Types: v}}, "1 free V100 on one agent", "no agent that takes tasks has the type, 1 agent takes tasks: K80 on 1"},
		{"all closed", []Agent{closed("a"), closed("b")}, Demand{Request: gpu.Request{GPUs: 1}}, "1 free GPU on one agent", "none of 2 agents takes tasks"},
		{"nobody", nil, Demand{Request: gpu.Request{GPUs: 1}}, "1 free GPU on one agent", "no agent is known yet"},
		{"nobody without GPUs", nil, Demand{Amount: Amount{CPUs: 1}}, "1 CPU on one agent", "no agent is known yet"},
		{"room", cluster, Demand{Amount: Amount{CPUs: 1}}, "an offer", "4 agents had room when last offered"},
		{"no GPU anywhere", []Agent{{ID: "e"}}, Demand{Request: gpu.Request{GPUs: 1}}, "1 free GPU on one agent", "1 agent has no GPU"},

		{"role", cluster, Demand{Role: "ml", Amount: Amount{CPUs: 1}}, "1 CPU on one agent", `none of 4 agents offers to role "ml"`},
		{"ports", cluster, Demand{Ports: 2}, "2 ports on one agent", "4 agents are known, the most free on one is 0"},
		{"memory", cluster, Demand{Request: gpu.Request{GPUs: 1, Types: v, MinMemMiB: 80000}}, "1 free V100 of 80000 MiB or more on one agent", "3 agents have the type, 3 lack devices of 80000 MiB or more: the largest has 16160 MiB"},
		{"driver", cluster[:3], Demand{Request: gpu.Request{GPUs: 1, MinDriver: "535"}}, "1 free GPU with driver 535 or newer on one agent", "3 agents have GPUs, 3 lack driver 535 or newer: the newest is 525.60.13"},
		{"CUDA and driver", cluster, Demand{Request: gpu.Request{GPUs: 1, MinDriver: "525", MinCUDA: "12.2"}}, "1 free GPU with driver 525 and CUDA 12.2 or newer on one agent", "4 agents have GPUs, 4 lack CUDA 12.2 or newer: the newest is 12.0"},
		{"version nobody tells", cluster[3:], Demand{Request: gpu.Request{GPUs: 1, MinCUDA: "12.2"}}, "1 free GPU with CUDA 12.2 or newer on one agent", "1 agent has GPUs, 1 lacks CUDA 12.2 or newer: none tells its CUDA"},
		{"devices", cluster, Demand{Request: gpu.Request{GPUs: 1, Devices: gpu.Devices{Include: []string{"x", "y"}}}}, "1 free GPU of the 2 named on one agent", "4 agents have GPUs, 4 lack devices of the 2 named: they have none of them"},
		{"named device in use", cluster[:1], Demand{Request: gpu.Request{GPUs: 1, Devices: gpu.Devices{Include: []string{"a3"}}}}, "1 free GPU of the 1 named on one agent", "1 agent has such GPUs, none has one free"},
		{"links", cluster[:2], Demand{Request: gpu.Request{GPUs: 2, Topology: gpu.NVLink}}, "2 free GPUs joined by NVLink on one agent", "2 agents have GPUs, 2 lack 2 devices joined by NVLink: the largest group has 1"},
		{"NUMA in use", cluster[:2], Demand{Request: gpu.Request{GPUs: 2, Topology: gpu.SameNUMA}}, "2 free GPUs of one NUMA node on one agent", "2 agents have such GPUs, 2 have 1 free together"},
		{"constraint", cluster[:3], Demand{Request: gpu.Request{GPUs: 1}, Constraints: []job.Constraint{constraint(t, "hostname LIKE x.*")}}, "1 free GPU on one agent", "3 agents have GPUs, 3 lack hostname LIKE x.*: they have a.example, b.example, c.example"},
		{"constraint without GPUs", cluster, Demand{Amount: Amount{CPUs: 1}, Constraints: []job.Constraint{constraint(t, "rack IS r1")}}, "1 CPU on one agent", "4 agents are known, 4 lack rack IS r1: they have no rack"},
		{"constraint and use", cluster[:3], Demand{Request: gpu.Request{GPUs: 2}, Constraints: []job.Constraint{constraint(t, "hostname IS a.example")}}, "2 free GPUs on one agent", "1 agent has GPUs, 1 has 1 free; of the others 2 lack hostname IS a.example: they have b.example, c.example"},
		{"maintenance", []Agent{with(cluster[0], func(a *Agent) { a.Unavailable = noon.Add(10 * time.Minute) })}, Demand{Request: gpu.Request{GPUs: 1}}, "1 free GPU on one agent", "1 agent has GPUs, 1 lacks 1h0m0s before maintenance: the longest is 10m0s"},
		{"share", sharing(), Demand{Request: gpu.Request{GPUs: 1, Types: v, Share: gpu.Share{MemMiB: 4096, Cores: 30}}}, "4096 MiB and 30 % cores of one shared V100 on one agent",
			"3 of 8 devices lack 4096 MiB of shared memory (most free 2048), 2 lack 30 % cores (most free 10 %), 2 are whole (not shared), 1 is of another type"},
		{"share of two", sharing()[1:2], Demand{Request: gpu.Request{GPUs: 2, Share: gpu.Share{MemMiB: 4096}}}, "4096 MiB of each of 2 shared GPUs on one agent",
			"2 of 4 devices lack 4096 MiB of shared memory (most free 2048), 1 is whole (not shared), 1 would do"},
		{"alone", sharing()[:1], Demand{Request: gpu.Request{GPUs: 1, Types: v, Share: gpu.Share{Cores: 100}}}, "all of one shared V100 on one agent", "2 of 4 devices are in use, 1 is whole (not shared), 1 is of another type"},
		{"percent", sharing()[1:], Demand{Request: gpu.Request{GPUs: 1, Types: v, Share: gpu.Share{MemPercent: 50}}}, "50 % memory of one shared V100 on one agent", "3 of 4 devices lack 50 % of shared memory (most free 6000), 1 is whole (not shared)"},
		{"whole among shared", sharing()[1:2], Demand{Request: gpu.Request{GPUs: 2}}, "2 free GPUs on one agent", "1 agent has GPUs, the largest has 1; 3 are shared (not whole)"},
		{"no cores left", []Agent{with(shared(1, 16000), func(a *Agent) { a.Shared[0].Cores, a.Role = 0, "" })}, Demand{Request: gpu.Request{GPUs: 1, Share: gpu.Share{MemMiB: 1}}}, "1 MiB of one shared GPU on one agent", "1 of 1 device has no cores left"},
		{"unique", cluster[:2], Demand{Constraints: []job.Constraint{constraint(t, "hostname UNIQUE")}, Beside: []*Agent{&cluster[0], &cluster[1]}}, "an agent that hostname UNIQUE leaves to it", "2 agents have room, 2 are refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := NewCluster(c.agents, Policy{}, noon).Explain(&c.d)
			if got.Lack != c.lack || got.Seen != c.seen {
				t.Errorf("got  %q; %q\nwant %q; %q", got.Lack, got.Seen, c.lack, c.seen)
			}
		})
	}
}

func TestExplainWhatIsHeldBack(t *testing.T) {
	c := NewCluster([]Agent{typed("a", v100, 2)}, Policy{}, noon)
	c.Reserve("a", "", Holding{GPUs: 2, DeviceIDs: []string{"a0", "a1"}})
	got := c.Explain(&Demand{Request: gpu.Request{GPUs: 1}, Beyond: true})
	want := Shortage{"1 free GPU on one agent beside what is held back", "1 agent has room that jobs ahead need"}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestExplainAll: what a gang lacks is about all of it.
func TestExplainAll(t *testing.T) {
	small := typed("b", v100, 1)
	small.Free.CPUs = 0.5
	over := Amount{CPUs: 0.1}
	for _, c := range []struct {
		name       string
		agents     []Agent
		d          Demand
		n          int
		lack, seen string
	}{
		{"one task alone", []Agent{typed("a", v100, 1)}, Demand{Request: gpu.Request{GPUs: 2}}, 0, "2 free GPUs on one agent", "1 agent has GPUs, 1 has 1 free"},
		{"not even one", []Agent{typed("a", v100, 1)}, Demand{Request: gpu.Request{GPUs: 2}}, 3, "2 free GPUs on one agent", "1 agent has GPUs, 1 has 1 free"},
		{"all", []Agent{typed("a", v100, 4)}, Demand{Request: gpu.Request{GPUs: 2}}, 2, "an offer", "1 agent had room when last offered"},
		{"CPUs", []Agent{typed("a", v100, 4)}, Demand{Amount: Amount{CPUs: 9}, Overhead: over, Request: gpu.Request{GPUs: 1}}, 2, "18 CPUs (0.2 of it for the executors) for the gang of 2 together", "1 agent with the GPUs has 16 free"},
		{"CPUs without GPUs", []Agent{typed("a", v100, 4), small}, Demand{Amount: Amount{CPUs: 9}}, 2, "18 CPUs for the gang of 2 together", "2 agents have 16.5 free together"},
		{"memory, of which there is less", []Agent{typed("a", v100, 4)}, Demand{Amount: Amount{CPUs: 9, MemMiB: 60000}}, 3, "180000 MiB of memory for the gang of 3 together", "1 agent has 65536 free"},
		{"GPUs", []Agent{typed("a", v100, 3), small}, Demand{Request: gpu.Request{GPUs: 2, Types: gpu.Types{Include: []string{"V100"}}}}, 3, "6 free V100 for the gang of 3 together", "2 agents have 4 free together"},
		{"not where they are wanted", []Agent{typed("a", v100, 3), small}, Demand{Request: gpu.Request{GPUs: 2}}, 2, "2 free GPUs on one agent for the gang of 2", "there is room for 1 of its tasks, and beside it 2 agents have GPUs, 2 have 1 free"},
		{"constraint", []Agent{typed("a", v100, 4), typed("b", v100, 4)}, Demand{Request: gpu.Request{GPUs: 1}, Constraints: []job.Constraint{constraint(t, "hostname UNIQUE")}}, 3, "an agent that hostname UNIQUE leaves to it for the gang of 3", "there is room for 2 of its tasks, and beside them 2 agents have room, 2 are refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := NewCluster(c.agents, Policy{}, noon)
			for range 2 { // what is asked changes nothing
				got := cluster.ExplainAll(&c.d, c.n)
				if got.Lack != c.lack || got.Seen != c.seen {
					t.Errorf("got  %q; %q\nwant %q; %q", got.Lack, got.Seen, c.lack, c.seen)
				}
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	v := gpu.Types{Include: []string{"V100"}}
	small := func(d Demand) Demand {
		d.Job = "train"
		return d
	}
	agent := typed("a", v100, 1)
	agent.Unavailable = noon.Add(2 * time.Hour)
	for _, c := range []struct {
		d    Demand
		want string
	}{
		{Demand{Request: gpu.Request{GPUs: 2, Types: v}}, "train wants 2 V100, agent has 1 free"},
		{Demand{Request: gpu.Request{GPUs: 3}}, "train wants 3 GPUs, agent has 1 free"},
		{Demand{Request: gpu.Request{GPUs: 1, Types: gpu.Types{Include: []string{"A100"}}, MinDriver: "999"}}, "train wants 1 A100 with driver 999 or newer, agent has 0 free"},
		{Demand{Amount: Amount{CPUs: 64.1}}, "train wants 64.1 CPUs, agent has 16"},
		{Demand{Amount: Amount{MemMiB: 99999}, Request: gpu.Request{GPUs: 1}}, "train wants 99999 MiB of memory, agent has 65536"},
		{Demand{Ports: 1}, "train wants 1 port, agent has 0"},
		{Demand{Role: "ml"}, `train wants offers to role "ml", agent offers to ""`},
		{Demand{Request: gpu.Request{GPUs: 1, MinMemMiB: 80000}}, "train wants devices of 80000 MiB or more, agent has 16160 MiB"},
		{Demand{Request: gpu.Request{GPUs: 1, MinDriver: "535"}}, "train wants driver 535 or newer, agent has 525.60.13"},
		{Demand{Request: gpu.Request{GPUs: 1, MinCUDA: "12.2"}}, "train wants CUDA 12.2 or newer, agent has 12.0"},
		{Demand{Request: gpu.Request{GPUs: 1, Devices: gpu.Devices{Exclude: []string{"a0", "a1", "a2", "a3"}}}}, "train wants devices of others than the 4 named, agent has none of them"},
		{Demand{Request: gpu.Request{GPUs: 3, Topology: gpu.SameNUMA}}, "train wants 3 devices of one NUMA node, agent has 2"},
		{Demand{Constraints: []job.Constraint{constraint(t, "rack IS r1")}}, "train wants rack IS r1, agent has no rack"},
		{Demand{Runs: 3 * time.Hour}, "train wants 3h0m0s before maintenance, agent has 2h0m0s"},
		{Demand{Constraints: []job.Constraint{constraint(t, "hostname MAX_PER 1")}, Beside: []*Agent{&agent}}, "train wants hostname MAX_PER 1, agent has a.example with 1 task of the job"},
		{Demand{Request: gpu.Request{GPUs: 1}}, "train was placed elsewhere"},
	} {
		d := small(c.d)
		if got := NewCluster([]Agent{agent}, Policy{}, noon).Refusal(0, &d); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
	}
}

func TestUseful(t *testing.T) {
	full := typed("a", v100, 0)
	for _, c := range []struct {
		name  string
		agent Agent
		d     Demand
		want  bool
	}{
		{"nothing free", full, Demand{Request: gpu.Request{GPUs: 1, Types: gpu.Types{Include: []string{"V100"}}}}, true},
		{"no GPUs wanted", full, Demand{Amount: Amount{CPUs: 999}}, true},
		{"another type", full, Demand{Request: gpu.Request{GPUs: 1, Types: gpu.Types{Include: []string{"A100"}}}}, false},
		{"too little memory", full, Demand{Request: gpu.Request{GPUs: 1, MinMemMiB: 80000}}, false},
		{"old driver", full, Demand{Request: gpu.Request{GPUs: 1, MinDriver: "535"}}, false},
		{"a device named", full, Demand{Request: gpu.Request{GPUs: 1, Devices: gpu.Devices{Include: []string{"a3"}}}}, true},
		{"no device named", full, Demand{Request: gpu.Request{GPUs: 1, Devices: gpu.Devices{Include: []string{"b3"}}}}, false},
		{"constraint", full, Demand{Constraints: []job.Constraint{constraint(t, "hostname IS b.example")}}, false},
		{"constraint about other tasks", full, Demand{Constraints: []job.Constraint{constraint(t, "hostname UNIQUE")}, Beside: []*Agent{&full}}, true},
		{"role", full, Demand{Role: "ml"}, false},
		{"some of a mixed agent by count", stock("V100", "K80"), Demand{Role: "r", Request: gpu.Request{GPUs: 1, Types: gpu.Types{Include: []string{"K80"}}}}, true},
		{"no GPUs", Agent{}, Demand{Request: gpu.Request{GPUs: 1}}, false},
		{"GPUs of no known type", Agent{TotalGPUs: 4}, Demand{Request: gpu.Request{GPUs: 1}}, true},
	} {
		if got := NewCluster([]Agent{c.agent}, Policy{}, noon).Useful(0, &c.d); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
}
