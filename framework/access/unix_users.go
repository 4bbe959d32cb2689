package access

import (
	"fmt"
	"regexp"

	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/job"
)

// UnixUsersPolicy returns the policy without an access file where the kernel identifies
// users: each may submit jobs to all roles, see the jobs of others and read the output of
// its own. Jobs may use host on the machine besides their own containers.
func UnixUsersPolicy(host admission.HostPermissions) *AccessPolicy {
	host.AllowList = &admission.SpecAllowList{
		// Users are checked by CanRunAs, which permits operators more than others.
		Users: []string{AnyUser}, NoImage: true, ProcessNetwork: true, Images: []string{"*"}, RoleVolumes: true, FetchHosts: job.FetchHosts{"*"},
	}
	return &AccessPolicy{
		Rules:         []PermissionRule{{Permission: Submit, Roles: []string{admission.AllRoles}, Groups: []string{AnyUser}}},
		JobLimits:     []admission.RolePermissions{{Role: admission.AllRoles, Permissions: host}},
		PrivateOutput: true,
	}
}

// AddOperators gives root and the members of a group of the machine all permissions on
// all roles. An empty group means only root.
func (p *AccessPolicy) AddOperators(group string) {
	r := PermissionRule{Permission: Admin, Roles: []string{admission.AllRoles}, Users: []string{job.UnixUserPrefix + "root"}}
	if group != "" {
		r.Groups = []string{job.UnixUserPrefix + group}
	}
	p.Rules = append(p.Rules, r)
}

// unixUserName matches names of users of agents. A number does not match: agents look up names.
var unixUserName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)

// CheckUnixUser returns an error for a name that identities of an access file cannot have on the agents. Jobs of others run as root
// only by the permission users.
func CheckUnixUser(name string) error {
	if name == "root" || !unixUserName.MatchString(name) {
		return fmt.Errorf("unix user %q: use the name of an account of the agents other than root", name)
	}
	return nil
}

// CanRunAs reports whether processes of the requester's jobs may run as a user of the
// machine. Unix users run theirs as themselves, unless they have Admin on all roles. For
// others the limits of the job's role decide.
func (g *Grant) CanRunAs(user string) bool {
	own := job.UnixUser(g.UserName())
	return own == "" || user == own || g.HasPermissionOnAllRoles(Admin)
}

// HasPrivateOutput reports whether the requester may read the output of a job only with
// the permission to change the job.
func (g *Grant) HasPrivateOutput() bool { return g != nil && g.privateOutput }

// CanReadOutput reports whether the requester may read the output, the files and the whole specification of a job of this role
// and owner.
func (g *Grant) CanReadOutput(role, owner string) bool {
	if g.HasPrivateOutput() {
		return g.CanChangeJob(role, owner)
	}
	return g.HasPermission(View, role)
}
