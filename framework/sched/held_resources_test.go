package sched

import (
	"strings"
	"testing"
)

// play returns the answers of a new State to commands, as in the files of testdata.
func play(t *testing.T, commands ...string) string {
	t.Helper()
	_, answers, _ := strings.Cut(playScenario(t, strings.Join(commands, "\n")), "----\n")
	return answers
}

// TestSchedulerPlacesNothingOnWhatATaskHolds: a master forgets a running task and offers its place again. For each kind of
// resource the scheduler starts no second task there, and the reason and the warning name the holder. The second task starts
// once the end of the first one is proven.
func TestSchedulerPlacesNothingOnWhatATaskHolds(t *testing.T) {
	const gpuM, mig1 = "GPU-m:A100:40000", "MIG-1:A100:5000:GPU-m"
	for _, c := range []struct {
		// resource is what both tasks need.
		resource string
		// agent is the agent in the master's list. It offers before to the first task, and after once that task runs.
		agent, before, after string
		first, next          string // the jobs
		// conflict names the resource in reasons and warnings.
		conflict string
	}{
		{
			"GPU", "gpus=1", "ids=GPU-a", "ids=GPU-a",
			"gpus=1", "gpus=1", "GPU GPU-a",
		},
		{
			"GPU without an id", "gpus=2", "gpus=2", "gpus=2",
			"gpus=2", "gpus=1", "2 of 2 GPUs",
		},
		{
			"share", "shared=GPU-s:16000:100", "shared=GPU-s:16000:100", "shared=GPU-s:16000:100",
			"gpus=1 share=10000", "gpus=1 share=10000", "a share of GPU GPU-s",
		},
		{
			"cores of a share", "shared=GPU-s:16000:100", "shared=GPU-s:16000:100", "shared=GPU-s:16000:100",
			"gpus=1 share=1000 cores=60", "gpus=1 share=1000 cores=60", "a share of GPU GPU-s",
		},
		{
			"GPU of which a share is held", "", "shared=GPU-a:16000:100", "ids=GPU-a",
			"gpus=1 share=1000", "gpus=1", "GPU GPU-a",
		},
		{
			"share of a GPU that is held", "", "ids=GPU-a", "shared=GPU-a:16000:100 have=GPU-a:V100:16000",
			"gpus=1", "gpus=1 share=1000", "a share of GPU GPU-a",
		},
		{
			"MIG device", "", "ids=MIG-1 have=" + mig1, "ids=MIG-1 have=" + mig1,
			"gpus=1 type=MIG", "gpus=1 type=MIG", "GPU MIG-1",
		},
		{
			"GPU of a MIG device that is held", "", "ids=MIG-1 have=" + mig1, "ids=GPU-m have=" + gpuM + "," + mig1,
			"gpus=1 type=MIG", "gpus=1", "GPU GPU-m",
		},
		{
			"MIG device of a GPU that is held", "", "ids=GPU-m have=" + gpuM, "ids=MIG-1 have=" + gpuM + "," + mig1,
			"gpus=1", "gpus=1 type=MIG", "GPU MIG-1",
		},
		{
			"share of a MIG device of a GPU that is held", "", "ids=GPU-m have=" + gpuM, "shared=MIG-1:5000:100 have=" + gpuM + "," + mig1,
			"gpus=1", "gpus=1 share=1000", "a share of GPU MIG-1",
		},
		{
			"port", "", "ports=31000-31000", "ports=31000-31000",
			"ports=1", "ports=1", "port 31000",
		},
		{
			"CPUs", "cpus=8", "cpus=8", "cpus=8",
			"cpus=6", "cpus=3", "6.1 of 8 CPUs",
		},
		{
			"memory", "mem=8000", "mem=8000", "mem=8000",
			"mem=6000", "mem=3000", "6032 of 8000 MiB of memory",
		},
	} {
		t.Run(c.resource, func(t *testing.T) {
			commands := []string{
				"subscribed f1",
				"agent a " + c.agent,
				"submit first " + c.first,
				"offer o1 agent=a " + c.before,
				"update first.0.1 RUNNING",
				"update first.0.1 LOST reconciled proof=unknown_to_master",
				"submit next " + c.next,
				"offer o2 agent=a " + c.after,
			}
			got := play(t, append(commands, "reasons", "conflicts")...)
			if strings.Contains(got, "next.0.1 is LAUNCHING") {
				t.Fatalf("the scheduler placed next.0.1 on %s, which first.0.1 holds:\n%s", c.conflict, got)
			}
			for _, want := range []string{
				"it offers " + c.conflict + ", which task first.0.1.",
				"a.example offers " + c.conflict + ", which task first.0.1.",
			} {
				if !strings.Contains(got, want) {
					t.Errorf("the scheduler does not report %q:\n%s", want, got)
				}
			}
			got = play(t, append(commands, "update first.0.1 FINISHED", "offer o3 agent=a "+c.after)...)
			if !strings.Contains(got, "next.0.1 is LAUNCHING") {
				t.Errorf("the scheduler holds %s although first.0.1 has ended:\n%s", c.conflict, got)
			}
		})
	}
}

// TestOffersOfOneAgentAreAddedUp: the master offers the CPUs of a running task in two parts. Each part alone looks free.
func TestOffersOfOneAgentAreAddedUp(t *testing.T) {
	got := play(t, "subscribed f1", "agent a cpus=8", "submit first cpus=6", "offer o1 agent=a cpus=8", "update first.0.1 RUNNING",
		"submit next cpus=3", "offer o2 agent=a cpus=1.9", "wait 0s", "offer o3 agent=a cpus=2")
	if strings.Contains(got, "next.0.1 is LAUNCHING") {
		t.Errorf("the scheduler placed next.0.1 on CPUs that first.0.1 holds: of 8 it holds 6.1, and 3.9 are offered:\n%s", got)
	}
}

// TestTotalsOfMissingAgentsAreKept: an agent on which a task runs is missing in the master's list, and then offers all its CPUs.
func TestTotalsOfMissingAgentsAreKept(t *testing.T) {
	got := play(t, "subscribed f1", "agent a cpus=8", "submit first cpus=6", "offer o1 agent=a cpus=8", "update first.0.1 RUNNING",
		"agent b cpus=8", "submit next cpus=3", "offer o2 agent=a cpus=8")
	if strings.Contains(got, "next.0.1 is LAUNCHING") {
		t.Errorf("the scheduler placed next.0.1 on CPUs that first.0.1 holds, because the last list lacks the agent:\n%s", got)
	}
}

// TestTaskHoldsItsGPUUntilItsEndIsProven: whatever is known of a task, the scheduler starts no other one, and no other attempt
// of the same task, on its GPU before the end is proven.
func TestTaskHoldsItsGPUUntilItsEndIsProven(t *testing.T) {
	const offer = "offer o2 agent=a ids=GPU-a"
	for _, c := range []struct {
		// doubt is what is known of the task.
		doubt    string
		commands []string
	}{
		{"it runs", []string{"update first.0.1 RUNNING", offer}},
		{"it runs, after a restart of the scheduler", []string{"update first.0.1 RUNNING", "restart", "subscribed f1", offer}},
		{"its launch is not confirmed", []string{offer}},
		{"the master does not know its launch", []string{"update first.0.1 LOST reconciled proof=unknown_to_master", offer}},
		{"the agent has not received its launch yet", []string{"update first.0.1 LOST proof=absent_from_agent", "wait 1s", "inspected a", offer}},
		{"the master does not know it", []string{"update first.0.1 RUNNING", "update first.0.1 LOST reconciled proof=unknown_to_master", offer}},
		{"the master does not know its agent", []string{"update first.0.1 RUNNING", "update first.0.1 LOST reconciled proof=agent_unknown", offer}},
		{"its agent is unreachable", []string{"update first.0.1 RUNNING", "update first.0.1 UNREACHABLE", "agent-lost a", offer}},
		{"it was given up", []string{"update first.0.1 RUNNING", "update first.0.1 UNREACHABLE", "agent-lost a", "wait 15m", offer}},
		{
			"it was given up before a restart of the scheduler",
			[]string{"update first.0.1 RUNNING", "update first.0.1 UNREACHABLE", "agent-lost a", "wait 15m", "restart", "subscribed f1", offer},
		},
		{"its agent was removed", []string{"update first.0.1 RUNNING", "update first.0.1 LOST proof=agent_removed", "wait 10s", offer}},
		{
			"its machine has registered as another agent",
			[]string{"update first.0.1 RUNNING", "update first.0.1 LOST proof=agent_removed", "wait 10s", "offer o2 agent=b ids=GPU-a"},
		},
		{
			"the daemon has refused it the GPU, which another container holds",
			[]string{"update first.0.1 FAILED fault=device_held message=GPU-a_is_held", "wait 10s", offer},
		},
	} {
		t.Run(c.doubt, func(t *testing.T) {
			got := play(t, append([]string{"subscribed f1", "submit first gpus=1", "offer o1 agent=a ids=GPU-a", "submit next gpus=1"}, c.commands...)...)
			switch n := strings.Count(got, "[GPU-a]"); {
			case n == 0:
				t.Errorf("first.0.1 was not started:\n%s", got)
			case n > 1:
				t.Errorf("the scheduler placed a second task on GPU-a although the end of first.0.1 is not proven: %s:\n%s", c.doubt, got)
			}
		})
	}
}

// TestRefusedDevicesAreUsedAgain: a device that an agent's daemon has refused is given to a task a minute later, also if the refusal
// has no text.
func TestRefusedDevicesAreUsedAgain(t *testing.T) {
	for _, refusal := range []string{"fault=device_held message=GPU-a_is_held", "fault=device_held"} {
		got := play(t, "subscribed f1", "submit train gpus=1", "offer o1 agent=a ids=GPU-a", "update train.0.1 FAILED "+refusal,
			"wait 50s", "offer o2 agent=a ids=GPU-a", "wait 1s", "submit early gpus=1", "wait 20s", "offer o3 agent=a ids=GPU-a", "wait 1s")
		if n := strings.Count(got, "[GPU-a]"); n != 2 || strings.Contains(got, "accept o2") || !strings.Contains(got, "accept o3") {
			t.Errorf("%s: GPU-a was used %d times, want once more after a minute:\n%s", refusal, n, got)
		}
	}
}
