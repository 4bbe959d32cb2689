package access

import (
	"slices"
	"strings"

	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/job"
)

// CanSubmit reports whether the owner of a schedule may submit in a role. The owner does
// not make a request then, so groups at an OIDC issuer or of the machine are unknown: the
// owner may be in any of them.
func (p *AccessPolicy) CanSubmit(name, role string) bool {
	for prefix, isKnown := range map[string]bool{OIDCPrefix: p.OIDC != nil, job.UnixUserPrefix: true} {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		return isKnown && slices.ContainsFunc(p.Rules, func(r PermissionRule) bool {
			theirs := slices.ContainsFunc(r.Groups, func(g string) bool { return g == AnyUser || strings.HasPrefix(g, prefix) })
			return r.Permission >= Submit && (theirs || slices.Contains(r.Users, name)) &&
				slices.ContainsFunc(r.Roles, func(of string) bool { return admission.CoversRole(of, role) })
		})
	}
	i := slices.IndexFunc(p.Tokens, func(t TokenEntry) bool { return t.Name == name })
	return i >= 0 && p.GrantFor(Identity{Name: name, Groups: p.Tokens[i].Groups}).HasPermission(Submit, role)
}
