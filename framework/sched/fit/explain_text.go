package fit

import (
	"fmt"
	"slices"
	"strings"

	"mesos-gpu/framework/sched/fit/hardware"
	"mesos-gpu/gpu"
)

// Shortage explains in numbers why a task of a demand fits nowhere.
type Shortage struct {
	// Missing describes the requirement ("2 free A100 on one agent"). Found describes
	// the agents ("41 agents have the type, 5 have 1 free").
	Missing, Found string
}

// demandExplainer explains one demand.
type demandExplainer struct {
	*Cluster
	// demand is the explained demand, class its class.
	demand *Demand
	class  *demandClass
	// typeRequirement requires the types alone.
	typeRequirement *hardware.Requirement
	// ofTotals is set if the agents have nothing in use: texts then compare with what agents have in total.
	ofTotals bool
}

func (c *Cluster) newExplainer(d *Demand) demandExplainer {
	return demandExplainer{
		Cluster:         c,
		ofTotals:        c.ofTotals,
		demand:          d,
		class:           c.classifyDemand(d),
		typeRequirement: c.index.hardware.FindRequirement(gpu.Request{GPUs: 1, Types: d.Request.Types, MIG: d.Request.MIGUse()}),
	}
}

// countClosedAgents counts the agents of the role that accept no tasks.
func (e *demandExplainer) countClosedAgents() (closed int) {
	for _, i := range e.index.roleAgents(e.class.roleID) {
		if e.index.agents[i].Closed {
			closed++
		}
	}
	return closed
}

// openAgents returns the agents of the role that accept tasks.
func (e *demandExplainer) openAgents() []int {
	members := e.index.roleAgents(e.class.roleID)
	list := make([]int, 0, len(members))
	for _, i := range members {
		if !e.index.agents[i].Closed {
			list = append(list, int(i))
		}
	}
	return list
}

// filterIndices returns the agents for which ok returns true. The result may share memory with agents.
func filterIndices(agents []int, ok func(i int) bool) []int {
	first := slices.IndexFunc(agents, func(i int) bool { return !ok(i) })
	if first < 0 {
		return agents
	}
	list, rest := agents[:first:first], agents[first+1:]
	for at, i := range rest {
		if ok(i) {
			if len(list) == first {
				list = slices.Grow(list, len(rest)-at)
			}
			list = append(list, i)
		}
	}
	return list
}

// hasType reports whether the agent has GPUs of the requested types.
func (e *demandExplainer) hasType(i int) bool {
	return e.typeRequirement.MatchOn(e.capacities[i].hardware).AnyDevice
}

func (e *demandExplainer) hasEnoughGPUs(i int) bool {
	if e.class.wantsShares {
		return e.fitsShares(&e.capacities[i], e.class)
	}
	return e.availableGPUs(i, e.class) >= int(e.class.gpus)
}

func (e *demandExplainer) wantedText() string {
	if e.class.wantsShares {
		return e.wantedSharesText()
	}
	return fmt.Sprintf("%d %s%s", e.class.gpus, e.freeWord(), e.deviceNoun())
}

// wantedSharesText returns "4096 MiB and 30 % cores of one shared V100".
func (e *demandExplainer) wantedSharesText() string {
	of := "one shared "
	if e.class.gpus > 1 {
		of = fmt.Sprintf("each of %d shared ", e.class.gpus)
	}
	share := e.demand.Request.Share
	if share.IsExclusive() {
		return "all of " + of + e.deviceNoun()
	}
	return share.String() + " of " + of + e.deviceNoun()
}

// deviceNoun formats the devices of the demand as in "2 free V100".
func (e *demandExplainer) deviceNoun() string { return e.deviceNounFor(e.demand.Request.GPUs) }

// deviceNounFor is deviceNoun for n devices.
func (e *demandExplainer) deviceNounFor(n int) string {
	r := &e.demand.Request
	s := r.Types.NounPhrase(n)
	if r.MinMemMiB > 0 {
		s += fmt.Sprintf(" of %d MiB or more", r.MinMemMiB)
	}
	if !r.Devices.AcceptsAny() {
		s += " " + describeSelector(r.Devices)
	}
	var hosts []string
	for _, v := range [][2]string{{"driver", r.MinDriver}, {"CUDA", r.MinCUDA}} {
		if v[1] != "" {
			hosts = append(hosts, v[0]+" "+v[1])
		}
	}
	if len(hosts) > 0 {
		s += " with " + strings.Join(hosts, " and ") + " or newer"
	}
	return s + topologyText(e.class.requirement.Topology)
}

func describeSelector(d gpu.DeviceSelector) string {
	if n := len(d.Include); n > 0 {
		return fmt.Sprintf("among the %d named", n)
	}
	return fmt.Sprintf("outside of the %d excluded", len(d.Exclude))
}

func (e *demandExplainer) typeNoun() string {
	switch types := &e.demand.Request.Types; {
	case types.AcceptsAny():
		return "GPUs"
	case len(types.Include) == 0:
		return "such GPUs"
	default:
		return "the type"
	}
}

func describeNoneOpen(closed int) string {
	if closed == 1 {
		return "the only agent accepts no tasks"
	}
	return fmt.Sprintf("none of %d agents accepts tasks", closed)
}

// freeWord returns "free ", or "" if totals are explained.
func (e *demandExplainer) freeWord() string {
	if e.ofTotals {
		return ""
	}
	return "free "
}

// describeKnown formats how many agents are considered.
func (e *demandExplainer) describeKnown(agents int) string {
	if e.countClosedAgents() > 0 {
		return fmt.Sprintf("%d %s tasks", agents, pluralVerb(agents, "agent accepts", "agents accept"))
	}
	return fmt.Sprintf("%d %s known", agents, pluralVerb(agents, "agent is", "agents are"))
}

// openClause restricts a sentence to agents that accept tasks, if some do not.
func (e *demandExplainer) openClause() string {
	if e.countClosedAgents() > 0 {
		return " that accepts tasks"
	}
	return ""
}

func agentsHave(agents int) string {
	if agents == 1 {
		return "1 agent has"
	}
	return fmt.Sprintf("%d agents have", agents)
}

func pluralVerb(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
