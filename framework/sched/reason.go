package sched

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mesos-gpu/gpu"
)

// Reason says why a job waits, in numbers.
type Reason struct {
	Job string
	// Missing of the job's Tasks have no place.
	Missing, Tasks int
	// Lack is what they lack, Seen what the agents have of it.
	Lack, Seen string
}

// Text reads "3 of 8 tasks lack 2 free V100 on one agent; 41 agents have the
// type, 5 have 1 free".
func (r Reason) Text() string {
	verb := "lack"
	if r.Missing == 1 {
		verb = "lacks"
	}
	return fmt.Sprintf("%d of %d %s %s %s; %s", r.Missing, r.Tasks, gpu.Plural(r.Tasks, "task"), verb, r.Lack, r.Seen)
}

func (r Reason) String() string { return r.Job + ": " + r.Text() }

// shortage is a Reason without the job it is about.
type shortage struct{ lack, seen string }

// kindName is how the wish is called in "2 free V100".
func (o *order) kindName() string {
	if o.wish.types.Any() {
		return gpu.Plural(o.wish.n, "GPU")
	}
	return o.wish.types.String()
}

// explain says what the agents lack for one task of the order.
func (o *order) explain(agents []*agent) shortage {
	room := 0
	for _, a := range agents {
		if o.fits(a) > 0 {
			room++
		}
	}
	if room > 0 {
		return shortage{"an offer", fmt.Sprintf("%d %s had room when last offered", room, gpu.Plural(room, "agent"))}
	}
	if o.wish.n == 0 {
		return o.explainRest(agents, "")
	}
	lack := fmt.Sprintf("%d free %s on one agent", o.wish.n, o.kindName())
	var typed, enough []*agent
	for _, a := range agents {
		if o.wish.kind(a) {
			typed = append(typed, a)
		}
		if o.wish.free(a) >= o.wish.n {
			enough = append(enough, a)
		}
	}
	switch {
	case len(enough) > 0:
		return o.explainRest(enough, fmt.Sprintf("%d free %s", o.wish.n, o.kindName()))
	case len(typed) == 0:
		return shortage{lack, o.seenOther(agents)}
	default:
		return shortage{lack, o.seenTyped(typed)}
	}
}

// seenTyped counts the free GPUs on agents that have the type.
func (o *order) seenTyped(typed []*agent) string {
	most, with, largest := 0, 0, 0
	told := true
	for _, a := range typed {
		switch n := o.wish.free(a); {
		case n > most:
			most, with = n, 1
		case n == most:
			with++
		}
		total := o.wish.total(a)
		told = told && total > 0
		largest = max(largest, total)
	}
	noun := "the type"
	if o.wish.types.Any() {
		noun = gpu.Plural(2, "GPU")
	}
	seen := fmt.Sprintf("%s %s, ", have(len(typed)), noun)
	switch {
	case told && largest < o.wish.n:
		return seen + fmt.Sprintf("the largest has %d", largest)
	case most == 0:
		return seen + "none has one free"
	case with == 1:
		return seen + fmt.Sprintf("1 has %d free", most)
	default:
		return seen + fmt.Sprintf("%d have %d free", with, most)
	}
}

func have(agents int) string {
	if agents == 1 {
		return "1 agent has"
	}
	return fmt.Sprintf("%d agents have", agents)
}

// seenOther says what there is where the type is nowhere.
func (o *order) seenOther(agents []*agent) string {
	if len(agents) == 0 {
		return "no agent is known yet"
	}
	count := map[string]int{}
	for _, a := range agents {
		once := map[string]bool{}
		for _, m := range a.models() {
			once[gpu.TypeOf(m)] = true
		}
		for t := range once {
			count[t]++
		}
	}
	if len(count) == 0 {
		return fmt.Sprintf("%s no GPU", have(len(agents)))
	}
	var have []string
	for t, n := range count {
		have = append(have, fmt.Sprintf("%s on %d", t, n))
	}
	slices.Sort(have)
	return fmt.Sprintf("no agent has the type, %d %s known: %s", len(agents), areAgents(len(agents)), strings.Join(have, ", "))
}

func areAgents(n int) string {
	if n == 1 {
		return "agent is"
	}
	return "agents are"
}

// quantity is one of the plain resources, with its unit.
type quantity struct {
	unit string
	of   func(amount) int64
}

func quantities() []quantity {
	return []quantity{
		{"cpus", func(a amount) int64 { return a.cpus }},
		{"MiB of memory", func(a amount) int64 { return a.mem }},
		{"MiB of disk", func(a amount) int64 { return a.disk }},
	}
}

// explainRest says which plain resource is short on agents that have the GPUs
// (beside, where the job wants some). It names the one most agents lack.
func (o *order) explainRest(agents []*agent, beside string) shortage {
	if len(agents) == 0 {
		return shortage{o.lackPlain(quantities()[0], beside), "no agent is known yet"}
	}
	list := quantities()
	lacking := func(q quantity) int {
		n := 0
		for _, a := range agents {
			if q.of(a.free) < q.of(o.need) {
				n++
			}
		}
		return n
	}
	worst := slices.MaxFunc(list, func(x, y quantity) int { return cmp.Compare(lacking(x), lacking(y)) })
	var most int64
	for _, a := range agents {
		most = max(most, worst.of(a.free))
	}
	seen := fmt.Sprintf("%d %s known, the most free on one is %s", len(agents), areAgents(len(agents)), number(most))
	if beside != "" {
		seen = fmt.Sprintf("%s the GPUs, the most free on one is %s", have(len(agents)), number(most))
	}
	return shortage{o.lackPlain(worst, beside), seen}
}

func (o *order) lackPlain(q quantity, beside string) string {
	s := fmt.Sprintf("%s %s", number(q.of(o.need)), q.unit)
	if part := q.of(o.extra.milli()); part > 0 {
		s += fmt.Sprintf(" (%s of it for the executor)", number(part))
	}
	if beside != "" {
		return s + " beside " + beside + " on one agent"
	}
	return s + " on one agent"
}

// refusal says why one agent's offers do not do, with both numbers.
func (o *order) refusal(a *agent) string {
	if free := o.wish.free(a); free < o.wish.n {
		return fmt.Sprintf("%s wants %d %s, agent has %d free", o.spec.Name, o.wish.n, o.kindName(), free)
	}
	for _, q := range quantities() {
		if q.of(a.free) < q.of(o.need) {
			return fmt.Sprintf("%s wants %s %s, agent has %s", o.spec.Name, number(q.of(o.need)), q.unit, number(q.of(a.free)))
		}
	}
	return o.spec.Name + " was placed elsewhere"
}
