package access

import (
	"fmt"
	"slices"

	"mesos-gpu/framework/sched/admission"
)

// AccessPolicy is the content of an access file.
type AccessPolicy struct {
	// Tokens are the tokens that the file defines.
	Tokens []TokenEntry
	// OIDC is nil if no issuer is trusted.
	OIDC *OIDCConfig
	// Rules grant permissions. A user has no others.
	Rules []PermissionRule
	// JobLimits restricts what jobs may use, by role.
	JobLimits []admission.RolePermissions
	// OpenMetrics permits reading /metrics without a token.
	OpenMetrics bool
	// RunAsOwner permits Tokens and OIDC to name unix users, as whom the tasks of their jobs run.
	RunAsOwner bool
	// PrivateOutput restricts reading the output, files and artifacts of a job to those who
	// may change the job.
	PrivateOutput bool
}

// PermissionRule grants users and groups a permission on roles and their descendants.
type PermissionRule struct {
	// Permission is the granted permission; higher ones include lower ones.
	Permission Permission
	// Roles are the roles on which it applies, each with the roles below it.
	Roles []string
	// Users and Groups get the permission. AnyUser stands for all users.
	Users, Groups []string
}

// OIDCConfig configures the trusted issuer and the claims that are read.
type OIDCConfig struct {
	// Issuer is its URL. It must be https, except on loopback for tests.
	Issuer string
	// Audience must be one of the audiences of a token.
	Audience string
	// NameClaim and GroupsClaim are the claims with the user's name and groups.
	NameClaim, GroupsClaim string
	// UnixUserClaim is the claim with the name of the user on the agents, who is then the user; "" for none.
	UnixUserClaim string
	// SignIn permits users to sign in on the web page with the client Audience. ClientSecretFile
	// has the client's secret; "" means a public client. Scopes are those to request.
	SignIn           bool
	ClientSecretFile string
	Scopes           []string
	// CAFile is a PEM file of certificates to trust for the issuer; "" means the
	// system's certificates.
	CAFile string
}

// Default claims. An issuer never assigns a subject to another user.
const (
	DefaultNameClaim   = "sub"
	DefaultGroupsClaim = "groups"
	// DefaultScopes are requested when a user signs in on the web page.
	DefaultScopes = "openid profile email"
)

// GrantFor returns the permissions of a user.
func (p *AccessPolicy) GrantFor(who Identity) *Grant {
	g := &Grant{userName: who.Name, groups: who.Groups, openMetrics: p.OpenMetrics, privateOutput: p.PrivateOutput}
	for _, r := range p.Rules {
		if who.Name != "" && r.appliesTo(who) {
			g.rules = append(g.rules, r)
		}
	}
	return g
}

func (r *PermissionRule) appliesTo(who Identity) bool {
	return slices.Contains(r.Users, who.Name) || slices.Contains(r.Groups, AnyUser) ||
		slices.ContainsFunc(r.Groups, func(g string) bool { return slices.Contains(who.Groups, g) })
}

// Grant is the permissions of one requester. A nil Grant permits everything, because no
// access file is configured.
type Grant struct {
	// userName is the user's name in the audit log and as the owner of jobs.
	userName string
	// groups are those of Identity.
	groups []string
	// rules lists the rules of the access file that name the user or a group of the user.
	rules []PermissionRule
	// openMetrics permits /metrics without any permission on a role.
	openMetrics bool
	// privateOutput is AccessPolicy.PrivateOutput.
	privateOutput bool
}

// UserName returns the requester's name, or "" for a request without a token or without
// a configured access file.
func (g *Grant) UserName() string {
	if g == nil {
		return ""
	}
	return g.userName
}

// IsKnown reports whether the requester is authenticated or no access file is configured.
func (g *Grant) IsKnown() bool { return g == nil || g.userName != "" }

// HasPermission reports whether the requester has the permission on the role.
func (g *Grant) HasPermission(p Permission, role string) bool {
	return g == nil || slices.ContainsFunc(g.rules, func(r PermissionRule) bool {
		return r.Permission >= p && slices.ContainsFunc(r.Roles, func(of string) bool { return admission.CoversRole(of, role) })
	})
}

// KnowsRole reports whether answers to the requester may name the role: one whose jobs the requester may see, or one above it.
func (g *Grant) KnowsRole(role string) bool {
	return g.HasPermission(View, role) || slices.ContainsFunc(g.rules, func(r PermissionRule) bool {
		return slices.ContainsFunc(r.Roles, func(of string) bool { return admission.CoversRole(role, of) })
	})
}

// HasPermissionOnAllRoles reports whether the requester has the permission on all roles,
// including future ones.
func (g *Grant) HasPermissionOnAllRoles(p Permission) bool {
	return g.HasPermission(p, admission.AllRoles)
}

// HasPermissionOnAnyRole reports whether the requester may have the permission on some
// role.
func (g *Grant) HasPermissionOnAnyRole(p Permission) bool {
	return g == nil || slices.ContainsFunc(g.rules, func(r PermissionRule) bool { return r.Permission >= p })
}

// CanChangeJob reports whether the requester may end, stop or scale a job of this role
// and owner.
func (g *Grant) CanChangeJob(role, owner string) bool {
	return g.HasPermission(Operate, role) || owner != "" && owner == g.UserName() && g.HasPermission(Submit, role)
}

// EachPermission calls f for each permission of the requester with its roles; AllRoles covers
// all roles.
func (g *Grant) EachPermission(f func(p Permission, roles []string)) {
	if g == nil {
		f(Admin, []string{admission.AllRoles})
		return
	}
	for _, r := range g.rules {
		f(r.Permission, slices.Clone(r.Roles))
	}
}

// VisibilityKey returns a text that is equal for requesters who may see the same of all jobs.
func (g *Grant) VisibilityKey() string {
	if g == nil {
		return ""
	}
	owner := "" // whose jobs the requester may change, and so read if output is private
	if g.privateOutput {
		owner = g.userName
	}
	return fmt.Sprintf("%q %q", owner, g.rules)
}

// GrantedRoles returns the roles that the access file names in rules with at least this permission for the requester, each
// once.
func (g *Grant) GrantedRoles(p Permission) (roles []string) {
	g.EachPermission(func(granted Permission, on []string) {
		if granted >= p {
			roles = append(roles, on...)
		}
	})
	slices.Sort(roles)
	return slices.Compact(roles)
}

// IsUser reports whether the requester is one of the users, and IsInGroup whether it is in one of the groups.
func (g *Grant) IsUser(users []string) bool {
	return g.UserName() != "" && slices.Contains(users, g.UserName())
}

func (g *Grant) IsInGroup(groups []string) bool {
	return g.UserName() != "" && slices.ContainsFunc(groups, func(name string) bool { return name == AnyUser || slices.Contains(g.groups, name) })
}

// CanReadMetrics reports whether the requester may read /metrics, which cover the jobs
// of all roles.
func (g *Grant) CanReadMetrics() bool {
	return g == nil || g.openMetrics || g.HasPermissionOnAnyRole(View)
}
