package deploy

import (
	"cmp"
	"slices"
	"strings"

	"mesos-gpu/marathon"
)

// targetState is all apps and groups after a change.
type targetState struct {
	apps   map[string]*marathon.App
	ids    []string // ids of the apps, sorted
	groups map[string]*GroupInfo
	depth  map[string]int // dependency levels computed so far; 0 while an app is being visited
	cycle  []string
}

// buildTarget returns the current state with the changes applied.
func (s *DesiredState) buildTarget(next []appTransition, groups map[string]*GroupInfo) *targetState {
	w := &targetState{apps: map[string]*marathon.App{}, groups: map[string]*GroupInfo{}, depth: map[string]int{}}
	for id, a := range s.apps {
		if a.isKnown() {
			w.apps[id] = a.currentApp()
		}
	}
	for _, t := range next {
		if t.removed {
			delete(w.apps, t.id)
		} else {
			w.apps[t.id] = t.to.app
		}
	}
	w.ids = sortedKeys(w.apps)
	for _, from := range []map[string]*GroupInfo{s.groups, groups} {
		for id, g := range from {
			if g == nil {
				delete(w.groups, id)
			} else {
				w.groups[id] = g
			}
		}
	}
	return w
}

// checkTarget rejects ids of both an app and a group, and cycles of dependencies.
func (state *targetState) checkTarget() error {
	for _, id := range state.ids {
		if below := state.appsBelow(id); state.groups[id] != nil || len(below) > 1 {
			return invalidAt("/id", "%s is an app, and cannot be a group too", id)
		}
		state.dependencyLevel(id)
		if state.cycle != nil {
			slices.Reverse(state.cycle)
			return invalidAt("/dependencies", "dependencies go in a circle: %s", strings.Join(state.cycle, " → "))
		}
	}
	return nil
}

// appsBelow returns the app of an id, or the apps of a group.
func (state *targetState) appsBelow(id string) []string {
	if id == "/" {
		return state.ids
	}
	var list []string
	if _, ok := state.apps[id]; ok {
		list = append(list, id)
	}
	first, _ := slices.BinarySearch(state.ids, id+"/")
	for _, one := range state.ids[first:] {
		if !isWithin(one, id) {
			break
		}
		list = append(list, one)
	}
	return list
}

// dependencyLevel returns the length of the longest chain of dependencies that ends at the
// app, including the app. It sets cycle if it meets an app that is being visited.
func (state *targetState) dependencyLevel(id string) int {
	depth, ok := state.depth[id]
	if ok {
		if depth == 0 && state.cycle == nil {
			state.cycle = []string{id}
		}
		return depth
	}
	state.depth[id] = 0
	for _, other := range state.dependenciesOf(id) {
		depth = max(depth, state.dependencyLevel(other))
		if state.cycle != nil {
			if n := len(state.cycle); n == 1 || state.cycle[0] != state.cycle[n-1] {
				state.cycle = append(state.cycle, id)
			}
			return 0
		}
	}
	state.depth[id] = depth + 1
	return depth + 1
}

// dependenciesOf returns the apps that an app depends on, itself or through its groups.
func (state *targetState) dependenciesOf(id string) []string {
	var list []string
	for _, d := range state.apps[id].Dependencies {
		list = append(list, state.appsBelow(d)...)
	}
	for at := id; at != "/"; {
		at = cmp.Or(at[:strings.LastIndexByte(at, '/')], "/")
		if g := state.groups[at]; g != nil {
			for _, d := range g.Dependencies {
				list = append(list, state.appsBelow(d)...)
			}
		}
	}
	return list
}

// planSteps returns Marathon's steps: removed apps, new apps, then the apps by dependency
// level.
func (state *targetState) planSteps(next []appTransition) []PlanStep {
	var stop, start PlanStep
	rows := map[int]*PlanStep{}
	deepest := 0
	for _, t := range next {
		action := ScaleApplication
		switch {
		case t.removed:
			stop.Actions = append(stop.Actions, PlanAction{StopApplication, t.id})
			continue
		case t.change == created:
			start.Actions = append(start.Actions, PlanAction{StartApplication, t.id})
		case t.change == reconfigured && t.to.app.Instances > 0:
			action = RestartApplication
		}
		level := state.dependencyLevel(t.id)
		if rows[level] == nil {
			rows[level] = &PlanStep{}
		}
		rows[level].Actions = append(rows[level].Actions, PlanAction{action, t.id})
		deepest = max(deepest, level)
	}
	var steps []PlanStep
	for _, s := range []PlanStep{stop, start} {
		if len(s.Actions) > 0 {
			steps = append(steps, s)
		}
	}
	for level := 1; level <= deepest; level++ {
		if s := rows[level]; s != nil {
			steps = append(steps, *s)
		}
	}
	return steps
}
