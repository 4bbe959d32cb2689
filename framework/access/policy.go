package access

import (
	"slices"

	"mesos-gpu/framework/sched"
)

// Policy is what an access file says.
type Policy struct {
	// Tokens are those of the file.
	Tokens []Token
	// OIDC is nil where no issuer vouches for anybody.
	OIDC *OIDC
	// Rules give permissions; what none gives nobody has.
	Rules []Rule
	// Jobs says what jobs may have, by role.
	Jobs []sched.AllowedIn
	// OpenMetrics lets everybody read /metrics.
	OpenMetrics bool
}

// Rule gives a permission on roles, with all below them, to users and groups.
type Rule struct {
	May           Permission
	Roles         []string
	Users, Groups []string
}

// OIDC says whose identity tokens are believed, and what is read in them.
type OIDC struct {
	// Issuer is its URL, https but for tests on loopback.
	Issuer string
	// Audience must be among those that a token is for.
	Audience string
	// Name and Groups are the claims that have them.
	Name, Groups string
	// CAFile has the certificates to trust for the issuer; "" is the system's.
	CAFile string
}

// Defaults of the claims. An issuer does not give the subject to another.
const (
	DefaultNameClaim   = "sub"
	DefaultGroupsClaim = "groups"
)

// For is what somebody may do.
func (p *Policy) For(who Identity) *Grant {
	g := &Grant{who: who.Name, openMetrics: p.OpenMetrics}
	for _, r := range p.Rules {
		if who.Name != "" && r.meets(who) {
			g.rules = append(g.rules, r)
		}
	}
	return g
}

func (r *Rule) meets(who Identity) bool {
	return slices.Contains(r.Users, who.Name) || slices.Contains(r.Groups, Everybody) ||
		slices.ContainsFunc(r.Groups, func(g string) bool { return slices.Contains(who.Groups, g) })
}

// Grant is what one requester may do. A nil one may do everything: nobody has
// drawn bounds.
type Grant struct {
	who         string
	rules       []Rule
	openMetrics bool
}

// Who is the requester's name, "" for one who did not say or where it does
// not matter.
func (g *Grant) Who() string {
	if g == nil {
		return ""
	}
	return g.who
}

// Known reports whether the requester is somebody, or need not be.
func (g *Grant) Known() bool { return g == nil || g.who != "" }

// May reports whether the requester has the permission on the role.
func (g *Grant) May(p Permission, role string) bool {
	return g == nil || slices.ContainsFunc(g.rules, func(r Rule) bool {
		return r.May >= p && slices.ContainsFunc(r.Roles, func(of string) bool { return sched.RoleCovers(of, role) })
	})
}

// MayEverywhere reports whether the requester has it on all roles, those that
// are to come included.
func (g *Grant) MayEverywhere(p Permission) bool { return g.May(p, sched.AllRoles) }

// MaySomewhere reports whether there may be a role on which the requester has
// it.
func (g *Grant) MaySomewhere(p Permission) bool {
	return g == nil || slices.ContainsFunc(g.rules, func(r Rule) bool { return r.May >= p })
}

// MayChange reports whether the requester may end, stop or scale a job of that
// role and owner.
func (g *Grant) MayChange(role, owner string) bool {
	return g.May(Operate, role) || owner != "" && owner == g.Who() && g.May(Submit, role)
}

// MayMeasure reports whether the requester may read /metrics, which count the
// jobs of all roles.
func (g *Grant) MayMeasure() bool { return g == nil || g.openMetrics || g.MaySomewhere(View) }
