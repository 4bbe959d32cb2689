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

// PendingReason says why a job waits, in numbers.
type PendingReason struct {
	Job string
	// Missing of the job's Tasks have no place.
	Missing, Tasks int
	// Needs is what they wait for, Seen what there is of it.
	Needs, Available string
	// BlockedBy says what else than the agents is in the way.
	BlockedBy BlockedBy
}

// BlockedBy is why a job's turn has not come though agents have room.
type BlockedBy int

const (
	// BlockedByResources: it has come, and no agent has room.
	BlockedByResources BlockedBy = iota
	// BlockedByQuota: its role may hold no more.
	BlockedByQuota
	// BlockedByReservation: the room is kept for a job that goes first.
	BlockedByReservation
)

// Text reads "2 free V100 on one agent; 41 agents have the type, 5 have 1
// free; 3 of 8 tasks wait". What is waited for comes first, since tables cut
// the end off; tasks are counted where not all wait.
func (r PendingReason) Text() string {
	text := r.Needs + "; " + r.Available
	switch {
	case r.Missing >= r.Tasks:
		return text
	case r.Missing == 1:
		return text + fmt.Sprintf("; 1 of %d tasks waits", r.Tasks)
	default:
		return text + fmt.Sprintf("; %d of %d tasks wait", r.Missing, r.Tasks)
	}
}

func (r PendingReason) String() string { return r.Job + ": " + r.Text() }

// pendingCause is a Reason without the job it is about.
type pendingCause struct {
	needs, available string
	blockedBy        BlockedBy
}

func newPendingReason(j *job.Job, missing int, why pendingCause) PendingReason {
	return PendingReason{Job: j.Spec.Name, Missing: missing, Tasks: j.Spec.Tasks, Needs: why.needs, Available: why.available, BlockedBy: why.blockedBy}
}

// deferralReason says why the tasks of a job that wait may not start now.
func (s *State) deferralReason(now time.Time, j *job.Job, missing int) PendingReason {
	if open := j.Spec.UnmetDependencies(); len(open) > 0 {
		return s.dependencyReason(j, missing, open)
	}
	placed := len(j.Tasks) - missing - s.countEnded(j)
	if most := j.Spec.MaxParallel; most > 0 && placed >= most {
		return newPendingReason(j, missing, pendingCause{needs: "the end of another task of the job", available: fmt.Sprintf("%d %s a place, and max_parallel is %d", placed, holdVerb(placed), most)})
	}
	if j.Spec.Gang && placed > 0 {
		return newPendingReason(j, missing, pendingCause{needs: "the end of its other tasks", available: fmt.Sprintf("%d still %s a place, and a gang starts together", placed, holdVerb(placed))})
	}
	var next time.Time
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.State == job.Waiting && t.NotBefore.After(now) && (next.IsZero() || t.NotBefore.Before(next)) {
			next = t.NotBefore
		}
	}
	pause := (next.Sub(now) + time.Second - 1).Truncate(time.Second)
	return newPendingReason(j, missing, pendingCause{needs: fmt.Sprintf("its next try, in %s", pause), available: "a pause follows an attempt that ended"})
}

func holdVerb(n int) string {
	if n == 1 {
		return "holds"
	}
	return "hold"
}

func (s *State) countEnded(j *job.Job) int {
	n := 0
	for i := range j.Tasks {
		if !j.Tasks[i].State.IsLive() {
			n++
		}
	}
	return n
}

// PendingReasons says of each of the jobs that waits why it does, by name, as far as
// the last offers and the last list of agents tell. No name stands for all.
func (s *State) PendingReasons(names ...string) map[string]PendingReason {
	if len(names) == 0 {
		names = s.queue
	}
	reasons := map[string]PendingReason{}
	now := s.now
	explain := s.newExplainer(now)
	var groups map[groupKey][]string
	if slices.ContainsFunc(names, s.isInGroup) { // for which all that waits is gone through
		groups = s.agentsByGroup()
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
		w := s.readyJob(now, j, groups)
		r, waited := s.reservationReasons[name]
		switch {
		case missing == 0:
		case len(w.Tasks) == 0:
			reasons[name] = s.deferralReason(now, j, missing)
		case waited:
			r.Missing = min(r.Missing, missing)
			reasons[name] = r
		default:
			reasons[name] = newPendingReason(j, missing, explain(&w))
		}
	}
	return reasons
}

// describeClosedAgents adds the agents that take no tasks and would do with what they have
// free. For tasks of a gang they would where all of it would start with them.
func (s *State) describeClosedAgents(e *explanationCache, d *fit.Demand, gang int) string {
	if e.withClosed == nil {
		return ""
	}
	if gang > 0 {
		spots := e.withClosed.PlaceTasks(d, gang)
		e.withClosed.UndoPlacements(d, spots)
		if len(spots) < gang {
			return ""
		}
	}
	var drained, cordoned []string
	agents := e.withClosed.Agents()
	for i := range agents {
		a := &agents[i]
		if !s.isClosed(a.Hostname, a.ID) {
			continue
		}
		free, ok := e.withClosed.DescribeFree(i, d)
		if !ok || d.Request.GPUs == 0 && !s.hasOffered(a) { // of GPUs it is known how many there are
			continue
		}
		by, _ := FindCordon(s.cordons, a.Hostname, a.ID)
		name := cordonHost(a.Hostname, a.ID)
		if by.Reason != "" {
			name += " (" + by.Reason + ")"
		}
		if s.hasOffered(a) {
			name += ", with " + free
		} else {
			name += fmt.Sprintf(", which has %d %s and never offered any", a.TotalGPUs, gpu.Plural(a.TotalGPUs, "GPU"))
		}
		if s.listedAgents[a.ID].Draining || by.Drain {
			drained = append(drained, name)
		} else {
			cordoned = append(cordoned, name)
		}
	}
	return describeCandidates(drained, "being drained") + describeCandidates(cordoned, "cordoned")
}

// describeCandidates names one agent, for whoever can let it take tasks again.
func describeCandidates(agents []string, but string) string {
	switch len(agents) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("; 1 agent that would do is %s: %s", but, agents[0])
	default:
		return fmt.Sprintf("; %d agents that would do are %s, such as %s", len(agents), but, agents[0])
	}
}

// explanationCache is a count of the agents, and what it says to equal demands. It
// holds until an offer comes or goes.
type explanationCache struct {
	cluster    *fit.Cluster
	withClosed *fit.Cluster // with what agents have free that take no tasks; nil: all do
	byID       map[string]*fit.AgentResources
	causes     map[explanationKey]pendingCause
}

func (s *State) explanationCacheFor(now time.Time) *explanationCache {
	if s.explanations != nil {
		return s.explanations
	}
	e := &explanationCache{byID: map[string]*fit.AgentResources{}, causes: map[explanationKey]pendingCause{}}
	seen := s.allAgents()
	if slices.ContainsFunc(seen, func(a fit.AgentResources) bool { return s.isClosed(a.Hostname, a.ID) }) {
		e.withClosed = fit.NewCluster(s.assumeFree(seen), s.cfg.Policy.Fit, now)
	}
	e.cluster = fit.NewCluster(s.markClosedAgents(seen), s.cfg.Policy.Fit, now)
	agents := e.cluster.Agents()
	for i := range agents {
		e.byID[agents[i].ID] = &agents[i]
	}
	s.explanations = e
	return e
}

// assumeFree are the agents, of which those that take no tasks and never offered
// anything have free all that they could have.
func (s *State) assumeFree(seen []fit.AgentResources) []fit.AgentResources {
	all := slices.Clone(seen)
	for i := range all {
		a := &all[i]
		if !s.isClosed(a.Hostname, a.ID) || s.hasOffered(a) {
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
func (s *State) hasOffered(a *fit.AgentResources) bool {
	_, known := s.lastOffered[agentKey{a.ID, a.Role}]
	return known
}

func (s *State) isInGroup(name string) bool {
	j := s.jobs[name]
	return j != nil && j.Spec.Group != ""
}

// runningTasks are the tasks that hold places. Of the jobs that wait, mostly the
// many, it asks no more than that.
func (s *State) runningTasks(now time.Time) []RunningTask {
	var list []RunningTask
	for _, name := range s.queue {
		j := s.jobs[name]
		for i := range j.Tasks {
			if j.Tasks[i].State.IsPlaced() {
				list = append(list, s.runningTask(now, j, &j.Tasks[i]))
			}
		}
	}
	return append(list, s.freedPlaces(now)...)
}

// newExplainer says what is in a job's way: its role's quota, or the agents.
func (s *State) newExplainer(now time.Time) func(*WaitingJob) pendingCause {
	var l *quotaTracker
	return func(j *WaitingJob) pendingCause {
		e := s.explanationCacheFor(now)
		d := j.taskDemand(&s.cfg.Policy, e.byID)
		if l == nil {
			l = newQuotaTracker(s.cfg.Policy.Roles, s.runningTasks(now))
			l.agents = e.cluster.Agents()
		}
		narrowed, may, b := l.restrictToQuota(j.Spec.Role, d.Request)
		if may > 0 && j.Spec.Gang && may < len(j.Tasks) {
			b, may = l.tightestLimit(j, b), 0
		}
		if may == 0 {
			why, _ := l.explainLimit(j, b)
			return why
		}
		d.Request = narrowed
		key := explanationKey{demand: demandKeyOf(&d, j.Spec), runs: d.RunTime}
		if j.Spec.Gang {
			key.gang = len(j.Tasks)
		}
		why, ok := e.causes[key]
		if !ok || len(d.PeerAgents) > 0 {
			told := e.cluster.ExplainGang(&d, key.gang)
			why = pendingCause{needs: told.Missing, available: told.Found + s.describeClosedAgents(e, &d, key.gang)}
			e.causes[key] = why
		}
		return b.appendTo(why)
	}
}

// describeGPUs says what kind of GPUs an agent has, for those it is of no use to.
func describeGPUs(a *fit.AgentResources) string {
	types := slices.DeleteFunc(gpuTypesOn(a), func(t string) bool { return t == "" })
	switch {
	case len(types) > 0:
		return strings.Join(types, " or ")
	case a.HasGPUs():
		return "GPUs of no known type"
	default:
		return "an agent without GPUs"
	}
}
