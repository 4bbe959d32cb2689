package placement

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// What is reserved on an agent is what the places need, less what ended tasks free there.
func TestRemainderIsNeedLessWhatEndedTasksFree(t *testing.T) {
	share := func(uuid string, mem int64, cores int) gpu.DeviceShare {
		return gpu.DeviceShare{UUID: uuid, MemMiB: mem, Cores: cores}
	}
	task := func(gpus int, devices []string, shares ...gpu.DeviceShare) queue.RunningTask {
		return queue.RunningTask{Spec: &job.Spec{CPUs: 1, MemMiB: 10, DiskMiB: 100, Request: gpu.Request{GPUs: gpus}}, DeviceIDs: devices, Shares: shares}
	}
	d := fit.Demand{Amount: fit.Amount{CPUs: 4, MemMiB: 40, DiskMiB: 400}, Request: gpu.Request{GPUs: 2}, HostPorts: []int{0, 31001}}
	overhead := fit.Amount{CPUs: 0.5, MemMiB: 5}
	for _, c := range []struct {
		name   string
		places []fit.Placement
		ended  []queue.RunningTask
		want   fit.TaskResources
	}{
		{
			"GPUs by count", []fit.Placement{{Ports: []int{31000, 31001}}, {Ports: []int{31000, 31001}}}, []queue.RunningTask{task(1, nil)},
			fit.TaskResources{Amount: fit.Amount{CPUs: 6.5, MemMiB: 65, DiskMiB: 700}, GPUs: 3, Ports: []int{31001, 31001}},
		},
		{
			"devices by id", []fit.Placement{{DeviceIDs: []string{"a", "b"}, Ports: []int{0, 0}}}, []queue.RunningTask{task(1, []string{"b"}), task(1, []string{"c"})},
			fit.TaskResources{Amount: fit.Amount{CPUs: 1, MemMiB: 10, DiskMiB: 200}, GPUs: 2, DeviceIDs: []string{"a"}, Ports: []int{0}},
		},
		{
			"shares of several devices", []fit.Placement{
				{Shares: []gpu.DeviceShare{share("s", 100, 50), share("t", 10, 5)}, Ports: []int{0, 0}},
				{Shares: []gpu.DeviceShare{share("s", 100, 50), share("t", 10, 5)}, Ports: []int{0, 0}},
			},
			[]queue.RunningTask{task(3, nil, share("s", 150, 20), share("t", 20, 9), share("u", 1, 1))},
			fit.TaskResources{
				Amount: fit.Amount{CPUs: 6.5, MemMiB: 65, DiskMiB: 700},
				Shares: []gpu.DeviceShare{share("s", 50, 80), share("t", 0, 1)},
				Ports:  []int{0, 0},
			},
		},
		{
			"a whole device and all of a shared one", []fit.Placement{{DeviceIDs: []string{"a"}, Shares: []gpu.DeviceShare{share("s", 100, 100)}, Ports: []int{0, 0}}},
			[]queue.RunningTask{task(1, []string{"s"}, share("s", 70, 70)), task(2, []string{"a", "t"}, share("t", 100, 100))},
			fit.TaskResources{
				Amount:    fit.Amount{CPUs: 1, MemMiB: 10, DiskMiB: 200},
				GPUs:      1,
				DeviceIDs: []string{},
				Shares:    []gpu.DeviceShare{share("s", 30, 30)},
				Ports:     []int{0},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r remainder
			for i := range c.places {
				r.addPlacement(&d, &c.places[i])
			}
			for i := range c.ended {
				r.subtractTask(&c.ended[i], overhead)
			}
			if diff := cmp.Diff(c.want, r.TaskResources); diff != "" {
				t.Errorf("remainder (-want +got):\n%s", diff)
			}
		})
	}
}

// Of one role, maxReservationAttempts jobs may fail to find a reservation before no more are tried.
func TestReservationAttemptsAreLimited(t *testing.T) {
	for impossible, want := range map[int]bool{maxReservationAttempts - 1: true, maxReservationAttempts: false} {
		var waiting []queue.WaitingJob
		for i := range impossible {
			waiting = append(waiting, waitingJob(fmt.Sprint("never", i), 1, withGPUs(100+i)))
		}
		waiting = append(waiting, waitingJob("head", 1, withGPUs(2)), waitingJob("next", 1, nil))
		in := PlanInput{Now: planTime(), Waiting: waiting, Running: []queue.RunningTask{runningTask("old", "x", time.Hour, nil)}}
		plan := planOffers([]fit.Offer{gpuOffer("x", 1, "V100")}, in, testPolicy())
		if reserved := len(plan.Accept) == 0; reserved != want {
			t.Errorf("after %d jobs that never fit: reserved for the next one: %t, want %t", impossible, reserved, want)
		}
	}
}

// An agent offers resources or has leftovers of earlier offers, never both. Shared devices are
// those that the master reports.
func TestClusterOfOffers(t *testing.T) {
	known := fit.AgentResources{ID: "x", GPUs: 9}
	left := fit.AgentResources{
		ID:        "y",
		GPUs:      2,
		DeviceIDs: []string{"GPU-a", "GPU-b"},
		Free:      fit.Amount{CPUs: 3},
		Offers:    []string{"gone"},
		Shared:    []fit.SharedDevice{{UUID: "GPU-s", MemMiB: 100, Cores: 50}},
	}
	all := []fit.SharedDevice{{UUID: "GPU-s", MemMiB: 1000, Cores: 100}}
	in := PlanInput{Now: planTime(), Known: []fit.AgentResources{known, left}, SharedDevices: func(agent string) []fit.SharedDevice {
		if agent == "x" {
			return all
		}
		return nil
	}}
	p := testPolicy()
	c, leftoverOf := NewClusterOfOffers(pointersTo([]fit.Offer{gpuOffer("x", 1, "V100")}), &in, &p)
	agents := c.Agents()
	if len(agents) != 2 || agents[0].ID != "x" || agents[0].GPUs != 1 || !cmp.Equal(agents[0].AllShared, all) {
		t.Fatalf("agents are %+v", agents)
	}
	if a := agents[1]; a.ID != "y" || a.GPUs != 0 || len(a.Offers)+len(a.DeviceIDs)+len(a.Shared) > 0 || a.Free != (fit.Amount{}) {
		t.Errorf("an agent without offers has %+v", a)
	}
	want := fit.TaskResources{
		Amount:    fit.Amount{CPUs: 3},
		GPUs:      2,
		DeviceIDs: []string{"GPU-a", "GPU-b"},
		Shares:    []gpu.DeviceShare{{UUID: "GPU-s", MemMiB: 100, Cores: 50}},
	}
	if diff := cmp.Diff(want, leftoverOf(&agents[1])); diff != "" {
		t.Errorf("leftovers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(fit.TaskResources{}, leftoverOf(&agents[0])); diff != "" {
		t.Errorf("leftovers of an agent with offers (-want +got):\n%s", diff)
	}
}

// Agents have one index in all partitions, in the order of their ids and roles, and keep it when
// what they have free changes.
func TestAgentsAreNumberedAcrossPartitions(t *testing.T) {
	agent := func(id, role string, cpus float64) fit.AgentResources {
		return fit.AgentResources{ID: id, Role: role, Free: fit.Amount{CPUs: cpus}}
	}
	p := &Policy{Fit: fit.PlacementPolicy{Name: "binpack"}, Roles: []queue.Role{{Name: "packs"}, {Name: "spreads", FitPolicy: "spread"}}}
	c := NewPartitionedCluster([]fit.AgentResources{agent("b", "spreads", 1), agent("a", "spreads", 1), agent("b", "packs", 1), agent("a", "packs", 1)},
		p, time.Time{})
	check := func(when string, want ...string) {
		t.Helper()
		var got []string
		for i := range c.Agents() {
			a := &c.Agents()[i]
			got = append(got, fmt.Sprint(KeyOfAgent(a), " ", a.Free.CPUs))
			if at := c.findAgent(a.ID, a.Role); at != i {
				t.Errorf("%s: agent %d is found at %d", when, i, at)
			}
			if partition, at := c.locate(i); partition != c.partition(a.Role) || partition.Agents()[at].ID != a.ID {
				t.Errorf("%s: agent %d is located elsewhere", when, i)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("at first", "{a packs} 1", "{a spreads} 1", "{b packs} 1", "{b spreads} 1")
	if !c.UpdateAgents(slices.Values([]fit.AgentResources{agent("b", "spreads", 4)}), p, time.Time{}) {
		t.Fatal("the cluster cannot be updated")
	}
	check("after an update", "{a packs} 1", "{a spreads} 1", "{b packs} 1", "{b spreads} 4")
	if c.findAgent("c", "packs") != -1 || c.findAgent("a", "unknown") != -1 {
		t.Error("an unknown agent is found")
	}
	if c.UpdateAgents(slices.Values([]fit.AgentResources{agent("c", "packs", 1)}), p, time.Time{}) {
		t.Error("an agent that the cluster does not have is updated")
	}
}

func TestAgentKeysAreOrderedByAgentThenRole(t *testing.T) {
	key := AgentKey{"b", "y"}
	for other, want := range map[AgentKey]int{{"a", "z"}: 1, {"b", "x"}: 1, key: 0, {"b", "z"}: -1, {"c", "a"}: -1} {
		if got := key.Compare(other); got != want {
			t.Errorf("%v is compared with %v as %d, want %d", key, other, got, want)
		}
	}
}

// A job whose quota has room that is kept for an earlier job is blocked by a reservation.
func TestQuotaCause(t *testing.T) {
	for kept, want := range map[bool]BlockedBy{false: BlockedByQuota, true: BlockedByReservation} {
		got := QuotaCause(quota.LimitExplanation{Needs: "room", Available: "none", KeptForEarlier: kept})
		if got != (PendingCause{Needs: "room", Available: "none", BlockedBy: want}) {
			t.Errorf("kept for an earlier job %t: got %+v", kept, got)
		}
	}
}

// A task of a matrix gets its combination.
func TestLaunchHasValuesOfMatrix(t *testing.T) {
	j := waitingJob("sweep", 2, func(s *job.Spec) {
		s.Matrix = &job.Matrix{Axes: []job.MatrixAxis{{Name: "lr", Values: []string{"1", "2"}}}}
	})
	plan := planOffers([]fit.Offer{gpuOffer("x", 2, "V100")}, PlanInput{Now: planTime(), Waiting: []queue.WaitingJob{j}}, testPolicy())
	for i, want := range []string{"1", "2"} {
		if got := plan.Accept[0].Launches[i].Values; !cmp.Equal(got, map[string]string{"lr": want}) {
			t.Errorf("task %d has the values %v, want %s", i, got, want)
		}
	}
}

// Declined and held offers are in the order of their agents.
func TestAnswersAreInTheOrderOfAgents(t *testing.T) {
	first, second := gpuOffer("y", 0), gpuOffer("x", 0)
	first.ID, second.ID = "o1", "o2"
	for _, waiting := range [][]queue.WaitingJob{nil, {waitingJob("train", 1, func(s *job.Spec) { s.Request.GPUs, s.CPUs = 0, 1000 })}} {
		plan := planOffers([]fit.Offer{first, second}, PlanInput{Now: planTime(), Waiting: waiting}, testPolicy())
		list := append(plan.Decline, plan.Hold...)
		if len(list) != 2 || list[0].OfferID != "o2" || list[1].OfferID != "o1" {
			t.Errorf("answers are %+v", list)
		}
	}
}

// A gang on different agents that does not fit gives its places back: it counts on those agents when it has all three.
func TestGangOnDifferentAgentsIsReservedAsWhole(t *testing.T) {
	waiting := []queue.WaitingJob{waitingJob("gang", 3, both(asGang, alone)), waitingJob("next", 1, nil)}
	offers := []fit.Offer{gpuOffer("x", 1, "V100"), gpuOffer("y", 1, "V100"), gpuOffer("z", 0, "V100")}
	plan := planOffers(offers, PlanInput{Now: planTime(), Waiting: waiting, Running: []queue.RunningTask{runningTask("old", "z", time.Hour, nil)}}, testPolicy())
	want := []PendingReason{
		{Run: job.RunID{Name: "gang"}, Missing: 3, Tasks: 3, PendingCause: PendingCause{Needs: "1 free GPU on one agent", Available: "3 agents have GPUs, none has one free"}},
		{Run: job.RunID{Name: "next"}, Missing: 1, Tasks: 1, PendingCause: PendingCause{
			BlockedBy: BlockedByReservation,
			Needs:     "a place that gang will not need",
			Available: "gang goes first and starts within 1h0m0s, a run_time that ends before would fit",
		}},
	}
	if diff := cmp.Diff(want, plan.Unplaced); diff != "" || len(plan.Accept) > 0 {
		t.Errorf("%d agents get tasks; waiting (-want +got):\n%s", len(plan.Accept), diff)
	}
}
