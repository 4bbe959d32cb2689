package fit

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
)

// partlyShared returns an agent with idle devices: the first ones are not shared, the others are.
func partlyShared(id string, unshared, shared int) AgentResources {
	a := sharedByMethod(id, slices.Repeat([]string{"16000/100"}, unshared+shared)...)
	for i := range unshared {
		a.DeviceIDs = append(a.DeviceIDs, a.Shared[i].UUID)
	}
	a.GPUs = unshared
	a.Shared, a.AllShared = a.Shared[unshared:], a.AllShared[unshared:]
	return a
}

// formatWhole returns "a0 a3(16000/100)": the devices of a placement, those with their amounts that are shared.
func formatWhole(p *Placement) string {
	ids := slices.Clone(p.DeviceIDs)
	for _, s := range p.Shares {
		ids = append(ids, s.String())
	}
	return strings.Join(ids, " ")
}

func TestWholeGPUsOfSharedDevices(t *testing.T) {
	whole := func(n int) gpu.Request { return gpu.Request{GPUs: n} }
	const all = " (16000 MiB, 100 %)"
	mps := sharedByMethod("a", "16000/100", "16000/100")
	mps.Attributes = append(mps.Attributes, Attribute{"gpu_share_limit", "mps"})
	unknown := sharedByMethod("a", "16000/100")
	unknown.AllShared = nil
	models := partlyShared("a", 1, 2)
	models.Inventory = slices.Clone(models.Inventory)
	models.Inventory[0].Model = k80
	for _, c := range []struct {
		name    string
		agents  []AgentResources
		request gpu.Request
		want    []string
	}{
		{"an idle shared device", []AgentResources{sharedByMethod("a", "16000/100")}, whole(1), []string{"a0" + all}},
		{"not one in use", []AgentResources{sharedByMethod("a", "15999/100", "16000/99", "16000/100")}, whole(1), []string{"a2" + all}},
		{"not one of unknown size", []AgentResources{unknown}, whole(1), nil},
		{"others first", []AgentResources{partlyShared("a", 1, 2)}, whole(1), []string{"a0", "a1" + all, "a2" + all}},
		{"others first, on another agent", []AgentResources{partlyShared("a", 0, 2), partlyShared("b", 1, 1)}, whole(1),
			[]string{"b0", "b1" + all, "a0" + all, "a1" + all}},
		{"both for one task", []AgentResources{partlyShared("a", 2, 3)}, whole(4), []string{"a0 a1 a2" + all + " a3" + all}},
		{"one model rather than all others", []AgentResources{models}, whole(2), []string{"a1" + all + " a2" + all}},
		{"several although MPS limits a task to one", []AgentResources{mps}, whole(2), []string{"a0" + all + " a1" + all}},
		{"too few", []AgentResources{partlyShared("a", 1, 1)}, whole(3), nil},
		{"memory", []AgentResources{partlyShared("a", 1, 1)}, gpu.Request{GPUs: 1, MinMemMiB: 17000}, nil},
	} {
		for _, policy := range PolicyNames() {
			t.Run(c.name+"/"+policy, func(t *testing.T) {
				placements := NewCluster(c.agents, PlacementPolicy{Name: policy}, noon).PlaceTasks(&Demand{Request: c.request}, 9)
				var got []string
				for i := range placements {
					got = append(got, formatWhole(&placements[i]))
				}
				want := c.want
				if policy == "spread" { // may use the agents in another order
					slices.Sort(got)
					want = slices.Sorted(slices.Values(want))
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		}
	}
}

// A device that a task has whole has nothing to share, and can be shared once the task has ended.
func TestDeviceIsNeverWholeAndShared(t *testing.T) {
	whole, part := &Demand{Request: gpu.Request{GPUs: 1}}, &Demand{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemMiB: 1}}}
	for _, policy := range PolicyNames() {
		c := NewCluster([]AgentResources{sharedByMethod("a", "16000/100")}, PlacementPolicy{Name: policy}, noon)
		places := c.PlaceTasks(whole, 2)
		if len(places) != 1 {
			t.Fatalf("%s: %d tasks have the whole device, want 1", policy, len(places))
		}
		if n := len(c.PlaceTasks(part, 1)); n != 0 {
			t.Errorf("%s: a task has the whole device, and another a share of it", policy)
		}
		c.UndoPlacements(whole, places)
		if n := len(c.PlaceTasks(part, 2)); n != 2 {
			t.Errorf("%s: %d shares of an idle device are placed, want 2", policy, n)
		}
		if n := len(c.PlaceTasks(whole, 1)); n != 0 {
			t.Errorf("%s: tasks have shares of a device, and another all of it", policy)
		}
	}
}

// Two tasks have shares of 70 % on two GPUs. If one of them ends, a task gets the whole GPU.
func TestReleasedShareFreesWholeDevice(t *testing.T) {
	share := gpu.DeviceShare{UUID: "a1", MemMiB: 11200, Cores: 70}
	whole := &Demand{Request: gpu.Request{GPUs: 1}, AvoidReserved: true}
	c := NewCluster([]AgentResources{sharedByMethod("a", "4800/30", "4800/30")}, PlacementPolicy{}, noon)
	if n := len(c.PlaceTasks(whole, 1)); n != 0 {
		t.Fatal("a GPU in use is given to a task as a whole")
	}
	held := TaskResources{Shares: []gpu.DeviceShare{share}}
	c.ReleaseAt(0, held)
	places := c.PlaceTasks(whole, 2)
	if len(places) != 1 || len(places[0].Shares) != 1 || places[0].Shares[0].UUID != "a1" {
		t.Fatalf("after the share of a1 has ended, tasks for a whole GPU get %+v, want a1", places)
	}
	c.UndoPlacements(whole, places)
	c.TakeAt(0, held)
	if n := len(c.PlaceTasks(whole, 1)); n != 0 {
		t.Error("a share that was taken back leaves the device idle")
	}
	c.ReleaseAt(0, held)
	c.ReserveResources("a", "", TaskResources{Shares: []gpu.DeviceShare{{UUID: "a1", MemMiB: 4800, Cores: 30}}})
	if n := len(c.PlaceTasks(whole, 1)); n != 0 {
		t.Error("a device of which a share is reserved is given to a task as a whole")
	}
}
