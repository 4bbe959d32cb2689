package fit

import (
	"math"
	"regexp"
	"strconv"

	"mesos-gpu/job"
)

// Field is what the agent has of a constraint's field, as text.
func (a *Agent) Field(name string) (value string, ok bool) {
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
		return a.reservation(), true
	}
	for _, at := range a.Attributes {
		if at.Name == name {
			return at.Value, true
		}
	}
	return "", false
}

// reservation says which of its resources the agent offers; nothing at all is
// not reserved.
func (a *Agent) reservation() string {
	switch {
	case a.Reserved && a.Unreserved:
		return job.SomeReserved
	case a.Reserved:
		return job.Reserved
	default:
		return job.Unreserved
	}
}

// column is a field of all agents. Equal values share an id; -1 stands for
// none.
type column struct {
	ids    []int32
	values []string
	idOf   map[string]int32
}

func (w *world) column(name string) *column {
	if col := w.columns[name]; col != nil {
		return col
	}
	col := &column{ids: make([]int32, len(w.agents)), idOf: map[string]int32{}}
	for i := range w.agents {
		col.ids[i] = -1
		v, ok := w.agents[i].Field(name)
		if !ok {
			continue
		}
		id, seen := col.idOf[v]
		if !seen {
			id = int32(len(col.values))
			col.idOf[v] = id
			col.values = append(col.values, v)
		}
		col.ids[i] = id
	}
	w.columns[name] = col
	return col
}

// filter is the agents that satisfy some constraints which depend on nothing
// but the agent.
type filter struct{ bits []uint64 }

func (f *filter) has(i int) bool { return f.bits[i/64]>>(i%64)&1 != 0 }

// filter returns nil for no constraints.
func (w *world) filter(list []job.Constraint) *filter {
	if len(list) == 0 {
		return nil
	}
	key := string(appendConstraints(nil, list))
	if f := w.filters[key]; f != nil {
		return f
	}
	f := &filter{bits: make([]uint64, words(len(w.agents)))}
	for i := range w.agents {
		f.bits[i/64] |= 1 << (i % 64)
	}
	for _, con := range list {
		col := w.column(con.Field)
		ok := make([]bool, len(col.values))
		matches := matcher(con)
		for id, v := range col.values {
			ok[id] = matches(v)
		}
		for i, id := range col.ids {
			if id >= 0 && !ok[id] || id < 0 && con.Operator != job.Unlike {
				f.bits[i/64] &^= 1 << (i % 64)
			}
		}
	}
	w.filters[key] = f
	return f
}

// matcher says which values of its field satisfy a constraint. One that
// Validate refuses is satisfied by none.
func matcher(con job.Constraint) func(value string) bool {
	switch con.Operator {
	case job.Like, job.Unlike:
		re, err := con.Pattern()
		if err != nil {
			return func(string) bool { return false }
		}
		return func(v string) bool { return re.MatchString(v) == (con.Operator == job.Like) }
	case job.Cluster:
		return func(v string) bool { return v == con.Value }
	case job.Is:
		want := scalar(con.Value)
		return func(v string) bool { return v == con.Value || want != "" && scalar(v) == want }
	default:
		return func(string) bool { return false }
	}
}

var plainNumber = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)$`)

// scalar writes a number as Marathon's IS compares it: at most three decimals,
// the nearest, the even one of two that are as near. It is "" for other text.
func scalar(s string) string {
	if !plainNumber.MatchString(s) {
		return ""
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.Abs(f) > float64(most) {
		return ""
	}
	return strconv.FormatFloat(math.RoundToEven(f*1000)/1000+0, 'f', -1, 64)
}
