package fit

import (
	"slices"

	"mesos-gpu/gpu"
)

// world is what does not change while places are taken, and what was found
// out about it. Clones of a cluster share it.
type world struct {
	kinds   []*kind
	kindOf  map[string]*kind
	roles   map[string]int32
	classes map[string]*class
	wishes  map[string]*wish
	filters map[string]*filter
	columns map[string]*column
	typed   map[string]map[string]bool // type wish → model → satisfied
	picks   map[pickKey]pick
	agents  []Agent
	ofRole  [][]int32 // the agents of each role, in order
	// furnished is what furniture found, by agent.
	furnished [][]furniture
	key       []byte // scratch
	frag      *fragments
	shares    bool // there are devices that tasks share
	closing   bool // maintenance of an agent is planned
	waste     int  // rooms of agents that have others now: see Renew
	states    states
	spared    []int // ports that Spare named, sorted
}

func newWorld(agents []Agent) *world {
	return &world{
		kindOf: map[string]*kind{}, roles: map[string]int32{}, classes: map[string]*class{},
		wishes: map[string]*wish{}, filters: map[string]*filter{}, columns: map[string]*column{},
		typed: map[string]map[string]bool{}, picks: map[pickKey]pick{}, agents: agents, furnished: make([][]furniture, len(agents)),
		states: states{number: map[string]int32{}, generation: 1},
	}
}

// types remembers which models satisfy a wish: finding out takes regular
// expressions.
func (w *world) types(t gpu.Types, model string) bool {
	if t.Any() {
		return true
	}
	if model == "" {
		return false
	}
	key := string(appendTexts(appendTexts(nil, t.Include), t.Exclude))
	known := w.typed[key]
	if known == nil {
		known = map[string]bool{}
		w.typed[key] = known
	}
	ok, seen := known[model]
	if !seen {
		ok = t.Match(model)
		known[model] = ok
	}
	return ok
}

func (w *world) role(name string) int32 {
	id, ok := w.roles[name]
	if !ok {
		id = int32(len(w.roles))
		w.roles[name] = id
	}
	return id
}

// slotOf finds a device on its agent; -1 if it is not there.
func slotOf(uuids []string, id string) int { return slices.Index(uuids, id) }

// members are the agents of a role, by its number: -1 has none.
func (w *world) members(role int32) []int32 {
	if role < 0 {
		return nil
	}
	return w.ofRole[role]
}
