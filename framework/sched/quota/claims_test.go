package quota

import (
	"testing"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// gpuJob returns a job of a role whose tasks use one GPU, of the types if some are given.
func gpuJob(role string, types ...string) *job.Spec {
	return &job.Spec{Role: role, Request: gpu.Request{GPUs: 1, Types: gpu.TypeSelector{Include: types}}}
}

// TestRoleBeyondDeserved: the lowest role above a claim that would hold more than it deserves with it. Tasks that are about to end
// do not count.
func TestRoleBeyondDeserved(t *testing.T) {
	for name, c := range map[string]struct {
		spec                 *job.Spec
		level, tasks, ending int
		want                 string
	}{
		"the role above has room":          {gpuJob("lab/x"), 0, 1, 0, ""},
		"it has none":                      {gpuJob("lab/x"), 0, 2, 0, "lab"},
		"a task in it ends":                {gpuJob("lab/x"), 0, 2, 1, ""},
		"too few tasks in it end":          {gpuJob("lab/x"), 0, 3, 1, "lab"},
		"the claim is of the role above":   {gpuJob("lab/x"), 1, 2, 0, ""},
		"no role above deserves GPUs":      {gpuJob("prod"), 0, 9, 0, ""},
		"the role deserves nothing":        {gpuJob("guests"), 0, 1, 0, ""},
		"a claim without GPUs is no claim": {&job.Spec{Role: "lab/x"}, 0, 9, 0, ""},
	} {
		u := lendingTracker()
		u.AddUsage("lab/y", map[string]int{"A100": 5}, nil, 1)
		u.AddEnding(&Holding{Role: "lab/y", HoldsGPUs: true, Types: map[string]int{"A100": c.ending}}, 1)
		u.AddClaim(c.spec, &c.spec.Request, c.tasks)
		if got := u.RoleBeyondDeserved(c.spec, &c.spec.Request, c.level); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// TestTasksAllowedByClaims: while a claim of two tasks of lab/x waits, tasks start inside what the roles above both deserve. Roles that
// hold more with the claim are not compared: the claim does not depend on them.
func TestTasksAllowedByClaims(t *testing.T) {
	gang := gpuJob("lab/y")
	gang.Gang = true
	for name, c := range map[string]struct {
		spec       *job.Spec
		held, want int // of lab/y
	}{
		"of the role":                       {gpuJob("lab/x"), 0, 0},
		"of the role, of other GPUs":        {gpuJob("lab/x", "V100"), 0, 9},
		"of a sibling":                      {gpuJob("lab/y"), 0, 4},
		"of a sibling with tasks":           {gpuJob("lab/y"), 3, 1},
		"of a sibling without room":         {gpuJob("lab/y"), 4, 0},
		"the role above holds more already": {gpuJob("lab/y"), 5, 9},
		"all tasks of a gang or none":       {gang, 0, 0},
		"of another role":                   {gpuJob("prod"), 0, 9},
		"without GPUs":                      {&job.Spec{Role: "lab/x"}, 0, 9},
	} {
		u := lendingTracker()
		u.AddUsage("lab/y", map[string]int{"A100": c.held}, nil, 1)
		if got := u.TasksAllowedByClaims(c.spec, "lab/x", 9); got != 9 {
			t.Errorf("%s: %d tasks start without a claim, want 9", name, got)
		}
		claim := gpuJob("lab/x")
		u.AddClaim(claim, &claim.Request, 2)
		if got := u.TasksAllowedByClaims(c.spec, "lab/x", 9); got != c.want {
			t.Errorf("%s: %d tasks start, want %d", name, got, c.want)
		}
	}
	u := NewTracker([]RoleEntitlement{{Role: "lab", DeservedHost: HostQuota{CPUs: 8}}}, nil)
	claim := hostJob("lab", 0, 5, 1)
	u.AddClaim(claim, &claim.Request, 1)
	if got := u.TasksAllowedByClaims(hostJob("lab", 1, 1, 1), "lab", 9); got != 3 {
		t.Errorf("%d tasks start on the CPUs that a claim leaves, want 3", got)
	}
}
