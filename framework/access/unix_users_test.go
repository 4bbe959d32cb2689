package access

import (
	"testing"

	"mesos-gpu/framework/sched/admission"
)

func TestUnixUsersPolicy(t *testing.T) {
	p := UnixUsersPolicy(admission.HostPermissions{Volumes: []string{"/data"}})
	p.AddOperators("ops")
	alice, token := p.GrantFor(Identity{Name: "unix:alice", Groups: []string{"unix:users"}}), p.GrantFor(Identity{Name: "root", Groups: []string{"ops"}})
	for name, g := range map[string]*Grant{
		"root":   p.GrantFor(Identity{Name: "unix:root"}),
		"member": p.GrantFor(Identity{Name: "unix:bob", Groups: []string{"unix:x", "unix:ops"}}),
	} {
		if !g.HasPermissionOnAllRoles(Admin) || !g.CanRunAs("alice") || !g.CanRunAs("") {
			t.Errorf("%s lacks a permission of operators", name)
		}
	}
	if !alice.HasPermissionOnAllRoles(Submit) || alice.HasPermissionOnAnyRole(Operate) || !alice.CanChangeJob("*", "unix:alice") ||
		alice.CanChangeJob("*", "alice") || !alice.HasPrivateOutput() {
		t.Error("a user must submit and change its own jobs, and no others")
	}
	for user, want := range map[string]bool{"alice": true, "root": false, "": false, "0": false} {
		if alice.CanRunAs(user) != want {
			t.Errorf("alice may run as %q: %t, want %t", user, !want, want)
		}
	}
	if token.HasPermissionOnAnyRole(Operate) {
		t.Error("a token has the permissions of a user or a group of the machine")
	}
	if p := p.JobLimits[0].Permissions; p.Volumes[0] != "/data" || p.AllowList == nil {
		t.Errorf("limits of jobs: %+v", p)
	}
	if anyone := (*Grant)(nil); !anyone.CanRunAs("root") || anyone.HasPrivateOutput() {
		t.Error("without access control everything is permitted")
	}
}

// If no group of operators is configured, only root is an operator. A user without groups is not taken for a member.
func TestEmptyOperatorsGroupHasNoMembers(t *testing.T) {
	p := UnixUsersPolicy(admission.HostPermissions{})
	p.AddOperators("")
	if p.GrantFor(Identity{Name: "unix:alice", Groups: []string{"unix:"}}).HasPermissionOnAnyRole(Operate) {
		t.Error("a user is an operator")
	}
}

// An access file may name users and groups of the machine, and close the output of jobs.
func TestAccessFileNamesUnixUsers(t *testing.T) {
	p, err := ParsePolicy([]byte(`permissions: [{may: operate, roles: [/], users: ["unix:alice"], groups: ["unix:ops"]}]
output: private
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []Identity{{Name: "unix:alice"}, {Name: "unix:bob", Groups: []string{"unix:ops"}}} {
		if g := p.GrantFor(who); !g.HasPermission(Operate, "*") || g.CanRunAs("root") || !g.HasPrivateOutput() {
			t.Errorf("%+v: %+v", who, g)
		}
	}
	if !p.CanSubmit("unix:alice", "*") || !p.CanSubmit("unix:carol", "*") { // carol may be in the group
		t.Error("the schedule of a unix user does not run")
	}
	if p.CanSubmit("alice", "*") || p.CanSubmit("oidc:alice", "*") {
		t.Error("the schedule of another owner runs")
	}
}
