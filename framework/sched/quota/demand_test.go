package quota

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/sched/entitlement"
	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// TestClaims: a role claims what it holds and what its tasks wait for, by type; the capacity is that of agents that
// accept tasks, each counted once.
func TestClaims(t *testing.T) {
	agents := []fit.AgentResources{
		{ID: "a", Role: "x", TotalGPUs: 8, Types: []string{"A100"}}, {ID: "a", Role: "y", TotalGPUs: 8, Types: []string{"A100"}},
		{ID: "b", Inventory: []gpu.Device{
			{UUID: "1", Model: "Tesla V100-SXM2-16GB"},
			{UUID: "2", Model: "Tesla V100-SXM2-16GB"},
			{UUID: "3", Model: "Tesla T4", MemMiB: 16000},
		}},
		{ID: "c", TotalGPUs: 1, Types: []string{"T4", "P4"}}, {ID: "closed", Closed: true, TotalGPUs: 99, Types: []string{"A100"}},
	}
	u := NewTracker([]RoleEntitlement{
		{Role: "x", Weight: 2, Deserved: Quota{"a100": 4, "H100": 1}, Quota: Quota{"A100": 6, "*": 20}}, {Role: "y", Deserved: Quota{}},
	}, agents)
	u.AddUsage("x", map[string]int{"A100": 2, "T4|P4": 1}, nil, 1)
	u.AddUsage("x/z", map[string]int{"A100": 1}, nil, 1)
	u.AddDemand(&job.Spec{Role: "x", Request: gpu.Request{GPUs: 2, Types: gpu.TypeSelector{Include: []string{"a100", "V100"}}}}, 3)
	u.AddDemand(&job.Spec{Role: "x", Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemPercent: 25}, Types: gpu.TypeSelector{Include: []string{"T4"}}}}, 2)
	u.AddDemand(&job.Spec{Role: "x", Request: gpu.Request{}}, 5)
	if diff := cmp.Diff([]string{"*", "A100", "H100", "P4", "T4", "V100"}, u.GPUTypes()); diff != "" {
		t.Error(diff)
	}
	for gpuType, want := range map[string]entitlement.Claim{
		"A100": {Role: "x", Weight: 2, Deserved: 4000, HasDeserved: true, Limit: 6000, Demand: 8000},
		"V100": {Role: "x", Weight: 2, Limit: 20000, Demand: 6000},
		"T4":   {Role: "x", Weight: 2, Limit: 20000, Demand: 1500},
		"P4":   {Role: "x", Weight: 2, Limit: 20000, Demand: 1000},
		"H100": {Role: "x", Weight: 2, Deserved: 1000, HasDeserved: true, Limit: 20000},
		"*":    {Role: "x", Weight: 2, Deserved: 5000, HasDeserved: true, Limit: 20000, Demand: 9500},
	} {
		if diff := cmp.Diff(want, u.ClaimOf("x", gpuType)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", gpuType, diff)
		}
	}
	if diff := cmp.Diff(entitlement.Claim{Role: "y", HasDeserved: true, Limit: -1}, u.ClaimOf("y", AllTypes)); diff != "" {
		t.Error(diff)
	}
	z := NewTracker([]RoleEntitlement{{Role: "z", Deserved: Quota{AllTypes: 5}}}, agents)
	if diff := cmp.Diff(entitlement.Claim{Role: "z", Deserved: 5000, HasDeserved: true, Limit: -1}, z.ClaimOf("z", "V100")); diff != "" {
		t.Errorf("what a role deserves of all types, it deserves of each (-want +got):\n%s", diff)
	}
	capacity := map[string]int{}
	for _, gpuType := range u.GPUTypes() {
		capacity[gpuType] = u.Capacity(gpuType)
	}
	if diff := cmp.Diff(map[string]int{"*": 12000, "A100": 8000, "V100": 2000, "T4": 2000, "P4": 1000, "H100": 0}, capacity); diff != "" {
		t.Errorf("capacity (-want +got):\n%s", diff)
	}
	if within := u.DemandWithin("x", "A100"); within != 9000 {
		t.Errorf("x and the roles below demand %d A100, want 9000", within)
	}
	u.AddUsage("y", map[string]int{"A100": 9}, nil, 1)
	if n := u.Capacity("A100"); n != 12000 {
		t.Errorf("capacity below what is held: %d", n)
	}
}

// TestClaimsAreWithinMesosQuotas: the smaller of the role's own quota and of Mesos's quota of the role limits a claim.
func TestClaimsAreWithinMesosQuotas(t *testing.T) {
	for _, c := range []struct {
		quota Quota
		mesos []MesosQuota
		want  int
	}{
		{nil, nil, -1},
		{nil, []MesosQuota{{Role: "lab", Limit: 0}}, 0},
		{nil, []MesosQuota{{Role: "other", Limit: 3}}, -1},
		{Quota{AllTypes: 4}, []MesosQuota{{Role: "lab", Limit: 3}}, 3000},
		{Quota{AllTypes: 2}, []MesosQuota{{Role: "lab", Limit: 3}}, 2000},
		{Quota{AllTypes: 0}, []MesosQuota{{Role: "other", Limit: 3}, {Role: "lab", Limit: 3}}, 0},
	} {
		u := NewTracker([]RoleEntitlement{{Role: "lab", Quota: c.quota}}, nil)
		u.SetMesosQuotas(c.mesos)
		if got := u.ClaimOf("lab", AllTypes).Limit; got != c.want {
			t.Errorf("quota %v and Mesos's %v: the limit is %d, want %d", c.quota, c.mesos, got, c.want)
		}
	}
}
