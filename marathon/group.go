package marathon

import (
	"slices"
	"strings"
)

// Group is a group of apps and groups. ParseGroup makes all ids absolute.
type Group struct {
	ID           string   `json:"id,omitempty"`
	Apps         []*App   `json:"apps,omitempty"`
	Groups       []*Group `json:"groups,omitempty"`
	Dependencies []string `json:"dependencies,omitempty"`
	EnforceRole  *bool    `json:"enforceRole,omitempty"`
	// ScaleBy and Version are commands. A group that has one of them has no
	// other field.
	ScaleBy *float64 `json:"scaleBy,omitempty"`
	Version string   `json:"version,omitempty"`
}

// ParseGroup parses a group. The id of the topmost group is relative to base, which is
// also its default. Apps are completed and checked as by ParseApp. It returns
// *SyntaxError or *ValidationError, as ParseApp does.
func ParseGroup(data []byte, base string, s ParseSettings) (*Group, error) {
	c := schemaChecker{strict: s.Strict}
	g, err := readDefinition[Group](data, groupSchema(), &c)
	if g == nil {
		return nil, err
	}
	p := groupNormalizer{settings: s, violations: &c.violations, seen: map[string]string{}}
	p.normalizeGroup(g, "", AbsoluteID(g.ID, base), []string{s.Role})
	p.reportCycles(g)
	if err := c.violations.finish(s); err != nil {
		return nil, err
	}
	return g, nil
}

// groupNormalizer completes and checks a group with its apps and subgroups.
type groupNormalizer struct {
	settings   ParseSettings
	violations *violationList
	// seen maps the ids read so far to their paths.
	seen map[string]string
}

func (p *groupNormalizer) normalizeGroup(g *Group, at, id string, roles []string) {
	if g.checkCommandGroup(at, p.violations) {
		return
	}
	g.ID = p.claimID(at+"/id", id)
	roles = p.allowedRoles(g, at, roles)
	f := appNormalizer{settings: p.settings, path: at, base: id, violations: p.violations}
	for i, d := range g.Dependencies {
		g.Dependencies[i] = f.resolveID(elementPath("/dependencies", i), d)
	}
	g.Dependencies = uniqueItems(g.Dependencies)
	for i, a := range g.Apps {
		place := elementPath(at+"/apps", i)
		f := appNormalizer{app: a, settings: p.settings, path: place, base: id, roles: roles, violations: p.violations}
		f.normalizeApp()
		p.checkChildID(place+"/id", p.claimID(place+"/id", a.ID), id)
	}
	for i, inner := range g.Groups {
		place := elementPath(at+"/groups", i)
		innerID := AbsoluteID(inner.ID, id)
		p.checkChildID(place+"/id", innerID, id)
		p.normalizeGroup(inner, place, innerID, roles)
	}
}

// checkCommandGroup reports whether the group is a command, which has no other field.
func (g *Group) checkCommandGroup(at string, found *violationList) bool {
	if g.ScaleBy == nil && g.Version == "" {
		return false
	}
	orders := 0
	for place, set := range map[string]bool{"/scaleBy": g.ScaleBy != nil, "/version": g.Version != ""} {
		if set {
			orders++
		}
		if set && (g.ID != "" || g.Apps != nil || g.Groups != nil || g.Dependencies != nil || g.EnforceRole != nil) {
			found.addRuleError(at+place, "it stands alone: leave out the group's other fields")
		}
	}
	if orders > 1 || at != "" {
		found.addRuleError(at, "scaleBy and version are for the topmost group, and one of them at a time")
	}
	return true
}

// claimID reports an id that is used twice, by apps or groups.
func (p *groupNormalizer) claimID(at, id string) string {
	f := appNormalizer{base: "/", violations: p.violations}
	f.resolveID(at, id)
	if before, ok := p.seen[id]; ok {
		p.violations.addRuleError(at, "%s is the id of %s too", id, strings.TrimSuffix(before, "/id"))
	}
	p.seen[id] = at
	return id
}

func (p *groupNormalizer) checkChildID(at, id, group string) {
	if ParentID(id) != group || id == group {
		p.violations.addRuleError(at, "%s is not directly in the group %s", id, group)
	}
}

// allowedRoles returns the roles that the group's apps may have. A top group that
// enforces its role allows no other.
func (p *groupNormalizer) allowedRoles(g *Group, at string, roles []string) []string {
	if g.EnforceRole == nil || !*g.EnforceRole {
		return roles
	}
	top := pathSegments(g.ID)
	if len(top) != 1 {
		p.violations.addRuleError(at+"/enforceRole", "%s is not a top group", g.ID)
		return roles
	}
	return top
}

// allApps returns the apps of the group and its subgroups.
func (g *Group) allApps() []*App {
	apps := slices.Clone(g.Apps)
	for _, inner := range g.Groups {
		apps = append(apps, inner.allApps()...)
	}
	return apps
}
