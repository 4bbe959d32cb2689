package fit

import (
	"math"
	"regexp"
	"strconv"

	"mesos-gpu/framework/sched/fit/index"
	"mesos-gpu/job"
)

// FieldValue returns the agent's value of a constraint's field.
func (a *AgentResources) FieldValue(name string) (value string, ok bool) {
	switch name {
	case "hostname", "@hostname":
		return a.Hostname, a.Hostname != ""
	case "@region":
		return a.Region, a.Region != ""
	case "@zone":
		return a.Zone, a.Zone != ""
	case "@gpus":
		return strconv.Itoa(a.GPUs), true
	case "@driver":
		return a.Driver, a.Driver != ""
	case job.ReservationField:
		return a.reservationState(), true
	}
	for _, at := range a.Attributes {
		if at.Name == name {
			return at.Value, true
		}
	}
	return "", false
}

// reservationState returns whether the agent offers reserved resources, unreserved ones or both. An agent that offers
// neither counts as unreserved.
func (a *AgentResources) reservationState() string {
	switch {
	case a.Reserved && a.Unreserved:
		return job.SomeReserved
	case a.Reserved:
		return job.Reserved
	default:
		return job.Unreserved
	}
}

// agentFilter is the set of agents that satisfy constraints which depend on
// the agent alone.
type agentFilter struct{ bits []uint64 }

func (f *agentFilter) has(i int) bool { return f.bits[i/64]>>(i%64)&1 != 0 }

// newFilter returns the agents that satisfy the constraints, which depend on
// the agent alone.
func (x *clusterIndex) newFilter(list []job.Constraint) *agentFilter {
	f := &agentFilter{bits: make([]uint64, wordCount(len(x.agents)))}
	for i := range x.agents {
		f.bits[i/64] |= 1 << (i % 64)
	}
	for _, con := range list {
		col := x.findColumn(con.Field)
		ok := make([]bool, len(col.Values()))
		matches := valueMatcher(con)
		for id, v := range col.Values() {
			ok[id] = matches(v)
		}
		for i, id := range col.IDs() {
			if id >= 0 && !ok[id] || id == index.NoValue && con.Operator != job.Unlike {
				f.bits[i/64] &^= 1 << (i % 64)
			}
		}
	}
	return f
}

// valueMatcher returns a test of the values of a constraint's field. No value
// satisfies a constraint that Validate rejects.
func valueMatcher(con job.Constraint) func(value string) bool {
	switch con.Operator {
	case job.Like, job.Unlike:
		re, err := con.CompilePattern()
		if err != nil {
			return func(string) bool { return false }
		}
		return func(v string) bool { return re.MatchString(v) == (con.Operator == job.Like) }
	case job.Cluster:
		return func(v string) bool { return v == con.Value }
	case job.Is:
		want := normalizeScalar(con.Value)
		return func(v string) bool { return v == con.Value || want != "" && normalizeScalar(v) == want }
	default:
		return func(string) bool { return false }
	}
}

var plainNumber = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)$`)

// normalizeScalar formats a number as Marathon's IS compares it: with at most
// three decimals, rounded half to even. It returns "" for other text.
func normalizeScalar(s string) string {
	if !plainNumber.MatchString(s) {
		return ""
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.Abs(f) > float64(maxMilli) {
		return ""
	}
	return strconv.FormatFloat(math.RoundToEven(f*1000)/1000+0, 'f', -1, 64)
}
