package marathon

import (
	"slices"
	"strings"
)

// OrderedApps lists the apps of the group and of those below it, each after what it
// depends on, and otherwise as they stand. Dependencies on what is not in the
// group do not count: it cannot be known here. With a cycle among them, which
// ParseGroup refuses, the apps of the cycle are in no certain order.
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

// dependencyEdges are the apps that each app waits for: through its own dependencies
// and those of the groups that hold it.
func (g *Group) dependencyEdges() map[string][]string {
	members := map[string][]string{}
	g.collectMembers(members)
	edges := map[string][]string{}
	g.linkDependencies(members, nil, edges)
	return edges
}

// collectMembers lists the apps of each id: an app's own, or a group's all.
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

// dependencyWalk visits apps depth first. An edge to an app that is still open closes a
// circle.
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
