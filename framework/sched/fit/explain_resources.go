package fit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mesos-gpu/gpu"
)

// plainResource is a resource other than GPUs, with its unit. Amounts are in
// thousandths.
type plainResource struct {
	// unit names the resource in explanations.
	unit         string
	free         func(r *agentCapacity) int64
	need         func(cl *demandClass) int64
	reserved     func(h *reservedResources) int64
	overheadPart func(a milliAmount) int64
}

func plainResources() []plainResource {
	plain := func(unit string, of func(milliAmount) int64) plainResource {
		return plainResource{
			unit: unit, overheadPart: of,
			free:     func(r *agentCapacity) int64 { return of(r.free) },
			need:     func(cl *demandClass) int64 { return of(cl.need) },
			reserved: func(h *reservedResources) int64 { return of(h.amount) },
		}
	}
	return []plainResource{
		plain("CPUs", func(a milliAmount) int64 { return a.cpus }),
		plain("MiB of memory", func(a milliAmount) int64 { return a.mem }),
		plain("MiB of disk", func(a milliAmount) int64 { return a.disk }),
		{
			unit: "ports", overheadPart: func(milliAmount) int64 { return 0 },
			free:     func(r *agentCapacity) int64 { return int64(r.portCount) * 1000 },
			need:     func(cl *demandClass) int64 { return int64(cl.portCount) * 1000 },
			reserved: func(*reservedResources) int64 { return 0 },
		},
	}
}

// availableOn returns how much of the resource the demand may have on an agent.
func (p *plainResource) availableOn(q *demandExplainer, i int) int64 {
	r := &q.capacities[i]
	n := p.free(r)
	if q.class.avoidsReserved && r.reservation > 0 {
		n -= p.reserved(&q.reservations[r.reservation-1])
	}
	return n
}

// explainPlain explains a demand without GPUs.
func (e *demandExplainer) explainPlain(agents []int) Shortage {
	rules := e.buildRules()
	good := filterIndices(agents, func(i int) bool { return !failsAny(rules, i) })
	if len(good) > 0 || len(agents) == 0 {
		short := e.explainPlainShortage(good, "")
		if bad := filterIndices(agents, func(i int) bool { return failsAny(rules, i) }); len(bad) > 0 {
			short.Found += "; of the others " + worstRule(rules, bad)
		}
		return short
	}
	return Shortage{e.missingText(), fmt.Sprintf("%s, %s", e.describeKnown(len(agents)), worstRule(rules, agents))}
}

// explainPlainShortage returns the plain resource that the most agents lack. The agents have the GPUs that the demand
// needs; gpus names these GPUs, "" for none.
func (e *demandExplainer) explainPlainShortage(agents []int, gpus string) Shortage {
	list := plainResources()
	if len(agents) == 0 {
		return Shortage{e.missingPlain(list[0], gpus), "no agent is known yet"}
	}
	lacking := func(x plainResource) int {
		return len(filterIndices(agents, func(i int) bool { return x.availableOn(e, i) < x.need(e.class) }))
	}
	worst := slices.MaxFunc(list, func(x, y plainResource) int { return cmp.Compare(lacking(x), lacking(y)) })
	if port, free := e.scarcestPort(agents); len(agents)-free > lacking(worst) {
		return e.explainPort(port, free, len(agents), gpus)
	}
	var most int64
	for _, i := range agents {
		most = max(most, worst.availableOn(e, i))
	}
	largest := "the most free on one is"
	if e.ofTotals {
		largest = "the largest has"
	}
	seen := fmt.Sprintf("%s, %s %s", e.describeKnown(len(agents)), largest, formatMilli(most))
	if gpus != "" {
		seen = fmt.Sprintf("%s the GPUs, %s %s", agentsHave(len(agents)), largest, formatMilli(most))
	}
	return Shortage{e.missingPlain(worst, gpus), seen}
}

// scarcestPort returns the required port that the fewest agents have free, and
// how many do. Without required ports, all agents do.
func (e *demandExplainer) scarcestPort(agents []int) (port, free int) {
	free = len(agents)
	for _, p := range e.class.hostPorts {
		if p == 0 {
			continue
		}
		if n := len(filterIndices(agents, func(i int) bool { return findRange(e.capacities[i].ports, p) >= 0 })); n < free {
			port, free = p, n
		}
	}
	return port, free
}

func (e *demandExplainer) explainPort(port, free, agents int, gpus string) Shortage {
	missing, with := fmt.Sprintf("host port %d", port), ""
	if gpus != "" {
		missing, with = missing+" and "+gpus, " with the GPUs"
	}
	found := fmt.Sprintf("port %d is free on", port)
	if e.ofTotals {
		found = fmt.Sprintf("port %d is offered by", port)
	}
	return Shortage{missing + " on one agent", fmt.Sprintf("%s %d of %d %s%s", found, free, agents, gpu.Plural(agents, "agent"), with)}
}

func (e *demandExplainer) missingPlain(x plainResource, gpus string) string {
	s := e.neededText(x, 1)
	if gpus != "" {
		s += " and " + gpus
	}
	return s + " on one agent"
}

// neededText formats how much of the resource the given number of tasks needs in total.
func (e *demandExplainer) neededText(x plainResource, tasks int) string {
	s := x.formatAmount(x.need(e.class) * int64(tasks))
	if part := x.overheadPart(e.demand.Overhead.toMilli()) * int64(tasks); part > 0 {
		s += fmt.Sprintf(" (including %s for the %s)", formatMilli(part), gpu.Plural(tasks, "executor"))
	}
	return s
}

// formatAmount returns "1 CPU", "1.5 CPUs".
func (p *plainResource) formatAmount(milli int64) string {
	if one, many := strings.CutSuffix(p.unit, "s"); many && milli == 1000 {
		return "1 " + one
	}
	return formatMilli(milli) + " " + p.unit
}

// missingText formats what the demand needs first: GPUs, or else CPUs.
func (e *demandExplainer) missingText() string {
	if e.class.gpus == 0 {
		return e.missingPlain(plainResources()[0], "")
	}
	return e.wantedText() + " on one agent"
}
