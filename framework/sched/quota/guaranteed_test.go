package quota

import (
	"testing"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Guaranteed jobs run only inside what their role deserves, of which other guaranteed tasks hold a part.
func TestRestrictGuaranteed(t *testing.T) {
	a100, v100 := gpu.TypeSelector{Include: []string{"A100"}}, gpu.TypeSelector{Include: []string{"V100"}}
	for _, c := range []struct {
		name string
		held map[string]int // by guaranteed tasks of the role
		spec job.Spec
		n    int
		want int
	}{
		{"all that the role deserves", nil, job.Spec{Role: "lab/x", Guaranteed: true, Request: gpu.Request{GPUs: 1}}, 9, 2},
		{"fewer tasks than it deserves", nil, job.Spec{Role: "lab/x", Guaranteed: true, Request: gpu.Request{GPUs: 1}}, 1, 1},
		{"guaranteed tasks hold a part", map[string]int{"A100": 1}, job.Spec{Role: "lab/x", Guaranteed: true, Request: gpu.Request{GPUs: 1}}, 9, 1},
		{"guaranteed tasks hold all", map[string]int{"A100": 2}, job.Spec{Role: "lab/x", Guaranteed: true, Request: gpu.Request{GPUs: 1}}, 9, 0},
		{"another type", nil, job.Spec{Role: "lab/x", Guaranteed: true, Request: gpu.Request{GPUs: 1, Types: v100}}, 9, 0},
		{"tasks of two GPUs", nil, job.Spec{Role: "lab/y", Guaranteed: true, Request: gpu.Request{GPUs: 2}}, 9, 1},
		{"the best of several entries", map[string]int{"A100": 1}, job.Spec{Role: "prod", Guaranteed: true, Request: gpu.Request{GPUs: 1, Types: a100}}, 9, 2},
		{"an entry for all types counts once", nil, job.Spec{Role: "prod", Guaranteed: true, Request: gpu.Request{GPUs: 1}}, 9, 3},
		{"a gang inside", nil, job.Spec{Role: "lab/x", Guaranteed: true, Gang: true, Request: gpu.Request{GPUs: 1}}, 2, 2},
		{"a gang that is not inside as a whole", nil, job.Spec{Role: "lab/x", Guaranteed: true, Gang: true, Request: gpu.Request{GPUs: 1}}, 3, 0},
		{"a role that deserves nothing", nil, job.Spec{Role: "guests", Guaranteed: true, Request: gpu.Request{GPUs: 1}}, 9, 0},
		{"no GPUs", nil, job.Spec{Role: "lab/x", Guaranteed: true}, 9, 9},
		{"no guarantee", nil, job.Spec{Role: "lab/x", Request: gpu.Request{GPUs: 1}}, 9, 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := lendingTracker()
			u.AddGuaranteed(&job.Spec{Role: c.spec.Role}, 1, c.held, nil)
			if r, got := u.RestrictGuaranteed(&c.spec, c.n); got != c.want {
				t.Errorf("%d tasks of %s, want %d", got, r.Types, c.want)
			}
			if !c.spec.Guaranteed || c.spec.Request.GPUs == 0 {
				return
			}
			if _, got := u.RestrictToDeserved(&c.spec, 0, c.n); got != c.want {
				t.Errorf("%d tasks may reclaim, want %d", got, c.want)
			}
			if _, got := u.RestrictToDeserved(&c.spec, 1, c.n); got != 0 {
				t.Errorf("%d tasks may reclaim for the role above", got)
			}
		})
	}
	plain := NewTracker(nil, nil)
	plain.AddGuaranteed(&job.Spec{Role: "lab"}, 1, map[string]int{"A100": 1}, nil)
	if _, n := plain.RestrictGuaranteed(&job.Spec{Role: "lab", Guaranteed: true, Request: gpu.Request{GPUs: 1}}, 9); n != 9 {
		t.Errorf("%d tasks may run where no role deserves GPUs, want 9", n)
	}
}

// Types of which guaranteed tasks hold all are excluded, and types with room for fewer than all tasks of one type.
func TestRestrictGuaranteedExcludesTypes(t *testing.T) {
	u := NewTracker([]RoleEntitlement{{Role: "lab", Deserved: Quota{"A100": 1, "V100": 2}}}, lendingTracker().agents)
	for _, c := range []struct {
		held  map[string]int
		same  bool
		n     int
		types string // of A100 and V100 that are left
	}{
		{nil, false, 2, "A100 V100 "}, {map[string]int{"A100": 1}, false, 2, "V100 "}, {nil, true, 2, "V100 "}, {nil, true, 1, "A100 V100 "},
	} {
		u.deserved = newDeservedTree(u.entitlements, u.agents)
		u.AddGuaranteed(&job.Spec{Role: "lab"}, 1, c.held, nil)
		r, _ := u.RestrictGuaranteed(&job.Spec{Role: "lab", Guaranteed: true, Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Same: c.same}}}, c.n)
		got := ""
		for _, name := range []string{"A100", "V100"} {
			if r.Types.MayMatch(name) {
				got += name + " "
			}
		}
		if got != c.types {
			t.Errorf("%v held, of one type %t, %d tasks: %q are left, want %q", c.held, c.same, c.n, got, c.types)
		}
	}
}

// Reasons name what a role, or the role above that deserves for it, deserves, holds and borrows.
func TestExplainDeserved(t *testing.T) {
	u := lendingTracker()
	u.AddUsage("lab/x", map[string]int{"A100": 3}, nil, 1)
	u.AddUsage("lab/z", map[string]int{"A100": 1}, nil, 1)
	u.AddUsage("prod", map[string]int{"A100": 1, "V100": 3}, []gpu.DeviceShare{{Type: "V100", MilliDevices: 500}}, 1)
	u.AddUsage("guests", map[string]int{"A100": 2}, nil, 1)
	u.AddGuaranteed(&job.Spec{Role: "prod"}, 1, map[string]int{"A100": 1}, []gpu.DeviceShare{{Type: "V100", MilliDevices: 500}})
	for role, want := range map[string]struct {
		note, guaranteed string
		borrowed         int
		fraction         float64
	}{
		"lab/x": {"; role lab/x deserves 2 A100 and holds 3, borrows 1", "role lab/x deserves 2 A100 and its guaranteed tasks hold 0", 1000, 1.5},
		"lab/y": {"; role lab/y deserves 3 a100 and holds 0, borrows 0", "role lab/y deserves 3 a100 and its guaranteed tasks hold 0", 0, 0},
		"lab/z": {"; role lab deserves 1 A100 and holds 1, borrows 1", "role lab deserves 1 A100 and its guaranteed tasks hold 0", 1000, 1},
		"prod": {
			"; role prod deserves 3 GPUs and holds 4.5, 1 A100 and holds 1, borrows 1.5",
			"role prod deserves 3 GPUs and its guaranteed tasks hold 1.5, 1 A100 and its guaranteed tasks hold 1", 1500, 1.5,
		},
		"guests": {"; role guests deserves none and borrows 2", "role guests deserves none", 2000, 1},
	} {
		if got := u.ShareNote(&job.Spec{Role: role, Request: gpu.Request{GPUs: 1}}); got != want.note {
			t.Errorf("%s: the note is %q, want %q", role, got, want.note)
		}
		why := u.ExplainGuaranteed(&job.Spec{Role: role, Request: gpu.Request{GPUs: 2}}, 1)
		if why.Available != want.guaranteed || why.Needs != "2 GPUs more of what role "+role+" deserves" {
			t.Errorf("%s: a guaranteed job waits because %+v, want %q", role, why, want.guaranteed)
		}
		if got := u.BorrowedOf(role); got != want.borrowed {
			t.Errorf("%s borrows %d, want %d", role, got, want.borrowed)
		}
		if got := u.DeservedFraction(role); got != want.fraction {
			t.Errorf("%s has %g of what it deserves, want %g", role, got, want.fraction)
		}
	}
	for _, spec := range []job.Spec{{Role: "prod"}, {Role: "prod", Guaranteed: true, Request: gpu.Request{GPUs: 1}}} {
		if note := u.ShareNote(&spec); note != "" {
			t.Errorf("%+v: the note is %q", spec, note)
		}
	}
	if got := u.DescribeDeserved("guests"); got != "it deserves none" {
		t.Errorf("guests: %s", got)
	}
	if got := u.DeservedLevels(); got != 2 {
		t.Errorf("%d levels of roles deserve GPUs, want 2", got)
	}
	plain := NewTracker(nil, nil)
	plain.AddUsage("lab", map[string]int{"A100": 2}, nil, 1)
	if got := plain.BorrowedOf("lab"); got != 2000 || plain.ShareNote(&job.Spec{Role: "lab", Request: gpu.Request{GPUs: 1}}) != "" {
		t.Errorf("where no role deserves GPUs, lab borrows %d", got)
	}
	if why := plain.ExplainGuaranteed(&job.Spec{Role: "lab"}, 1); why.Available != "role lab deserves none" {
		t.Errorf("where no role deserves GPUs: %q", why.Available)
	}
}

// A claim has no room in the limit of the lowest role that is full even once ending tasks have ended.
func TestLimitBelowClaim(t *testing.T) {
	entitlements := []RoleEntitlement{
		{Role: "lab", Quota: Quota{AllTypes: 4}, Deserved: Quota{AllTypes: 4}},
		{Role: "lab/x", Quota: Quota{"A100": 2}, NamedUsers: map[string]UserLimits{"ann": {GPUs: Quota{AllTypes: 3}}}},
	}
	for _, c := range []struct {
		name   string
		owner  string
		ending int // of the 2 A100 that lab/x holds
		types  []string
		n      int
		want   string
	}{
		{"room above", "", 0, []string{"V100"}, 2, ""},
		{"the role above is full", "", 0, []string{"V100"}, 3, "lab *=4, holds 2"},
		{"the lowest role is full", "", 0, []string{"A100"}, 3, "lab/x A100=2, holds 2"},
		{"what ends makes room", "", 1, []string{"A100"}, 1, ""},
		{"not enough ends", "", 1, []string{"A100"}, 2, "lab/x A100=2, holds 2"},
		{"the user has room", "ann", 0, []string{"A100"}, 3, "lab/x A100=2, holds 2"},
		{"the user has none", "ann", 0, []string{"A100"}, 4, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := NewTracker(entitlements, nil)
			u.AddUsage("lab/x", map[string]int{"A100": 2}, nil, 1)
			u.AddEnding(&Holding{Role: "lab/x", Types: map[string]int{"A100": c.ending}}, 1)
			spec := jobOfUser("j", "lab/x", c.owner, requestOf(1, c.types...))
			if got := describe(u.LimitBelowClaim(spec, &spec.Request, c.n)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	share := []gpu.DeviceShare{{Type: "A100", MilliDevices: 1}}
	for _, c := range []struct {
		limit  Limit
		role   string
		types  map[string]int
		shares []gpu.DeviceShare
		want   bool
	}{
		{Limit{Role: "lab", Type: "A100"}, "lab/x", map[string]int{"A100": 1}, nil, true},
		{Limit{Role: "lab", Type: "A100"}, "lab/x", map[string]int{"V100": 1}, nil, false},
		{Limit{Role: "lab", Type: "A100"}, "labs", map[string]int{"A100": 1}, nil, false},
		{Limit{Role: "lab", Type: "A100"}, "lab", nil, share, true},
		{Limit{Role: "lab", Type: AllTypes, OfMesos: true}, "lab", nil, share, false},
		{Limit{Role: "lab", Type: AllTypes, OfMesos: true}, "lab", map[string]int{"": 1}, share, true},
	} {
		if got := c.limit.CountsUsage(c.role, c.types, c.shares); got != c.want {
			t.Errorf("%+v counts %v and %v of %s: %t", c.limit, c.types, c.shares, c.role, got)
		}
	}
}
