package quota

import (
	"testing"

	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// hostJob returns a job whose tasks use CPUs and GiB of memory.
func hostJob(role string, gpus int, cpus, gib float64) *job.Spec {
	return &job.Spec{Role: role, Tasks: 1, Request: gpu.Request{GPUs: gpus}, CPUs: cpus, MemMiB: gib * 1024}
}

// TestTasksAreInsideDeservedHostResources: a task is a claim if all that its role deserves has room for it. CPUs and memory
// that the role does not list are not compared.
func TestTasksAreInsideDeservedHostResources(t *testing.T) {
	roles := []RoleEntitlement{
		{Role: "both", Deserved: Quota{"*": 2}, DeservedHost: HostQuota{CPUs: 8, Memory: 16 * 1024}},
		{Role: "cpus", DeservedHost: HostQuota{CPUs: 8}},
		{Role: "gpus", Deserved: Quota{"*": 2}},
		{Role: "none"},
		{Role: "both/child", DeservedHost: HostQuota{CPUs: 2}},
	}
	for _, c := range []struct {
		name        string
		spec        *job.Spec
		level, want int
	}{
		{"CPUs limit", hostJob("both", 0, 2, 1), 0, 3}, // the child deserves two of the eight
		{"memory limits", hostJob("both", 0, 1, 8), 0, 2},
		{"memory is not listed", hostJob("cpus", 0, 2, 500), 0, 4},
		{"GPUs are also limited", hostJob("both", 1, 1, 1), 0, 2},
		{"CPUs limit a task with GPUs", hostJob("both", 1, 6, 1), 0, 1},
		{"a task with GPUs needs no deserved CPUs", hostJob("gpus", 1, 500, 500), 0, 2},
		{"tasks without GPUs claim no GPUs", hostJob("gpus", 0, 1, 1), 0, 0},
		{"a role that deserves nothing claims nothing", hostJob("none", 0, 1, 1), 0, 0},
		{"of its own", hostJob("both/child", 0, 1, 1), 0, 2},
		{"of the role above", hostJob("both/child", 0, 1, 1), 1, 8},
	} {
		u := NewTracker(roles, nil)
		if _, got := u.RestrictToDeserved(c.spec, c.level, 100); got != c.want {
			t.Errorf("%s: %d tasks are inside, want %d", c.name, got, c.want)
		}
		c.spec.Gang = true
		if _, got := NewTracker(roles, nil).RestrictToDeserved(c.spec, c.level, c.want+1); got != 0 {
			t.Errorf("%s: %d tasks of a gang are inside, want none", c.name, got)
		}
	}
}

// TestGuaranteedTasksAreInsideDeservedHostResources: guaranteed tasks run only inside what their role deserves, if any role
// deserves CPUs or memory.
func TestGuaranteedTasksAreInsideDeservedHostResources(t *testing.T) {
	roles := []RoleEntitlement{{Role: "lab", DeservedHost: HostQuota{CPUs: 8}}, {Role: "none"}}
	spec := hostJob("lab", 0, 2, 1)
	spec.Guaranteed = true
	u := NewTracker(roles, nil)
	u.AddGuaranteed(spec, 3, nil, nil)
	if _, got := u.RestrictGuaranteed(spec, 5); got != 1 {
		t.Errorf("%d guaranteed tasks may run beside three, want 1", got)
	}
	want := LimitExplanation{Needs: "2 CPUs more of what role lab deserves", Available: "role lab deserves 8 CPUs and its guaranteed tasks hold 6"}
	if got := u.ExplainGuaranteed(spec, 5); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	other := hostJob("none", 0, 1, 1)
	other.Guaranteed = true
	if _, got := u.RestrictGuaranteed(other, 5); got != 0 {
		t.Errorf("%d guaranteed tasks of a role that deserves nothing may run, want none", got)
	}
	other.Request.GPUs = 1
	if _, got := u.RestrictGuaranteed(other, 5); got != 5 {
		t.Errorf("%d guaranteed tasks with GPUs may run where no role deserves GPUs, want all", got)
	}
	if _, got := NewTracker(nil, nil).RestrictGuaranteed(hostJob("lab", 0, 1, 1), 5); got != 5 {
		t.Errorf("%d tasks may run where no role deserves anything, want all", got)
	}
}

// TestWhichTasksEndForHostResources: a task ends for others if its role holds more than it deserves of its kind.
func TestWhichTasksEndForHostResources(t *testing.T) {
	claimant := RoleEntitlement{Role: "prod", Deserved: Quota{"*": 4}, DeservedHost: HostQuota{CPUs: 16, Memory: 64 * 1024}}
	for _, c := range []struct {
		name             string
		lender           RoleEntitlement
		holds            *job.Spec
		tasks            int
		host, gpus, keep bool // whether a task may end for a claim without and with GPUs, and with keepsDeserved without
	}{
		{"it deserves nothing", RoleEntitlement{}, hostJob("lab", 0, 2, 1), 1, true, true, true},
		{"it holds what it deserves", RoleEntitlement{DeservedHost: HostQuota{CPUs: 4}}, hostJob("lab", 0, 2, 1), 2, false, false, false},
		{"it holds more", RoleEntitlement{DeservedHost: HostQuota{CPUs: 4}}, hostJob("lab", 0, 2, 1), 3, true, true, true},
		{"it borrows a part of the task", RoleEntitlement{DeservedHost: HostQuota{CPUs: 3}}, hostJob("lab", 0, 2, 1), 2, true, true, false},
		{"it holds more of one resource", RoleEntitlement{DeservedHost: HostQuota{CPUs: 99, Memory: 4096}}, hostJob("lab", 0, 2, 4), 2, true, true, false},
		{"GPUs that it deserves", RoleEntitlement{Deserved: Quota{"*": 4}}, hostJob("lab", 1, 2, 1), 4, false, false, false},
		{"GPUs that it borrows", RoleEntitlement{Deserved: Quota{"*": 3}}, hostJob("lab", 1, 2, 1), 4, true, true, true},
		{"borrowed GPUs on CPUs that it deserves", RoleEntitlement{Deserved: Quota{"*": 3}, DeservedHost: HostQuota{CPUs: 99}}, hostJob("lab", 1, 2, 1), 4, false, true, false},
	} {
		c.lender.Role = "lab"
		u := NewTracker([]RoleEntitlement{claimant, c.lender}, nil)
		u.AddHostUsage(c.holds, c.tasks)
		if c.holds.Request.GPUs > 0 {
			u.AddUsage("lab", map[string]int{"V100": c.tasks}, nil, 1)
		}
		h := &Holding{Role: "lab", HoldsGPUs: c.holds.Request.GPUs > 0, Amount: AmountOf(c.holds)}
		if h.HoldsGPUs {
			h.Types = map[string]int{"V100": 1}
		}
		claim := hostJob("prod", 0, 1, 4)
		u.AddClaim(claim, &claim.Request, 1)
		if got := u.MayTake("prod", false, h, false); got != c.host {
			t.Errorf("%s: ends for a claim without GPUs: %t, want %t", c.name, got, c.host)
		}
		if got := u.MayTake("prod", true, h, false); got != c.gpus {
			t.Errorf("%s: ends for a claim with GPUs: %t, want %t", c.name, got, c.gpus)
		}
		if got := u.MayTake("prod", false, h, true); got != c.keep {
			t.Errorf("%s: ends and its role keeps what it deserves: %t, want %t", c.name, got, c.keep)
		}
		if u.MayTake("lab", false, h, false) {
			t.Errorf("%s: ends for its own role", c.name)
		}
		u.AddClaim(claim, &claim.Request, 16)
		if u.MayTake("prod", false, h, false) {
			t.Errorf("%s: ends for a claim beyond what its role deserves", c.name)
		}
	}
}

// TestReasonsNameHostResources: the note on a waiting job names what its role deserves of what the job needs.
func TestReasonsNameHostResources(t *testing.T) {
	u := NewTracker([]RoleEntitlement{
		{Role: "lab", Deserved: Quota{"*": 4}, DeservedHost: HostQuota{CPUs: 32, Memory: 65536}},
		{Role: "none"},
	}, nil)
	u.AddHostUsage(hostJob("lab", 0, 4, 2.5), 8)
	u.AddHostUsage(hostJob("none", 0, 1, 0.5), 1)
	for _, c := range []struct {
		spec *job.Spec
		want string
	}{
		{hostJob("lab", 0, 1, 1), "; role lab deserves 32 CPUs and holds 32, 64 GiB of memory and holds 20 GiB"},
		{hostJob("lab", 1, 1, 1), "; role lab deserves 4 GPUs and holds 0, borrows 0; role lab deserves 32 CPUs and holds 32"},
		{hostJob("lab", 1, 0, 1), "; role lab deserves 4 GPUs and holds 0, borrows 0"},
		{hostJob("none", 0, 1, 1), "; role none deserves no CPUs and no memory"},
		{hostJob("none", 1, 1, 1), "; role none deserves none and borrows 0"},
	} {
		if got := u.ShareNote(c.spec); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if got, want := u.BorrowedHost("none"), "1 CPU and 512 MiB of memory"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestDeservedHostResourcesOfTreesAreChecked: roles below another one deserve no more together than it does.
func TestDeservedHostResourcesOfTreesAreChecked(t *testing.T) {
	roles := []RoleEntitlement{
		{Role: "lab", DeservedHost: HostQuota{CPUs: 8}},
		{Role: "lab/x", DeservedHost: HostQuota{CPUs: 6}},
		{Role: "lab/y", DeservedHost: HostQuota{CPUs: 3, Memory: 1024}},
	}
	want := "role \"lab\" deserves 8 CPUs, the roles below it (lab/x, lab/y) deserve 9 CPUs together\n" +
		"role \"lab\" deserves 0 GiB of memory, the roles below it (lab/x, lab/y) deserve 1 GiB of memory together"
	if err := ValidateDeserved(roles); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	roles[0].DeservedHost = HostQuota{CPUs: 9, Memory: 1024}
	if err := ValidateDeserved(roles); err != nil {
		t.Error(err)
	}
}
