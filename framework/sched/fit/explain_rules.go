package fit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/sched/fit/hardware"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// requirementRule is one requirement other than type and number. An agent
// satisfies it or not, whatever is free.
type requirementRule struct {
	// requirement formats what is required: "driver 535 or newer".
	requirement string
	// fails reports whether an agent does not satisfy the requirement.
	fails func(i int) bool
	// has formats what one agent has of it.
	has func(i int) string
	// nearest formats the best value of agents that fail.
	nearest func(agents []int) string
}

func failsAny(rules []requirementRule, i int) bool {
	return slices.ContainsFunc(rules, func(r requirementRule) bool { return r.fails(i) })
}

// worstRule formats the requirement that most of the agents fail.
func worstRule(rules []requirementRule, agents []int) string {
	failing := func(r requirementRule) []int { return filterIndices(agents, r.fails) }
	w := slices.MaxFunc(rules, func(x, y requirementRule) int { return cmp.Compare(len(failing(x)), len(failing(y))) })
	bad := failing(w)
	return fmt.Sprintf("%d %s %s: %s", len(bad), pluralVerb(len(bad), "lacks", "lack"), w.requirement, w.nearest(bad))
}

// buildRules returns the demand's requirements.
func (e *demandExplainer) buildRules() []requirementRule {
	return slices.Concat(e.gpuRules(), e.constraintRules(func(job.Constraint) bool { return true }), e.maintenanceRules())
}

// gpuRules returns the requirements of the demand's GPUs.
func (e *demandExplainer) gpuRules() (list []requirementRule) {
	r := &e.demand.Request
	if e.class.gpus == 0 {
		return nil
	}
	if r.MinMemMiB > 0 {
		list = append(list, e.memoryRule())
	}
	if r.MinDriver != "" {
		list = append(list, e.versionRule("driver", r.MinDriver, func(k *hardware.Class) hardware.Version { return k.Driver }))
	}
	if r.MinCUDA != "" {
		list = append(list, e.versionRule("CUDA", r.MinCUDA, func(k *hardware.Class) hardware.Version { return k.CUDA }))
	}
	if !r.Devices.AcceptsAny() {
		list = append(list, e.deviceRule())
	}
	if e.class.requirement.Topology != "" {
		list = append(list, e.topologyRule())
	}
	return list
}

// constraintRules returns the chosen constraints that depend on no other tasks. Constraints that cannot be compared are
// one more rule.
func (e *demandExplainer) constraintRules(choose func(job.Constraint) bool) (list []requirementRule) {
	if err := e.index.patterns.checkPatterns(e.demand.Constraints); err != nil {
		list = append(list, invalidRule(err))
	}
	for _, con := range e.demand.Constraints {
		if choose(con) && !con.DependsOnPeers() && !(e.class.gpus > 0 && con.SelectsGPUTypes()) {
			list = append(list, e.constraintRule(con))
		}
	}
	return list
}

// maintenanceRules returns no rule if no agent has maintenance.
func (e *demandExplainer) maintenanceRules() []requirementRule {
	if !e.index.hasMaintenance {
		return nil
	}
	return []requirementRule{e.maintenanceRule()}
}

// hasDevicesFor reports whether the agent has devices that satisfy a part of the
// request.
func (e *demandExplainer) hasDevicesFor(i int, part gpu.Request) bool {
	part.GPUs, part.Types, part.MIG = e.demand.Request.GPUs, e.demand.Request.Types, e.demand.Request.MIGUse()
	return e.capacities[i].hasSuitableDevices(e.index.hardware.FindRequirement(part))
}

// numberRule returns a rule about a number that each agent has; more is better. best introduces the largest number.
func numberRule(requirement, best string, fails func(i int) bool, value func(i int) int64, text func(int64) string) requirementRule {
	return requirementRule{
		requirement: requirement, fails: fails,
		has: func(i int) string { return text(value(i)) },
		nearest: func(agents []int) string {
			most := int64(0)
			for _, i := range agents {
				most = max(most, value(i))
			}
			return best + " " + text(most)
		},
	}
}

func (e *demandExplainer) memoryRule() requirementRule {
	least := e.demand.Request.MinMemMiB
	return numberRule(
		fmt.Sprintf("devices of %d MiB or more", least), "the largest has",
		func(i int) bool { return !e.hasDevicesFor(i, gpu.Request{MinMemMiB: least}) },
		func(i int) int64 {
			k := e.capacities[i].hardware
			most := k.MemMiB
			for _, s := range k.Slots {
				if e.typeRequirement.AcceptsProduct(s.Product()) {
					most = max(most, s.MemMiB)
				}
			}
			return most
		},
		func(mem int64) string {
			if mem == 0 {
				return "none of known memory"
			}
			return fmt.Sprintf("%d MiB", mem)
		},
	)
}

func (e *demandExplainer) versionRule(name, want string, of func(*hardware.Class) hardware.Version) requirementRule {
	text := func(v hardware.Version) string {
		if !v.IsKnown() {
			return "an unknown version"
		}
		return v.Text
	}
	return requirementRule{
		requirement: fmt.Sprintf("%s %s or newer", name, want),
		fails:       func(i int) bool { return !of(e.capacities[i].hardware).IsAtLeast(want) },
		has:         func(i int) string { return text(of(e.capacities[i].hardware)) },
		nearest: func(agents []int) string {
			var newest hardware.Version
			for _, i := range agents {
				if v := of(e.capacities[i].hardware); v.Compare(newest) > 0 {
					newest = v
				}
			}
			if !newest.IsKnown() {
				return "none reports its " + name
			}
			return "the newest is " + newest.Text
		},
	}
}

func (e *demandExplainer) deviceRule() requirementRule {
	return requirementRule{
		requirement: "devices " + describeSelector(e.demand.Request.Devices),
		fails:       func(i int) bool { return !e.hasDevicesFor(i, gpu.Request{Devices: e.demand.Request.Devices}) },
		has:         func(int) string { return "none of them" },
		nearest:     func([]int) string { return "they have none of them" },
	}
}

func (e *demandExplainer) topologyRule() requirementRule {
	topology := e.class.requirement.Topology
	largest := func(i int) int64 {
		r := &e.capacities[i]
		if !r.hasDeviceIDs && r.scalarGPUs > 0 {
			return 1 // GPUs by count have no known topology
		}
		return int64(r.hardware.LargestGroup(topology, e.class.requirement.MatchOn(r.hardware).Slots))
	}
	return numberRule(
		fmt.Sprintf("%d devices%s", e.class.gpus, topologyText(topology)), "the largest group has",
		func(i int) bool { return largest(i) < int64(e.class.gpus) }, largest, func(n int64) string { return fmt.Sprint(n) },
	)
}

// topologyText formats a topology as in "2 devices of one NUMA node".
func topologyText(t gpu.Topology) string {
	switch t {
	case gpu.NVLink:
		return " connected by NVLink"
	case gpu.SameNUMA:
		return " of one NUMA node"
	default:
		return ""
	}
}

func (e *demandExplainer) constraintRule(con job.Constraint) requirementRule {
	only := e.index.findFilter([]job.Constraint{con})
	value := func(i int) string {
		if v, ok := e.index.agents[i].FieldValue(con.Field); ok {
			return v
		}
		return "no " + con.Field
	}
	return requirementRule{
		requirement: con.String(), has: value,
		fails: func(i int) bool { return !only.Has(i) },
		nearest: func(agents []int) string {
			var seen []string
			for _, i := range agents {
				if v := value(i); !slices.Contains(seen, v) {
					seen = append(seen, v)
				}
			}
			slices.Sort(seen)
			if n := len(seen); n > 3 {
				seen = append(seen[:3], fmt.Sprintf("%d more", n-3))
			}
			return "they have " + strings.Join(seen, ", ")
		},
	}
}

// invalidRule returns a rule that no agent satisfies, for constraints that cannot be compared.
func invalidRule(err error) requirementRule {
	text := "what constraints require that cannot be compared: " + err.Error()
	return requirementRule{
		requirement: text, fails: func(int) bool { return true }, has: func(int) string { return "none of it" },
		nearest: func([]int) string { return "kill the job and submit it with constraints that are valid" },
	}
}

func (e *demandExplainer) maintenanceRule() requirementRule {
	least := e.class.minAvailable
	until := func(i int) int64 { return e.capacities[i].untilMaintenance }
	return numberRule(
		fmt.Sprintf("%s before maintenance", time.Duration(least)), "the longest is",
		func(i int) bool { return until(i) < least }, until,
		func(until int64) string {
			if until <= 0 {
				return "none: it has started"
			}
			return time.Duration(until).String()
		},
	)
}
