package access

import (
	"slices"
	"strings"

	"mesos-gpu/framework/sched"
)

// MaySubmit reports whether somebody may submit in a role who is not there to
// show a token, as the owner of a schedule is not. The groups of those whom an
// issuer knows are not known then: any of its groups may be theirs.
func (p *Policy) MaySubmit(name, role string) bool {
	if strings.HasPrefix(name, FromOIDC) {
		return p.OIDC != nil && slices.ContainsFunc(p.Rules, func(r Rule) bool {
			theirs := slices.ContainsFunc(r.Groups, func(g string) bool { return g == Everybody || strings.HasPrefix(g, FromOIDC) })
			return r.May >= Submit && (theirs || slices.Contains(r.Users, name)) &&
				slices.ContainsFunc(r.Roles, func(of string) bool { return sched.RoleCovers(of, role) })
		})
	}
	i := slices.IndexFunc(p.Tokens, func(t Token) bool { return t.Name == name })
	return i >= 0 && p.For(Identity{Name: name, Groups: p.Tokens[i].Groups}).May(Submit, role)
}
