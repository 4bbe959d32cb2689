package leader

import (
	"errors"
	"testing"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/job"
)

// TestDefaultRole checks the role of jobs that name none: the only one that their user may use, or the one of the user or of
// a group, or the first one.
func TestDefaultRole(t *testing.T) {
	st := sched.New(sched.SchedulerSettings{Policy: sched.Policy{Policy: placement.Policy{Roles: []queue.Role{
		{Name: "vision"},
		{Name: "speech", DefaultFor: queue.Members{Users: []string{"ada"}}},
		{Name: "speech/asr", DefaultFor: queue.Members{Groups: []string{"asr", "speech"}}},
		{Name: "school", DefaultFor: queue.Members{Groups: []string{access.AnyUser}}},
	}}}}, sched.RecoveredState{})
	policy := access.AccessPolicy{Rules: []access.PermissionRule{
		{Permission: access.Submit, Roles: []string{"school"}, Users: []string{"one"}},
		{Permission: access.View, Roles: []string{admission.AllRoles}, Users: []string{"one", "tree"}},
		{Permission: access.Operate, Roles: []string{"speech"}, Users: []string{"tree"}},
		{Permission: access.Submit, Roles: []string{admission.AllRoles}, Users: []string{"ada", "bob", "eve"}},
	}}
	for _, c := range []struct {
		who  access.Identity
		want string
	}{
		{access.Identity{Name: "one"}, "school"},
		{access.Identity{Name: "tree"}, "speech"}, // and not its subrole
		{access.Identity{Name: "ada", Groups: []string{"asr"}}, "speech"},
		{access.Identity{Name: "bob", Groups: []string{"asr"}}, "speech/asr"},
		{access.Identity{Name: "eve"}, "school"},
	} {
		if got := defaultRole(st, policy.GrantFor(c.who)); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.who, got, c.want)
		}
	}
	if got := defaultRole(st, nil); got != "vision" {
		t.Errorf("without an access file: %s", got)
	}
}

// TestRefusedRoleNamesOthers checks that the error for a role has the roles that the user may use.
func TestRefusedRoleNamesOthers(t *testing.T) {
	st := sched.New(sched.SchedulerSettings{Policy: sched.Policy{Policy: placement.Policy{Roles: []queue.Role{
		{Name: "vision"}, {Name: "speech"}, {Name: "school"},
	}}}}, sched.RecoveredState{})
	policy := access.AccessPolicy{Rules: []access.PermissionRule{
		{Permission: access.Submit, Roles: []string{"speech", "school"}, Users: []string{"bob"}},
		{Permission: access.View, Roles: []string{"school"}, Users: []string{"eve"}},
	}}
	for user, want := range map[string]string{
		"bob": "bob may not do this: it needs the permission submit on role vision; it may submit to speech, school: name one by role or --role",
		"eve": "eve may not do this: it needs the permission submit on role vision",
	} {
		spec := &job.Spec{Name: "a", Role: "vision"}
		err := (*Leader)(nil).checkRolePermission(t.Context(), st, &submission{spec: spec, by: policy.GrantFor(access.Identity{Name: user})})
		if p := (*api.Problem)(nil); !errors.As(err, &p) || p.Detail != want {
			t.Errorf("%s: got %v", user, err)
		}
	}
}
