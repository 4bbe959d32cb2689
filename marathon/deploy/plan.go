package deploy

import (
	"cmp"
	"slices"
	"strings"

	"mesos-gpu/marathon"
)

// world is all apps and groups as they are to be.
type world struct {
	apps   map[string]*marathon.App
	ids    []string // of apps, sorted
	groups map[string]*GroupInfo
	depth  map[string]int // of apps whose dependencies were followed; 0 is on the way
	circle []string
}

// world is what is there with the changes made.
func (s *State) world(next []transition, groups map[string]*GroupInfo) *world {
	w := &world{apps: map[string]*marathon.App{}, groups: map[string]*GroupInfo{}, depth: map[string]int{}}
	for id, a := range s.apps {
		if a.known() {
			w.apps[id] = a.current()
		}
	}
	for _, t := range next {
		if t.removed {
			delete(w.apps, t.id)
		} else {
			w.apps[t.id] = t.to.app
		}
	}
	w.ids = sorted(w.apps)
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

// check finds ids of apps that are groups' too, and circles of dependencies.
func (w *world) check() error {
	for _, id := range w.ids {
		if below := w.below(id); w.groups[id] != nil || len(below) > 1 {
			return invalid("/id", "%s is an app, and cannot be a group too", id)
		}
		w.level(id)
		if w.circle != nil {
			slices.Reverse(w.circle)
			return invalid("/dependencies", "dependencies go in a circle: %s", strings.Join(w.circle, " → "))
		}
	}
	return nil
}

// below are the apps of an id: the app's own, or those of the group.
func (w *world) below(id string) []string {
	if id == "/" {
		return w.ids
	}
	var list []string
	if _, ok := w.apps[id]; ok {
		list = append(list, id)
	}
	first, _ := slices.BinarySearch(w.ids, id+"/")
	for _, one := range w.ids[first:] {
		if !within(one, id) {
			break
		}
		list = append(list, one)
	}
	return list
}

// level is how many apps stand in the longest row of those that wait for one
// another, the app included. Each on the way marks itself.
func (w *world) level(id string) int {
	depth, ok := w.depth[id]
	if ok {
		if depth == 0 && w.circle == nil {
			w.circle = []string{id}
		}
		return depth
	}
	w.depth[id] = 0
	for _, other := range w.dependencies(id) {
		depth = max(depth, w.level(other))
		if w.circle != nil {
			if n := len(w.circle); n == 1 || w.circle[0] != w.circle[n-1] {
				w.circle = append(w.circle, id)
			}
			return 0
		}
	}
	w.depth[id] = depth + 1
	return depth + 1
}

// dependencies are the apps that an app waits for, by itself or with the
// groups that hold it.
func (w *world) dependencies(id string) []string {
	var list []string
	for _, d := range w.apps[id].Dependencies {
		list = append(list, w.below(d)...)
	}
	for at := id; at != "/"; {
		at = cmp.Or(at[:strings.LastIndexByte(at, '/')], "/")
		if g := w.groups[at]; g != nil {
			for _, d := range g.Dependencies {
				list = append(list, w.below(d)...)
			}
		}
	}
	return list
}

// steps are Marathon's: what goes, what is new, then the apps row by row of
// their dependencies.
func (w *world) steps(next []transition) []PlanStep {
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
		level := w.level(t.id)
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
