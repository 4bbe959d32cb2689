package marathon

import (
	"slices"
	"strings"
)

// OrderedApps returns the apps of the group and its subgroups, each after those that it
// depends on, and otherwise in the order of the definition. Dependencies outside the
// group are ignored. ParseGroup rejects cycles; the order of apps in a cycle is not
// defined.
func (g *Group) OrderedApps() []*App {
	w := dependencyWalk{edges: g.dependencyEdges(), state: map[string]visitState{}}
	byID := map[string]*App{}
	for _, a := range g.allApps() {
		byID[a.ID] = a
		w.visitApp(a.ID)
	}
	apps := make([]*App, 0, len(w.order))
	for _, id := range w.order {
		apps = append(apps, byID[id])
	}
	return apps
}

func (p *groupNormalizer) reportCycles(g *Group) {
	w := dependencyWalk{edges: g.dependencyEdges(), state: map[string]visitState{}}
	for _, a := range g.allApps() {
		w.visitApp(a.ID)
	}
	for _, c := range w.cycles {
		p.violations.addRuleError("/", "dependencies go in a circle: %s", strings.Join(c, " → "))
	}
}

// dependencyEdges returns the apps that each app depends on, itself or through its
// groups.
func (g *Group) dependencyEdges() map[string][]string {
	members := map[string][]string{}
	g.collectMembers(members)
	edges := map[string][]string{}
	g.linkDependencies(members, nil, edges)
	return edges
}

// collectMembers maps each id to its apps: the app itself, or all apps of the group.
func (g *Group) collectMembers(of map[string][]string) {
	for _, a := range g.allApps() {
		of[g.ID] = append(of[g.ID], a.ID)
	}
	for _, a := range g.Apps {
		of[a.ID] = []string{a.ID}
	}
	for _, inner := range g.Groups {
		inner.collectMembers(of)
	}
}

func (g *Group) linkDependencies(members map[string][]string, inherited []string, edges map[string][]string) {
	inherited = append(slices.Clone(inherited), g.Dependencies...)
	for _, a := range g.Apps {
		for _, d := range append(slices.Clone(inherited), a.Dependencies...) {
			edges[a.ID] = append(edges[a.ID], members[d]...)
		}
	}
	for _, inner := range g.Groups {
		inner.linkDependencies(members, inherited, edges)
	}
}

type visitState int

const (
	unseen visitState = iota
	open
	done
)

// dependencyWalk visits apps depth first. An edge to an app that is still being visited
// closes a cycle.
type dependencyWalk struct {
	edges  map[string][]string
	state  map[string]visitState
	path   []string
	order  []string
	cycles [][]string
}

func (w *dependencyWalk) visitApp(id string) {
	switch w.state[id] {
	case done:
		return
	case open:
		circle := w.path[slices.Index(w.path, id):]
		w.cycles = append(w.cycles, append(slices.Clone(circle), id))
		return
	}
	w.state[id] = open
	w.path = append(w.path, id)
	for _, next := range w.edges[id] {
		w.visitApp(next)
	}
	w.path = w.path[:len(w.path)-1]
	w.state[id] = done
	w.order = append(w.order, id)
}
