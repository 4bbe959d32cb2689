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
	// Lack is what they lack, Seen what the agents have of it.
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
	// AfterJobs: other jobs must end before.
	AfterJobs
)

// Text reads "3 of 8 tasks lack 2 free V100 on one agent; 41 agents have the
// type, 5 have 1 free".
func (r Reason) Text() string {
	verb := "lack"
	switch {
	case r.Turn == AfterJobs && r.Missing == 1:
		verb = "waits for"
	case r.Turn == AfterJobs:
		verb = "wait for"
	case r.Missing == 1:
		verb = "lacks"
	}
	return fmt.Sprintf("%d of %d %s %s %s; %s", r.Missing, r.Tasks, gpu.Plural(r.Tasks, "task"), verb, r.Lack, r.Seen)
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
	return reasonOf(j, missing, shortage{lack: "a pause after the last attempt", seen: fmt.Sprintf("the next try is in %s", next.Sub(now).Round(time.Second))})
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

// shutOut adds the agents that would do but take no tasks.
func (s *State) shutOut(c *fit.Cluster, d *fit.Demand) string {
	var drained, cordoned []string
	for i, a := range c.Agents() {
		small := d.Request.Share.Whole() && a.TotalGPUs > 0 && a.TotalGPUs < d.Request.GPUs
		if small || !s.shut(a.Hostname, a.ID) || !c.Useful(i, d) {
			continue
		}
		by, _ := CordonedBy(s.cordons, a.Hostname, a.ID)
		name := hostOf(a.Hostname, a.ID)
		if by.Reason != "" {
			name += " (" + by.Reason + ")"
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
	byID    map[string]*fit.Agent
	why     map[kind]shortage
}

func (s *State) count(now time.Time) *explained {
	if s.explained != nil {
		return s.explained
	}
	e := &explained{cluster: fit.NewCluster(s.lastSeen(), s.cfg.Policy.Fit, now), byID: map[string]*fit.Agent{}, why: map[kind]shortage{}}
	agents := e.cluster.Agents()
	for i := range agents {
		e.byID[agents[i].ID] = &agents[i]
	}
	s.explained = e
	return e
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
		why, ok := e.why[key]
		if !ok || len(d.Beside) > 0 {
			told := e.cluster.Explain(&d)
			why = shortage{lack: told.Lack, seen: told.Seen + s.shutOut(e.cluster, &d)}
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
