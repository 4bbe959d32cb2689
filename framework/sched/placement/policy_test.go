package placement

import (
	"strings"
	"testing"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

func TestPolicyDefaults(t *testing.T) {
	var p Policy
	p.SetDefaults()
	if p.Fit.Name != "headroom" || p.Overhead != (fit.Amount{CPUs: 0.1, MemMiB: 32}) {
		t.Errorf("defaults are %+v", p)
	}
	set := Policy{Fit: fit.PlacementPolicy{Name: "spread"}, Overhead: fit.Amount{CPUs: 1}}
	set.SetDefaults()
	if set.Fit.Name != "spread" || set.Overhead != (fit.Amount{CPUs: 1}) {
		t.Errorf("set values became %+v", set)
	}
}

// The first role is the default one.
func TestDefaultRole(t *testing.T) {
	if got := (&Policy{}).DefaultRole(); got != "" {
		t.Errorf("without roles: %q", got)
	}
	if got := (&Policy{Roles: []queue.Role{{Name: "a"}, {Name: "b"}}}).DefaultRole(); got != "a" {
		t.Errorf("got %q, want a", got)
	}
}

// Mistakes in the policy of all roles and in the table of roles are reported together.
func TestValidatePolicy(t *testing.T) {
	if err := (&Policy{}).Validate(); err != nil {
		t.Error(err)
	}
	err := (&Policy{Fit: fit.PlacementPolicy{Name: "best"}, Roles: []queue.Role{{Name: "a"}, {Name: "a"}}}).Validate()
	for _, want := range []string{`policy "best" is not one of`, `role "a" appears twice`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A reason states how many tasks wait, unless all of them do.
func TestPendingReasonText(t *testing.T) {
	for missing, want := range map[int]string{
		3: "train: a GPU; none is free",
		2: "train: a GPU; none is free; 2 of 3 tasks wait",
		1: "train: a GPU; none is free; 1 of 3 tasks waits",
	} {
		r := PendingReason{Run: job.RunID{Name: "train"}, Missing: missing, Tasks: 3, PendingCause: PendingCause{Needs: "a GPU", Available: "none is free"}}
		if r.String() != want {
			t.Errorf("got %q, want %q", r, want)
		}
	}
}
