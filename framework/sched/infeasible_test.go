package sched

import (
	"strings"
	"testing"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// newListedState returns a state with two listed agents of 16 CPUs and 4 GPUs, all of which are offered.
func newListedState(t *testing.T, now time.Time) *State {
	t.Helper()
	st := New(SchedulerSettings{PredictRunTimes: true}, RecoveredState{})
	st.Step(now, Subscribed{FrameworkID: "f"})
	var agents []Agent
	var offers []Offer
	for _, id := range []string{"a", "b"} {
		var devices []gpu.Device
		var ids []string
		for n := range 4 {
			d := gpu.Device{UUID: id + string(rune('0'+n)), Model: "Tesla V100-SXM2-16GB", MemMiB: 16160, Minor: n}
			devices, ids = append(devices, d), append(ids, d.UUID)
		}
		total, ports := Amount{CPUs: 16, MemMiB: 32768, DiskMiB: 1000}, []PortRange{{First: 31000, Last: 32000}}
		agents = append(agents, Agent{
			ID: id, Hostname: id + ".example", Total: total, Ports: ports, GPUs: 4, Types: []string{"V100"}, Inventory: devices,
		})
		offers = append(offers, Offer{
			ID: "of " + id, AgentID: id, Hostname: id + ".example", Free: total, Ports: ports, GPUs: 4, DeviceIDs: ids, Types: []string{"V100"},
			Inventory: devices,
		})
	}
	st.Step(now, AgentsListed{Agents: agents})
	st.Step(now, OffersReceived{Offers: offers})
	return st
}

// infeasibleJobs are changes to a job of one task, with what its reason then says.
func infeasibleJobs() map[string]struct {
	change func(*job.Spec)
	want   string
} {
	type test = struct {
		change func(*job.Spec)
		want   string
	}
	gang := func(s *job.Spec, tasks, gpus int) { s.Gang, s.Tasks, s.Request.GPUs = true, tasks, gpus }
	constrain := func(s *job.Spec, c job.Constraint) { s.Constraints = []job.Constraint{c} }
	return map[string]test{
		"cpus":   {func(s *job.Spec) { s.CPUs = 17 }, "17.1 CPUs (including 0.1 for the executor) on one agent; 2 agents are known, the largest has 16"},
		"memory": {func(s *job.Spec) { s.MemMiB = 40000 }, "40032 MiB of memory (including 32 for the executor) on one agent; 2 agents are known, the largest has 32768"},
		"disk":   {func(s *job.Spec) { s.DiskMiB = 2000 }, "2000 MiB of disk on one agent; 2 agents are known, the largest has 1000"},
		"gpus":   {func(s *job.Spec) { s.Request.GPUs = 5 }, "5 GPUs on one agent; 2 agents have GPUs, the largest has 4"},
		"gpu memory": {func(s *job.Spec) { s.Request = gpu.Request{GPUs: 1, MinMemMiB: 81920} },
			"1 GPU of 81920 MiB or more on one agent; 2 agents have GPUs, 2 lack devices of 81920 MiB or more: the largest has 16160 MiB"},
		"port": {func(s *job.Spec) { s.Ports = []job.Port{{Host: 80}} },
			"host port 80 on one agent; port 80 is offered by 0 of 2 agents"},
		"rack": {func(s *job.Spec) { constrain(s, job.Constraint{Field: "rack", Operator: job.Is, Value: "r9"}) },
			"1.1 CPUs (including 0.1 for the executor) on one agent; 2 agents are known, 2 lack rack IS r9: they have no rack"},
		"share": {func(s *job.Spec) { s.Request = gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemMiB: 100}} },
			"100 MiB of one shared GPU on one agent; 8 of 8 devices are whole (not shared: see mesos-gpu agent share)"},
		"gang": {func(s *job.Spec) { gang(s, 9, 1) }, "9 GPUs for the gang of 9 together; 2 agents have 8 in all"},
		"gang that needs all of each agent": {func(s *job.Spec) { gang(s, 3, 3) },
			"9 GPUs for the gang of 3 together; 2 agents have 8 in all"},
		"gang of tasks that do not fit together": {func(s *job.Spec) { gang(s, 2, 3); s.Tasks, s.CPUs = 2, 20 },
			"20.1 CPUs (including 0.1 for the executor) and 3 GPUs on one agent for each of the 2 tasks of the gang; 2 agents have the GPUs, the largest has 16"},
		"gang on different agents": {func(s *job.Spec) {
			gang(s, 3, 0)
			constrain(s, job.Constraint{Field: "hostname", Operator: job.Unique})
		}, "an agent that hostname UNIQUE allows for the gang of 3; empty agents have room for 2 of its tasks; after that, 2 agents have room, 2 are excluded"},
		"gang on one agent": {func(s *job.Spec) {
			gang(s, 5, 1)
			constrain(s, job.Constraint{Field: "hostname", Operator: job.Cluster})
		}, "an agent that hostname CLUSTER allows for the gang of 5; empty agents have room for 4 of its tasks; after that, 1 agent has room, 1 is excluded"},
	}
}

// TestInfeasibleJobs: a job that cannot start on the present agents even if nothing runs has no estimate, and its reason
// says so, before and after its submission, whichever resource is missing.
func TestInfeasibleJobs(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for name, test := range infeasibleJobs() {
		t.Run(name, func(t *testing.T) {
			st := newListedState(t, now)
			spec := testSpec("large")
			test.change(&spec)
			spec.SetDefaults()
			cause, infeasible := st.ExplainInfeasible(&spec)
			if got := cause.Needs + "; " + cause.Available; !infeasible || got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
			in, _ := st.ForecastInput(&spec)
			if e, ok := in.Starts()[firstRun("large")]; ok {
				t.Errorf("before the submission it starts after %+v", e)
			}
			st.Step(now, SubmitJob{Spec: spec})
			st.Step(now, Cycle{})
			if got := st.PendingReasons()[firstRun("large")].Available; !strings.HasSuffix(got, "; it cannot start with the present agents") {
				t.Errorf("the reason is %q", got)
			}
			in, _ = st.ForecastInput()
			if e, ok := in.Starts()[firstRun("large")]; ok {
				t.Errorf("it starts after %+v", e)
			}
		})
	}
}

// TestFeasibleJobs: jobs that fit on empty agents are feasible, also while others use or close the agents, or while the list
// does not have what was offered.
func TestFeasibleJobs(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	gang := testSpec("gang")
	gang.Gang, gang.Tasks, gang.Request.GPUs, gang.CPUs, gang.RunTime = true, 2, 4, 15, time.Hour
	requireFeasible := func(st *State, why string) {
		t.Helper()
		if cause, infeasible := st.ExplainInfeasible(&gang); infeasible {
			t.Errorf("%s: %+v", why, cause)
		}
	}
	st := newListedState(t, now)
	requireFeasible(st, "an idle cluster")
	first := gang
	first.Name = "first"
	st.Step(now, SubmitJob{Spec: first})
	st.Step(now, Cycle{})
	requireFeasible(st, "a cluster in use")
	st.Step(now, CordonHost{Host: "a.example"})
	requireFeasible(st, "a cordoned agent")
	st.Step(now, AgentsListed{Agents: []Agent{{ID: "a", Hostname: "a.example"}}})
	requireFeasible(st, "a list without the GPUs of the offers")
	requireFeasible(New(SchedulerSettings{}, RecoveredState{}), "no list of agents")
}

// TestStartEstimatesAgreeWithPlaces: a gang that waits for the end of another one starts then, on its agents, and a job that
// lacks CPUs as soon as they are free. A job that waits for a certain port has no estimate.
func TestStartEstimatesAgreeWithPlaces(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	st := newListedState(t, now)
	first, second, port, cpus := testSpec("first"), testSpec("second"), testSpec("port"), testSpec("cpus")
	first.Gang, first.Tasks, first.Request.GPUs, first.RunTime, first.Ports = true, 2, 4, time.Hour, []job.Port{{Host: 31500}}
	second.Gang, second.Tasks, second.Request.GPUs, second.RunTime = true, 2, 4, time.Hour
	port.Ports = []job.Port{{Host: 31500}}
	cpus.CPUs = 15.5
	for _, spec := range []job.Spec{first, second, port, cpus} {
		spec.SetDefaults()
		st.Step(now, SubmitJob{Spec: spec})
		st.Step(now, Cycle{})
	}
	in, _ := st.ForecastInput()
	starts := in.Starts()
	for name, want := range map[string]time.Duration{"second": time.Hour, "cpus": 2 * time.Hour} {
		if e, ok := starts[firstRun(name)]; !ok || e.Expected != want {
			t.Errorf("%s starts after %+v (%v), want %s", name, e, ok, want)
		}
	}
	if got := starts[firstRun("second")].Agents; strings.Join(got, " ") != "a.example b.example" {
		t.Errorf("the gang starts on %q", got)
	}
	if e, ok := starts[firstRun("port")]; ok {
		t.Errorf("the job that waits for a port starts after %+v", e)
	}
}
