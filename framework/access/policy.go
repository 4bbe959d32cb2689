package access

import (
	"slices"

	"mesos-gpu/framework/sched"
)

// AccessPolicy is what an access file says.
type AccessPolicy struct {
	// Tokens are those of the file.
	Tokens []TokenEntry
	// OIDCConfig is nil if no issuer is trusted.
	OIDC *OIDCConfig
	// Rules give permissions. A user has no others.
	Rules []PermissionRule
	// JobLimits says what jobs may have, by role.
	JobLimits []sched.RolePermissions
	// OpenMetrics lets everybody read /metrics.
	OpenMetrics bool
}

// PermissionRule gives a permission on roles, with all below them, to users and groups.
type PermissionRule struct {
	Permission    Permission
	Roles         []string
	Users, Groups []string
}

// OIDCConfig says whose identity tokens are believed, and what is read in them.
type OIDCConfig struct {
	// Issuer is its URL, https but for tests on loopback.
	Issuer string
	// Audience must be among those that a token is for.
	Audience string
	// NameClaim and Groups are the claims that have them.
	NameClaim, GroupsClaim string
	// CAFile has the certificates to trust for the issuer; "" is the system's.
	CAFile string
}

// Defaults of the claims. An issuer does not give the subject to another.
const (
	DefaultNameClaim   = "sub"
	DefaultGroupsClaim = "groups"
)

// GrantFor returns what a user may do.
func (p *AccessPolicy) GrantFor(who Identity) *Grant {
	g := &Grant{userName: who.Name, openMetrics: p.OpenMetrics}
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

// Grant is what one requester may do. A nil Grant permits everything: no
// access file is configured.
type Grant struct {
	userName    string
	rules       []PermissionRule
	openMetrics bool
}

// UserName is the requester's name, "" for one who did not say or where it does
// not matter.
func (g *Grant) UserName() string {
	if g == nil {
		return ""
	}
	return g.userName
}

// IsKnown reports whether the requester has a name, or needs none.
func (g *Grant) IsKnown() bool { return g == nil || g.userName != "" }

// HasPermission reports whether the requester has the permission on the role.
func (g *Grant) HasPermission(p Permission, role string) bool {
	return g == nil || slices.ContainsFunc(g.rules, func(r PermissionRule) bool {
		return r.Permission >= p && slices.ContainsFunc(r.Roles, func(of string) bool { return sched.CoversRole(of, role) })
	})
}

// HasPermissionOnAllRoles reports whether the requester has it on all roles, those that
// are to come included.
func (g *Grant) HasPermissionOnAllRoles(p Permission) bool { return g.HasPermission(p, sched.AllRoles) }

// HasPermissionOnAnyRole reports whether there may be a role on which the requester has
// it.
func (g *Grant) HasPermissionOnAnyRole(p Permission) bool {
	return g == nil || slices.ContainsFunc(g.rules, func(r PermissionRule) bool { return r.Permission >= p })
}

// CanChangeJob reports whether the requester may end, stop or scale a job of that
// role and owner.
func (g *Grant) CanChangeJob(role, owner string) bool {
	return g.HasPermission(Operate, role) || owner != "" && owner == g.UserName() && g.HasPermission(Submit, role)
}

// CanReadMetrics reports whether the requester may read /metrics, which count the
// jobs of all roles.
func (g *Grant) CanReadMetrics() bool {
	return g == nil || g.openMetrics || g.HasPermissionOnAnyRole(View)
}
