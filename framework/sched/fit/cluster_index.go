package fit

import (
	"slices"

	"mesos-gpu/gpu"
)

// clusterIndex is what does not change while places are taken, and what was found
// out about it. Clones of a cluster share it.
type clusterIndex struct {
	hardwareClasses []*hardwareClass
	hardwareByKey   map[string]*hardwareClass
	roleIDs         map[string]int32
	demandClasses   map[string]*demandClass
	requirements    map[string]*deviceRequirement
	agentFilters    map[string]*agentFilter
	fieldColumns    map[string]*fieldColumn
	typeMatches     map[string]map[string]bool // type wish → model → satisfied
	deviceChoices   map[deviceChoiceKey]chosenDevices
	agents          []AgentResources
	agentsByRole    [][]int32 // the agents of each role, in order
	// layouts is what furniture found, by agent.
	layouts          [][]deviceLayout
	keyScratch       []byte // scratch
	fragmentation    *fragmentationModel
	hasSharedDevices bool // there are devices that tasks share
	hasMaintenance   bool // maintenance of an agent is planned
	wastedSlots      int  // rooms of agents that have others now: see Renew
	scores           scoreCache
	avoidedPorts     []int // ports that Spare named, sorted
}

func newWorld(agents []AgentResources) *clusterIndex {
	return &clusterIndex{
		hardwareByKey: map[string]*hardwareClass{}, roleIDs: map[string]int32{}, demandClasses: map[string]*demandClass{},
		requirements: map[string]*deviceRequirement{}, agentFilters: map[string]*agentFilter{}, fieldColumns: map[string]*fieldColumn{},
		typeMatches: map[string]map[string]bool{}, deviceChoices: map[deviceChoiceKey]chosenDevices{}, agents: agents, layouts: make([][]deviceLayout, len(agents)),
		scores: scoreCache{numbers: map[string]int32{}, generation: 1},
	}
}

// acceptsModel remembers which models satisfy a wish: finding out takes regular
// expressions.
func (w *clusterIndex) acceptsModel(t gpu.TypeSelector, model string) bool {
	if t.AcceptsAny() {
		return true
	}
	if model == "" {
		return false
	}
	key := string(appendTexts(appendTexts(nil, t.Include), t.Exclude))
	known := w.typeMatches[key]
	if known == nil {
		known = map[string]bool{}
		w.typeMatches[key] = known
	}
	ok, seen := known[model]
	if !seen {
		ok = t.Match(model)
		known[model] = ok
	}
	return ok
}

func (w *clusterIndex) roleID(name string) int32 {
	id, ok := w.roleIDs[name]
	if !ok {
		id = int32(len(w.roleIDs))
		w.roleIDs[name] = id
	}
	return id
}

// slotOf finds a device on its agent; -1 if it is not there.
func slotOf(uuids []string, id string) int { return slices.Index(uuids, id) }

// roleAgents are the agents of a role, by its number: -1 has none.
func (w *clusterIndex) roleAgents(role int32) []int32 {
	if role < 0 {
		return nil
	}
	return w.agentsByRole[role]
}
