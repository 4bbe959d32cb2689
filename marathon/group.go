package marathon

import (
	"slices"
	"strings"
)

// Group is a group of apps and of groups, each with an absolute id after
// ParseGroup.
type Group struct {
	ID           string   `json:"id,omitempty"`
	Apps         []*App   `json:"apps,omitempty"`
	Groups       []*Group `json:"groups,omitempty"`
	Dependencies []string `json:"dependencies,omitempty"`
	EnforceRole  *bool    `json:"enforceRole,omitempty"`
	// ScaleBy and Version are orders rather than definitions; a group that
	// has one has nothing else.
	ScaleBy *float64 `json:"scaleBy,omitempty"`
	Version string   `json:"version,omitempty"`
}

// ParseGroup reads a group whose topmost id is relative to the group base, or
// base itself where it has none. Its apps are completed and checked as by
// Parse. It returns *Malformed or *Invalid as Parse does.
func ParseGroup(data []byte, base string, s Settings) (*Group, error) {
	var c check
	g, err := read[Group](data, groupSchema(), &c)
	if g == nil {
		return nil, err
	}
	p := groupFinish{settings: s, found: &c.found, seen: map[string]string{}}
	p.run(g, "", Absolute(g.ID, base), []string{s.Role})
	p.cycles(g)
	if err := c.found.invalid(); err != nil {
		return nil, err
	}
	return g, nil
}

// groupFinish completes and checks a group and what is below it.
type groupFinish struct {
	settings Settings
	found    *violations
	// seen says where the ids so far stand.
	seen map[string]string
}

func (p *groupFinish) run(g *Group, at, id string, roles []string) {
	if g.alone(at, p.found) {
		return
	}
	g.ID = p.claim(at+"/id", id)
	roles = p.enforce(g, at, roles)
	f := finish{settings: p.settings, at: at, base: id, found: p.found}
	for i, d := range g.Dependencies {
		g.Dependencies[i] = f.resolve(index("/dependencies", i), d)
	}
	g.Dependencies = once(g.Dependencies)
	for i, a := range g.Apps {
		place := index(at+"/apps", i)
		f := finish{app: a, settings: p.settings, at: place, base: id, roles: roles, found: p.found}
		f.run()
		p.child(place+"/id", p.claim(place+"/id", a.ID), id)
	}
	for i, inner := range g.Groups {
		place := index(at+"/groups", i)
		innerID := Absolute(inner.ID, id)
		p.child(place+"/id", innerID, id)
		p.run(inner, place, innerID, roles)
	}
}

// alone reports whether the group is an order, which names nothing else.
func (g *Group) alone(at string, found *violations) bool {
	if g.ScaleBy == nil && g.Version == "" {
		return false
	}
	orders := 0
	for place, set := range map[string]bool{"/scaleBy": g.ScaleBy != nil, "/version": g.Version != ""} {
		if set {
			orders++
		}
		if set && (g.ID != "" || g.Apps != nil || g.Groups != nil || g.Dependencies != nil || g.EnforceRole != nil) {
			found.rule(at+place, "it stands alone: leave out the group's other fields")
		}
	}
	if orders > 1 || at != "" {
		found.rule(at, "scaleBy and version are for the topmost group, and one of them at a time")
	}
	return true
}

// claim keeps ids apart: those of apps and of groups are of one kind.
func (p *groupFinish) claim(at, id string) string {
	f := finish{base: "/", found: p.found}
	f.resolve(at, id)
	if before, ok := p.seen[id]; ok {
		p.found.rule(at, "%s is the id of %s too", id, strings.TrimSuffix(before, "/id"))
	}
	p.seen[id] = at
	return id
}

func (p *groupFinish) child(at, id, group string) {
	if Parent(id) != group || id == group {
		p.found.rule(at, "%s is not directly in the group %s", id, group)
	}
}

// enforce gives the apps of a top group that enforces its role no other.
func (p *groupFinish) enforce(g *Group, at string, roles []string) []string {
	if g.EnforceRole == nil || !*g.EnforceRole {
		return roles
	}
	top := segments(g.ID)
	if len(top) != 1 {
		p.found.rule(at+"/enforceRole", "%s is not a top group", g.ID)
		return roles
	}
	return top
}

// all are the group's apps and those of the groups below it.
func (g *Group) all() []*App {
	apps := slices.Clone(g.Apps)
	for _, inner := range g.Groups {
		apps = append(apps, inner.all()...)
	}
	return apps
}
