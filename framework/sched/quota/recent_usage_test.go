package quota

import (
	"slices"
	"testing"
)

// Roles are compared by their recent usage beyond what they deserve, and by a small part of what they hold beyond it now.
func TestRecentUsageOfRoles(t *testing.T) {
	recent := &RecentUsage{Average: map[User]float64{
		{"lab", "ann"}: 4000, {"lab", "ben"}: 2000, {"lab/x", "ann"}: 500, {"guests", ""}: 1000, {"typed", "ann"}: 6000,
	}}
	if got := recent.OfRole("lab"); got != 6000 {
		t.Errorf("the role's own tasks have used %g, want 6000", got)
	}
	tracker := NewTracker([]RoleEntitlement{
		{Role: "lab", Weight: 2, Deserved: Quota{AllTypes: 2}}, {Role: "typed", Deserved: Quota{"T4": 2, "V100": 3}}, {Role: "idle", Deserved: Quota{AllTypes: 1}},
	}, nil)
	tracker.SetRecentUsage(recent)
	if tracker.RecentUsage() != recent {
		t.Error("another recent usage is returned")
	}
	for role, held := range map[string]int{"lab": 3, "guests": 2, "typed": 6} {
		tracker.AddUsage(role, map[string]int{"V100": held}, nil, 1)
	}
	for role, want := range map[string]float64{
		"lab":    (6000 - 2000 + 1000.0/32) / 2,
		"lab/x":  0, // within what the role above deserves
		"guests": 1000 + 2000.0/32,
		"typed":  6000 - 5000 + 1000.0/32,
		"idle":   0,
	} {
		if got := tracker.WeightedShare(role); got != want {
			t.Errorf("share of %s is %g, want %g", role, got, want)
		}
	}
	tracker.SetRecentUsage(nil)
	if got := tracker.WeightedShare("guests"); got != 2000 {
		t.Errorf("without recent usage the share is %g, want 2000", got)
	}
	plain := NewTracker(nil, nil)
	plain.SetRecentUsage(recent)
	if got := plain.WeightedShare("lab"); got != 6000 {
		t.Errorf("where no role deserves GPUs the share is %g, want 6000", got)
	}
}

// Users are ordered by role, then by name.
func TestUsersAreOrdered(t *testing.T) {
	want := []User{{"a", "z"}, {"b", ""}, {"b", "x"}, {"b", "y"}}
	got := []User{want[3], want[0], want[2], want[1]}
	if slices.SortFunc(got, User.Compare); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
