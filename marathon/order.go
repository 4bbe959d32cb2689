package marathon

import (
	"slices"
	"strings"
)

// Order lists the apps of the group and of those below it, each after what it
// depends on, and otherwise as they stand. Dependencies on what is not in the
// group do not count: it cannot be known here. With a cycle among them, which
// ParseGroup refuses, the apps of the cycle are in no certain order.
func (g *Group) Order() []*App {
	w := walk{edges: g.edges(), state: map[string]mark{}}
	byID := map[string]*App{}
	for _, a := range g.all() {
		byID[a.ID] = a
		w.visit(a.ID)
	}
	apps := make([]*App, 0, len(w.order))
	for _, id := range w.order {
		apps = append(apps, byID[id])
	}
	return apps
}

func (p *groupFinish) cycles(g *Group) {
	w := walk{edges: g.edges(), state: map[string]mark{}}
	for _, a := range g.all() {
		w.visit(a.ID)
	}
	for _, c := range w.cycles {
		p.found.rule("/", "dependencies go in a circle: %s", strings.Join(c, " → "))
	}
}

// edges are the apps that each app waits for: through its own dependencies
// and those of the groups that hold it.
func (g *Group) edges() map[string][]string {
	members := map[string][]string{}
	g.members(members)
	edges := map[string][]string{}
	g.link(members, nil, edges)
	return edges
}

// members lists the apps of each id: an app's own, or a group's all.
func (g *Group) members(of map[string][]string) {
	for _, a := range g.all() {
		of[g.ID] = append(of[g.ID], a.ID)
	}
	for _, a := range g.Apps {
		of[a.ID] = []string{a.ID}
	}
	for _, inner := range g.Groups {
		inner.members(of)
	}
}

func (g *Group) link(members map[string][]string, inherited []string, edges map[string][]string) {
	inherited = append(slices.Clone(inherited), g.Dependencies...)
	for _, a := range g.Apps {
		for _, d := range append(slices.Clone(inherited), a.Dependencies...) {
			edges[a.ID] = append(edges[a.ID], members[d]...)
		}
	}
	for _, inner := range g.Groups {
		inner.link(members, inherited, edges)
	}
}

type mark int

const (
	unseen mark = iota
	open
	done
)

// walk visits apps depth first. An edge to an app that is still open closes a
// circle.
type walk struct {
	edges  map[string][]string
	state  map[string]mark
	path   []string
	order  []string
	cycles [][]string
}

func (w *walk) visit(id string) {
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
		w.visit(next)
	}
	w.path = w.path[:len(w.path)-1]
	w.state[id] = done
	w.order = append(w.order, id)
}
