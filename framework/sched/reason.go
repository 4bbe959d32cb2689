package sched

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// Reason says why a job waits, in numbers.
type Reason struct {
	Job string
	// Missing of the job's Tasks have no place.
	Missing, Tasks int
	// Lack is what they wait for, Seen what there is of it.
	Lack, Seen string
	// Turn says what else than the agents is in the way.
	Turn Turn
}

// Turn is why a job's turn has not come though agents have room.
type Turn int

const (
	// NoRoom: it has come, and no agent has room.
	NoRoom Turn = iota
	// BehindQuota: its role may hold no more.
	BehindQuota
	// BehindHead: the room is kept for a job that goes first.
	BehindHead
)

// Text reads "2 free V100 on one agent; 41 agents have the type, 5 have 1
// free; 3 of 8 tasks wait". What is waited for comes first, since tables cut
// the end off; tasks are counted where not all wait.
func (r Reason) Text() string {
	text := r.Lack + "; " + r.Seen
	switch {
	case r.Missing >= r.Tasks:
		return text
	case r.Missing == 1:
		return text + fmt.Sprintf("; 1 of %d tasks waits", r.Tasks)
	default:
		return text + fmt.Sprintf("; %d of %d tasks wait", r.Missing, r.Tasks)
	}
}

func (r Reason) String() string { return r.Job + ": " + r.Text() }

// shortage is a Reason without the job it is about.
type shortage struct {
	lack, seen string
	turn       Turn
}

func reasonOf(j *job.Job, missing int, why shortage) Reason {
	return Reason{Job: j.Spec.Name, Missing: missing, Tasks: j.Spec.Tasks, Lack: why.lack, Seen: why.seen, Turn: why.turn}
}

// pausing says why the tasks of a job that wait may not start now.
func (s *State) pausing(now time.Time, j *job.Job, missing int) Reason {
	if open := j.Spec.WaitsFor(); len(open) > 0 {
		return s.awaiting(j, missing, open)
	}
	placed := len(j.Tasks) - missing - s.endedOf(j)
	if most := j.Spec.MaxParallel; most > 0 && placed >= most {
		return reasonOf(j, missing, shortage{lack: "the end of another task of the job", seen: fmt.Sprintf("%d %s a place, and max_parallel is %d", placed, holds(placed), most)})
	}
	if j.Spec.Gang && placed > 0 {
		return reasonOf(j, missing, shortage{lack: "the end of its other tasks", seen: fmt.Sprintf("%d still %s a place, and a gang starts together", placed, holds(placed))})
	}
	var next time.Time
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.State == job.Waiting && t.NotBefore.After(now) && (next.IsZero() || t.NotBefore.Before(next)) {
			next = t.NotBefore
		}
	}
	pause := (next.Sub(now) + time.Second - 1).Truncate(time.Second)
	return reasonOf(j, missing, shortage{lack: fmt.Sprintf("its next try, in %s", pause), seen: "a pause follows an attempt that ended"})
}

func holds(n int) string {
	if n == 1 {
		return "holds"
	}
	return "hold"
}

func (s *State) endedOf(j *job.Job) int {
	n := 0
	for i := range j.Tasks {
		if !j.Tasks[i].State.Live() {
			n++
		}
	}
	return n
}

// Reasons says of each of the jobs that waits why it does, by name, as far as
// the last offers and the last list of agents tell. No name stands for all.
func (s *State) Reasons(names ...string) map[string]Reason {
	if len(names) == 0 {
		names = s.queue
	}
	reasons := map[string]Reason{}
	now := s.now
	explain := s.explainer(now)
	var groups map[group][]string
	if slices.ContainsFunc(names, s.inGroup) { // for which all that waits is gone through
		groups = s.groups()
	}
	for _, name := range names {
		j := s.jobs[name]
		if j == nil {
			continue
		}
		missing := 0
		for i := range j.Tasks {
			if j.Tasks[i].State == job.Waiting {
				missing++
			}
		}
		w := s.ready(now, j, groups)
		r, waited := s.turns[name]
		switch {
		case missing == 0:
		case len(w.Tasks) == 0:
			reasons[name] = s.pausing(now, j, missing)
		case waited:
			r.Missing = min(r.Missing, missing)
			reasons[name] = r
		default:
			reasons[name] = reasonOf(j, missing, explain(&w))
		}
	}
	return reasons
}

// shutOut adds the agents that take no tasks and would do with what they have
// free. For tasks of a gang they would where all of it would start with them.
func (s *State) shutOut(e *explained, d *fit.Demand, gang int) string {
	if e.all == nil {
		return ""
	}
	if gang > 0 {
		spots := e.all.Fill(d, gang)
		e.all.Undo(d, spots)
		if len(spots) < gang {
			return ""
		}
	}
	var drained, cordoned []string
	agents := e.all.Agents()
	for i := range agents {
		a := &agents[i]
		if !s.shut(a.Hostname, a.ID) {
			continue
		}
		free, ok := e.all.Free(i, d)
		if !ok || d.Request.GPUs == 0 && !s.hasOffered(a) { // of GPUs it is known how many there are
			continue
		}
		by, _ := CordonedBy(s.cordons, a.Hostname, a.ID)
		name := hostOf(a.Hostname, a.ID)
		if by.Reason != "" {
			name += " (" + by.Reason + ")"
		}
		if s.hasOffered(a) {
			name += ", with " + free
		} else {
			name += fmt.Sprintf(", which has %d %s and never offered any", a.TotalGPUs, gpu.Plural(a.TotalGPUs, "GPU"))
		}
		if s.cluster[a.ID].Draining || by.Drain {
			drained = append(drained, name)
		} else {
			cordoned = append(cordoned, name)
		}
	}
	return wouldDo(drained, "being drained") + wouldDo(cordoned, "cordoned")
}

// wouldDo names one agent, for whoever can let it take tasks again.
func wouldDo(agents []string, but string) string {
	switch len(agents) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("; 1 agent that would do is %s: %s", but, agents[0])
	default:
		return fmt.Sprintf("; %d agents that would do are %s, such as %s", len(agents), but, agents[0])
	}
}

// explained is a count of the agents, and what it says to equal demands. It
// holds until an offer comes or goes.
type explained struct {
	cluster *fit.Cluster
	all     *fit.Cluster // with what agents have free that take no tasks; nil: all do
	byID    map[string]*fit.Agent
	why     map[kind]shortage
}

func (s *State) count(now time.Time) *explained {
	if s.explained != nil {
		return s.explained
	}
	e := &explained{byID: map[string]*fit.Agent{}, why: map[kind]shortage{}}
	seen := s.lastSeen()
	if slices.ContainsFunc(seen, func(a fit.Agent) bool { return s.shut(a.Hostname, a.ID) }) {
		e.all = fit.NewCluster(s.supposed(seen), s.cfg.Policy.Fit, now)
	}
	e.cluster = fit.NewCluster(s.closed(seen), s.cfg.Policy.Fit, now)
	agents := e.cluster.Agents()
	for i := range agents {
		e.byID[agents[i].ID] = &agents[i]
	}
	s.explained = e
	return e
}

// supposed are the agents, of which those that take no tasks and never offered
// anything have free all that they could have.
func (s *State) supposed(seen []fit.Agent) []fit.Agent {
	all := slices.Clone(seen)
	for i := range all {
		a := &all[i]
		if !s.shut(a.Hostname, a.ID) || s.hasOffered(a) {
			continue
		}
		a.Free, a.GPUs, a.Shared = Amount{CPUs: 1 << 20, MemMiB: 1 << 40, DiskMiB: 1 << 40}, a.TotalGPUs, a.AllShared
		a.DeviceIDs = make([]string, len(a.Inventory))
		for n := range a.Inventory {
			a.DeviceIDs[n] = a.Inventory[n].UUID
		}
	}
	return all
}

// hasOffered reports whether an agent's free resources are known, from its offers
// to the role.
func (s *State) hasOffered(a *fit.Agent) bool {
	_, known := s.agents[agentKey{a.ID, a.Role}]
	return known
}

func (s *State) inGroup(name string) bool {
	j := s.jobs[name]
	return j != nil && j.Spec.Group != ""
}

// holding are the tasks that hold places. Of the jobs that wait, mostly the
// many, it asks no more than that.
func (s *State) holding(now time.Time) []Running {
	var list []Running
	for _, name := range s.queue {
		j := s.jobs[name]
		for i := range j.Tasks {
			if j.Tasks[i].State.Placed() {
				list = append(list, s.running(now, j, &j.Tasks[i]))
			}
		}
	}
	return append(list, s.gone(now)...)
}

// explainer says what is in a job's way: its role's quota, or the agents.
func (s *State) explainer(now time.Time) func(*Job) shortage {
	var l *ledger
	return func(j *Job) shortage {
		e := s.count(now)
		d := j.demand(&s.cfg.Policy, e.byID)
		if l == nil {
			l = newLedger(s.cfg.Policy.Roles, s.holding(now))
			l.agents = e.cluster.Agents()
		}
		narrowed, may, b := l.narrow(j.Spec.Role, d.Request)
		if may > 0 && j.Spec.Gang && may < len(j.Tasks) {
			b, may = l.tightest(j, b), 0
		}
		if may == 0 {
			why, _ := l.shortage(j, b)
			return why
		}
		d.Request = narrowed
		key := kind{wish: wishOf(&d, j.Spec), runs: d.Runs}
		if j.Spec.Gang {
			key.gang = len(j.Tasks)
		}
		why, ok := e.why[key]
		if !ok || len(d.Beside) > 0 {
			told := e.cluster.ExplainAll(&d, key.gang)
			why = shortage{lack: told.Lack, seen: told.Seen + s.shutOut(e, &d, key.gang)}
			e.why[key] = why
		}
		return b.beside(why)
	}
}

// describe says what kind of GPUs an agent has, for those it is of no use to.
func describe(a *fit.Agent) string {
	types := slices.DeleteFunc(typesOn(a), func(t string) bool { return t == "" })
	switch {
	case len(types) > 0:
		return strings.Join(types, " or ")
	case a.HasGPUs():
		return "GPUs of no known type"
	default:
		return "an agent without GPUs"
	}
}
