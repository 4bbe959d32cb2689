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
	if slices.ContainsFunc(p.Tokens, func(t TokenEntry) bool {
		return t.Identity().Name == name && p.GrantFor(t.Identity()).HasPermission(Submit, role)
	}) {
		return true
	}
	prefixes := p.groupPrefixes(name)
	return len(prefixes) > 0 && slices.ContainsFunc(p.Rules, func(r PermissionRule) bool {
		theirs := slices.ContainsFunc(r.Groups, func(g string) bool {
			return g == AnyUser || slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(g, prefix) })
		})
		return r.Permission >= Submit && (theirs || slices.Contains(r.Users, name)) &&
			slices.ContainsFunc(r.Roles, func(of string) bool { return admission.CoversRole(of, role) })
	})
}

// groupPrefixes returns the prefixes of the groups in which a user may be whom no token of the file identifies, nil if there is no
// such user.
func (p *AccessPolicy) groupPrefixes(name string) (prefixes []string) {
	switch {
	case strings.HasPrefix(name, OIDCPrefix) && p.OIDC != nil:
		return []string{OIDCPrefix}
	case !strings.HasPrefix(name, job.UnixUserPrefix):
		return nil
	case p.OIDC != nil && p.OIDC.UnixUserClaim != "":
		return []string{job.UnixUserPrefix, OIDCPrefix}
	}
	return []string{job.UnixUserPrefix}
}
