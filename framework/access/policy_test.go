package access

import (
	"testing"

	"mesos-gpu/framework/sched/admission"
)

// testPolicy grants research to ml, its vision to vi, all roles to root, and View on web to
// every authenticated user.
func testPolicy() *AccessPolicy {
	return &AccessPolicy{Rules: []PermissionRule{
		{Permission: Submit, Roles: []string{"research"}, Groups: []string{"ml"}},
		{Permission: Operate, Roles: []string{"research/vision"}, Users: []string{"vi"}},
		{Permission: Admin, Roles: []string{admission.AllRoles}, Users: []string{"root"}},
		{Permission: View, Roles: []string{"web"}, Groups: []string{AnyUser}},
	}}
}

func TestPermissionsByRole(t *testing.T) {
	ml, vi, root := Identity{Name: "m", Groups: []string{"x", "ml"}}, Identity{Name: "vi"}, Identity{Name: "root"}
	for _, c := range []struct {
		who  Identity
		may  Permission
		role string
		want bool
	}{
		{ml, View, "research", true},
		{ml, Submit, "research", true},
		{ml, Submit, "research/vision", true},
		{ml, Operate, "research", false},
		{ml, View, "researchers", false},
		{ml, View, "*", false},
		{ml, View, admission.AllRoles, false},
		{ml, View, "web", true},
		{ml, Submit, "web", false},
		{vi, Operate, "research/vision", true},
		{vi, Operate, "research/vision/x", true},
		{vi, View, "research", false},
		{vi, Admin, "research/vision", false},
		{root, Admin, "*", true},
		{root, Admin, "any/thing", true},
		{root, Admin, admission.AllRoles, true},
		{Identity{Name: "ml"}, View, "research", false},
		{Identity{Name: "x", Groups: []string{"vi", "root"}}, View, "research", false},
		{Identity{Groups: []string{"ml"}}, View, "research", false},
		{Identity{}, View, "web", false},
	} {
		if got := testPolicy().GrantFor(c.who).HasPermission(c.may, c.role); got != c.want {
			t.Errorf("%+v may %s on %s: %t, want %t", c.who, c.may, c.role, got, c.want)
		}
	}
}

func TestPermissionsAcrossRoles(t *testing.T) {
	p := testPolicy()
	anonymous, vi, root := p.GrantFor(Identity{}), p.GrantFor(Identity{Name: "vi"}), p.GrantFor(Identity{Name: "root"})
	if anonymous.IsKnown() || anonymous.HasPermissionOnAnyRole(View) || anonymous.CanReadMetrics() || anonymous.UserName() != "" {
		t.Error("an unknown user has a permission")
	}
	if !vi.HasPermissionOnAnyRole(Operate) || vi.HasPermissionOnAnyRole(Admin) || vi.HasPermissionOnAllRoles(View) || !vi.CanReadMetrics() {
		t.Error("vi may the wrong things")
	}
	if !root.HasPermissionOnAllRoles(Admin) {
		t.Error("root may not do all")
	}
	var open *Grant
	if !open.IsKnown() || !open.HasPermission(Admin, "x") || !open.HasPermissionOnAnyRole(Admin) ||
		!open.HasPermissionOnAllRoles(Admin) || !open.CanChangeJob("x", "y") || !open.CanReadMetrics() || open.UserName() != "" {
		t.Error("without bounds there are some")
	}
	p.OpenMetrics = true
	if !p.GrantFor(Identity{}).CanReadMetrics() {
		t.Error("open metrics are closed")
	}
}

func TestOwnersCanChangeTheirJobs(t *testing.T) {
	g := testPolicy().GrantFor(Identity{Name: "m", Groups: []string{"ml"}})
	for _, c := range []struct {
		role, owner string
		want        bool
	}{
		{"research", "m", true}, {"research/x", "m", true}, {"research", "n", false}, {"research", "", false}, {"web", "m", false},
	} {
		if got := g.CanChangeJob(c.role, c.owner); got != c.want {
			t.Errorf("change a job of %s in %s: %t", c.owner, c.role, got)
		}
	}
	if testPolicy().GrantFor(Identity{}).CanChangeJob("research", "") {
		t.Error("an empty user name owns an object without an owner")
	}
	if !testPolicy().GrantFor(Identity{Name: "vi"}).CanChangeJob("research/vision", "m") {
		t.Error("an operator may not change others' jobs")
	}
}

func TestPermissionNames(t *testing.T) {
	for _, p := range []Permission{View, Submit, Operate, Admin} {
		if got, err := ParsePermission(p.String()); got != p || err != nil {
			t.Errorf("%s: %v, %v", p, got, err)
		}
	}
	for _, text := range []string{"", "none", "root", "View"} {
		if _, err := ParsePermission(text); err == nil {
			t.Errorf("%q is a permission", text)
		}
	}
	if got := Permission(9).String(); got != "permission 9" {
		t.Error(got)
	}
}
