package quota

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// entitledTracker pursues entitlements: 8 A100 and 4 V100, which prod with weight 3 and research with weight 1 share, and of
// which research/x deserves 2 A100.
func entitledTracker(held, demanded map[string]map[string]int) *Tracker {
	t := NewTracker([]RoleEntitlement{
		{Role: "prod", Weight: 3}, {Role: "research", Weight: 1}, {Role: "research/x", Deserved: Quota{"A100": 2}},
	}, []fit.AgentResources{{ID: "a", TotalGPUs: 8, Types: []string{"A100"}}, {ID: "v", TotalGPUs: 4, Types: []string{"V100"}}})
	t.PursueEntitlements()
	for role, types := range held {
		t.AddUsage(role, types, nil, 1)
	}
	for role, types := range demanded {
		for gpuType, n := range types {
			r := requestOf(1, gpuType)
			t.AddDemand(&job.Spec{Role: role, Request: r}, n)
		}
	}
	t.UpdateEntitlements()
	return t
}

// Roles are entitled to their shares of what they demand, by weight, and reclaim up to that within all entries.
func TestEntitlements(t *testing.T) {
	u := entitledTracker(
		map[string]map[string]int{"research": {"A100": 6}},
		map[string]map[string]int{"prod": {"A100": 8, "V100": 1}, "research/x": {"A100": 1}},
	)
	if !u.Reclaims() {
		t.Fatal("nothing is reclaimed")
	}
	for role, want := range map[string]string{
		"prod":       "it is entitled to 8.25 GPUs and holds 0",
		"research/x": "it is entitled to 2 GPUs and holds 0",
		"research/y": "role research is entitled to 1.75 GPUs and holds 6",
		"elsewhere":  "it is entitled to no GPUs",
	} {
		if got := u.DescribeDeserved(role); got != want {
			t.Errorf("%s: %s, want %s", role, got, want)
		}
	}
	for _, c := range []struct {
		role, gpuType string
		level, want   int
	}{
		{"prod", "A100", 0, 5}, {"prod", "V100", 0, 1}, {"prod", "A100", 1, 0},
		{"research", "A100", 0, 0}, {"research/x", "A100", 0, 2},
	} {
		spec := &job.Spec{Role: c.role, Request: requestOf(1, c.gpuType)}
		if _, n := u.RestrictToDeserved(spec, c.level, 99); n != c.want {
			t.Errorf("%s may reclaim %d %s at level %d, want %d", c.role, n, c.gpuType, c.level, c.want)
		}
	}
	one := map[string]int{"A100": 1}
	u.AddClaim(&job.Spec{Role: "prod"}, &gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"A100"}}}, 1)
	if !u.IsInsideDeserved("prod", "research", one, nil) || !u.CanReclaim("prod", "research", one, nil, true) {
		t.Error("prod cannot reclaim from research")
	}
	if u.CanReclaim("research", "prod", one, nil, false) {
		t.Error("research can reclaim from prod, which holds nothing")
	}
	u.AddClaim(&job.Spec{Role: "prod"}, &gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"A100"}}}, 7)
	if u.IsInsideDeserved("prod", "research", one, nil) {
		t.Error("prod is inside its entitlement with 8 A100")
	}
}

// A role above its entitlement holds more than half a GPU more of a type, or of all types.
func TestRolesAboveEntitlement(t *testing.T) {
	u := entitledTracker(
		map[string]map[string]int{"research": {"A100": 6}, "prod": {"V100": 1}},
		map[string]map[string]int{"prod": {"A100": 8}},
	)
	var got []string
	for role, above := range u.RolesAboveEntitlement() {
		if above {
			got = append(got, role)
		}
	}
	if slices.Sort(got); strings.Join(got, " ") != "research" {
		t.Errorf("above their entitlement are %q", got)
	}
	u.AddUsage("research", map[string]int{"A100": 6}, nil, -1)
	if above := slices.Collect(maps.Values(u.RolesAboveEntitlement())); slices.Contains(above, true) {
		t.Errorf("a role without usage is above its entitlement: %v", u.RolesAboveEntitlement())
	}
}

// What roles hold and what ends is known to entitlements whether it is counted before or after they are computed.
func TestUsageOfEntitlements(t *testing.T) {
	u := entitledTracker(map[string]map[string]int{"research": {"A100": 6}}, map[string]map[string]int{"prod": {"A100": 8}})
	one := map[string]int{"A100": 1}
	u.AddEnding(&Holding{Role: "research", Types: map[string]int{"A100": 4}}, 1)
	if !strings.HasSuffix(u.DescribeDeserved("research"), "holds 6") || u.CanReclaim("prod", "research", one, nil, false) {
		t.Errorf("research can lose more than it borrows: %s", u.DescribeDeserved("research"))
	}
	u.UpdateEntitlements()
	if u.CanReclaim("prod", "research", one, nil, false) {
		t.Error("an update forgets what is about to end")
	}
	u.AddUsage("research", map[string]int{"A100": 2}, nil, 1)
	if got := u.DescribeDeserved("research"); !strings.HasSuffix(got, "holds 8") {
		t.Errorf("usage after the update is lost: %s", got)
	}
	if got := u.BorrowedOf("research"); got <= 0 || got >= 8000 {
		t.Errorf("research borrows %d thousandths", got)
	}
	if got := u.ShareNote(&job.Spec{Role: "research", Request: requestOf(1)}); got != "; role research"+strings.TrimPrefix(u.DescribeDeserved("research"), "it") {
		t.Errorf("the note is %q", got)
	}
}
