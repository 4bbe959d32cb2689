package quota

import (
	"testing"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// lendingTracker has a tree of roles that deserve GPUs on agents with A100 and V100.
func lendingTracker() *Tracker {
	return NewTracker([]RoleEntitlement{
		{Role: "lab", Deserved: Quota{"A100": 6}}, {Role: "lab/x", Deserved: Quota{"A100": 2}}, {Role: "lab/y", Deserved: Quota{"a100": 3}}, {Role: "lab/z"},
		{Role: "prod", Deserved: Quota{"A100": 1, "*": 3}}, {Role: "guests"},
	}, []fit.AgentResources{{ID: "a", TotalGPUs: 8, Types: []string{"A100"}}, {ID: "v", TotalGPUs: 8, Types: []string{"V100"}}})
}

// TestRestrictToDeserved: how many tasks are inside what a role deserves, at each level of the tree, and of which types.
func TestRestrictToDeserved(t *testing.T) {
	for name, c := range map[string]struct {
		held  map[string]map[string]int
		spec  job.Spec
		level int
		n     int
		want  int
		types string // of "A100 V100" that the restricted request accepts
	}{
		"nothing is held": {nil, job.Spec{Role: "lab/x", Request: gpu.Request{GPUs: 1}}, 0, 9, 2, "A100"},
		"of no deserved type": {nil,
			job.Spec{Role: "lab/x", Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"V100"}}}}, 0, 9, 0,
			"V100"},
		"part is held": {map[string]map[string]int{"lab/x": {"A100": 1}},
			job.Spec{Role: "lab/x", Request: gpu.Request{GPUs: 1}}, 0, 9, 1, "A100"},
		"the parent has more": {map[string]map[string]int{"lab/x": {"A100": 2}},
			job.Spec{Role: "lab/x", Request: gpu.Request{GPUs: 1}}, 1, 9, 4, "A100"},
		"the parent's is used by a sibling": {map[string]map[string]int{"lab/y": {"A100": 5}},
			job.Spec{Role: "lab/x", Request: gpu.Request{GPUs: 1}}, 1, 9, 1, "A100"},
		"no third level":          {nil, job.Spec{Role: "lab/x", Request: gpu.Request{GPUs: 1}}, 2, 9, 0, "A100 V100"},
		"the parent's own part":   {nil, job.Spec{Role: "lab", Request: gpu.Request{GPUs: 1}}, 0, 9, 1, "A100"},
		"a child without its own": {nil, job.Spec{Role: "lab/z", Request: gpu.Request{GPUs: 1}}, 0, 9, 1, "A100"},
		"shared with the parent's own tasks": {map[string]map[string]int{"lab": {"A100": 1}},
			job.Spec{Role: "lab/z", Request: gpu.Request{GPUs: 1}}, 0, 9, 0, "A100 V100"},
		"a gang that is not inside as a whole": {nil, job.Spec{Role: "lab/x", Gang: true, Request: gpu.Request{GPUs: 1}}, 0, 3, 0, "A100 V100"},
		"a gang that is":                       {nil, job.Spec{Role: "lab/x", Gang: true, Request: gpu.Request{GPUs: 1}}, 0, 2, 2, "A100"},
		"tasks of two GPUs":                    {nil, job.Spec{Role: "lab/y", Request: gpu.Request{GPUs: 2}}, 0, 9, 1, "A100"},
		"shares": {nil,
			job.Spec{Role: "lab/x", Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemPercent: 25}}}, 0, 99, 8, "A100"},
		"all types": {nil, job.Spec{Role: "prod", Request: gpu.Request{GPUs: 1}}, 0, 9, 3, "A100 V100"},
		"all types, of which one is used up": {map[string]map[string]int{"prod": {"V100": 3}},
			job.Spec{Role: "prod", Request: gpu.Request{GPUs: 1}}, 0, 9, 1, "A100"},
		"a role that deserves nothing": {nil, job.Spec{Role: "guests", Request: gpu.Request{GPUs: 1}}, 0, 9, 0, "A100 V100"},
		"no GPUs":                      {nil, job.Spec{Role: "lab/x"}, 0, 9, 0, "A100 V100"},
		"one type for all, of which just enough is left": {nil,
			job.Spec{Role: "lab/x", Gang: true, Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Same: true}}}, 0, 2, 2, "A100"},
		"one type for all, of one that is full": {map[string]map[string]int{"prod": {"A100": 1, "V100": 1}},
			job.Spec{Role: "prod", Gang: true, Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Same: true}}}, 0, 2, 0,
			"A100 V100"},
	} {
		t.Run(name, func(t *testing.T) {
			u := lendingTracker()
			for role, types := range c.held {
				u.AddUsage(role, types, nil, 1)
			}
			got, n := u.RestrictToDeserved(&c.spec, c.level, c.n)
			types := ""
			for _, name := range []string{"A100", "V100"} {
				if got.Types.MayMatch(name) {
					types += " " + name
				}
			}
			if n != c.want || n > 0 && types != " "+c.types {
				t.Errorf("%d tasks of%s, want %d of %s", n, types, c.want, c.types)
			}
			if again, m := u.RestrictToDeserved(&c.spec, c.level, c.n); m != n || again.Types.String() != got.Types.String() {
				t.Errorf("%d tasks the second time", m)
			}
		})
	}
}

// TestCanReclaim: who may take a GPU from whom.
func TestCanReclaim(t *testing.T) {
	one := map[string]int{"A100": 1}
	for name, c := range map[string]struct {
		held             map[string]int // A100
		ending           string
		claimant, lender string
		inside, spares   bool
	}{
		"from a role that deserves nothing":           {map[string]int{"guests": 1}, "", "lab/x", "guests", true, true},
		"from itself":                                 {map[string]int{"lab/x": 1}, "", "lab/x", "lab/x", false, false},
		"by a role that deserves nothing":             {map[string]int{"lab/x": 9}, "", "guests", "lab/x", false, true},
		"from a role that would be below":             {map[string]int{"prod": 1}, "", "lab/x", "prod", true, false},
		"from a role with one entry to spare":         {map[string]int{"prod": 2}, "", "lab/x", "prod", true, false},
		"from a role with all entries to spare":       {map[string]int{"prod": 4}, "", "lab/x", "prod", true, true},
		"whose tasks end already":                     {map[string]int{"prod": 4}, "prod", "lab/x", "prod", true, false},
		"from a sibling above what it deserves":       {map[string]int{"lab/y": 6}, "", "lab/x", "lab/y", true, true},
		"from a sibling that is not":                  {map[string]int{"lab/y": 3}, "", "lab/x", "lab/y", true, false},
		"by a role whose parent holds all":            {map[string]int{"lab/y": 6, "guests": 1}, "", "lab/x", "guests", false, true},
		"by a role beyond its own part of its parent": {map[string]int{"lab/x": 3, "guests": 1}, "", "lab/x", "guests", true, true},
		"beyond its own part from a sibling":          {map[string]int{"lab/x": 2, "lab/y": 4}, "", "lab/x", "lab/y", false, true},
		"by an outsider from a child":                 {map[string]int{"lab/y": 6}, "", "prod", "lab/y", true, false},
		"by an outsider from a child of a full one":   {map[string]int{"lab/y": 7}, "", "prod", "lab/y", true, true},
		"between roles of one remainder":              {map[string]int{"lab": 2}, "", "lab/z", "lab", false, true},
		"a child from its parent's own tasks":         {map[string]int{"lab": 2}, "", "lab/x", "lab", true, true},
		"a child from its parent's own part":          {map[string]int{"lab": 1}, "", "lab/x", "lab", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			u := lendingTracker()
			for role, n := range c.held {
				u.AddUsage(role, map[string]int{"A100": n}, nil, 1)
			}
			if c.ending != "" {
				u.AddEnding(&Holding{Role: c.ending, Types: one}, 1)
			}
			u.AddClaim(&job.Spec{Role: c.claimant}, &gpu.Request{GPUs: 1}, 1)
			if got := u.IsInsideDeserved(c.claimant, c.lender, one, nil); got != c.inside {
				t.Errorf("the claimant is inside what it deserves: %t, want %t", got, c.inside)
			}
			if got := u.CanReclaim(c.claimant, c.lender, one, nil, true); got != c.spares {
				t.Errorf("the lender can spare it: %t, want %t", got, c.spares)
			}
		})
	}
}

// TestReclaimOfLargerTasks: a task that is larger than what its role borrows may be taken only if its role need not keep
// what it deserves, and none from a role that borrows nothing.
func TestReclaimOfLargerTasks(t *testing.T) {
	two := map[string]int{"A100": 2}
	for _, c := range []struct {
		held         int // by lab/y, which deserves 3
		keeps, spare bool
	}{{3, true, false}, {3, false, false}, {4, true, false}, {4, false, true}, {5, true, true}} {
		u := lendingTracker()
		u.AddUsage("lab/y", map[string]int{"A100": c.held}, nil, 1)
		if got := u.CanReclaim("lab/x", "lab/y", two, nil, c.keeps); got != c.spare {
			t.Errorf("two of %d, keeping what is deserved %t: %t", c.held, c.keeps, got)
		}
	}
}

// TestClaimsUseUpWhatIsDeserved: a claim counts in the entries of the types that it accepts, up to all of them.
func TestClaimsUseUpWhatIsDeserved(t *testing.T) {
	v100 := gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: []string{"V100"}}}
	u := lendingTracker()
	u.AddClaim(&job.Spec{Role: "prod"}, &v100, 3)
	if _, n := u.RestrictToDeserved(&job.Spec{Role: "prod", Request: gpu.Request{GPUs: 1}}, 0, 9); n != 1 {
		t.Errorf("%d more tasks are inside, want 1 for the A100", n)
	}
	if !u.IsInsideDeserved("prod", "guests", map[string]int{"V100": 1}, nil) {
		t.Error("as much as is deserved is not inside")
	}
	if u.AddClaim(&job.Spec{Role: "prod"}, &v100, 1); u.IsInsideDeserved("prod", "guests", map[string]int{"V100": 1}, nil) {
		t.Error("more than is deserved is inside")
	}
	unknown := NewTracker([]RoleEntitlement{{Role: "lab", Deserved: Quota{AllTypes: 2}}}, nil)
	for _, guaranteed := range []bool{false, true} {
		if _, n := unknown.RestrictToDeserved(&job.Spec{Role: "lab", Guaranteed: guaranteed, Request: gpu.Request{GPUs: 1}}, 0, 9); n != 2 {
			t.Errorf("agents report no types, guaranteed %t: %d tasks are inside, want 2", guaranteed, n)
		}
	}
}
