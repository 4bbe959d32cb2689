package pending

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// AgentStatus is whether an agent accepts tasks, and why not.
type AgentStatus struct {
	// Closed agents accept no tasks: they are cordoned or draining, or they are paused.
	Closed, Draining bool
	// Host is the name by which operators cordon the agent, and Reason the reason that they gave.
	Host, Reason string
	// LostLaunches is why the agent is paused, "" if it is not.
	LostLaunches string
	// Conflict describes resources that the agent offers although one of our tasks holds them, "" without any. Whole is
	// then the agent with all offered resources.
	Conflict string
	Whole    *fit.AgentResources
	// Offered reports that the agent's free resources are known from its offers to the role.
	Offered bool
}

// Explainer explains why jobs find no place on a fixed set of agents. It caches its results: when an offer, a cordon
// or the policy changes, the caller creates a new one.
type Explainer struct {
	// policy is the one that plans use.
	policy *placement.Policy
	// status returns whether an agent is cordoned or draining.
	status func(*fit.AgentResources) AgentStatus
	// cluster has all agents with what they have free; closed agents have nothing free.
	cluster *fit.Cluster
	// withClosed is the cluster as if closed agents accepted tasks; nil if none is closed.
	withClosed *fit.Cluster
	// causes are the results so far. Causes of jobs whose constraints depend on their peers are not reused.
	causes map[causeKey]placement.PendingCause
	// exclusions are the counts so far, by the key of the demand.
	exclusions map[causeKey][]job.ExclusionCount
}

// causeKey is equal for jobs that have the same cause.
type causeKey struct {
	// demand is the key of the demand, restricted to the types that the quota allows.
	demand string
	// runs is the expected run time, which matters before maintenance.
	runs time.Duration
	// gang is the number of tasks that must start together, 0 for a job that is no gang.
	gang int
}

// NewExplainer returns an explainer for agents with their free resources. It modifies closed agents. The caller must
// not change p while the explainer is in use.
func NewExplainer(agents []fit.AgentResources, status func(*fit.AgentResources) AgentStatus, p *placement.Policy, now time.Time) *Explainer {
	e := &Explainer{policy: p, status: status, causes: map[causeKey]placement.PendingCause{}, exclusions: map[causeKey][]job.ExclusionCount{}}
	if slices.ContainsFunc(agents, func(a fit.AgentResources) bool { s := status(&a); return s.Closed || s.Conflict != "" }) {
		e.withClosed = fit.NewCluster(assumeFree(agents, status), p.Fit, now)
	}
	for i := range agents {
		if a := &agents[i]; status(a).Closed {
			ClearFree(a)
			a.Closed = true // constraints still count the tasks on it
		}
	}
	e.cluster = fit.NewCluster(agents, p.Fit, now)
	return e
}

// ClearFree removes what an agent has free.
func ClearFree(a *fit.AgentResources) {
	a.Free, a.GPUs, a.DeviceIDs, a.Shared, a.Ports = fit.Amount{}, 0, nil, nil, nil
}

// assumeFree returns the agents as if all that they offer was free, and all resources of closed agents that never offered
// anything.
func assumeFree(agents []fit.AgentResources, status func(*fit.AgentResources) AgentStatus) []fit.AgentResources {
	all := slices.Clone(agents)
	for i := range all {
		a := &all[i]
		s := status(a)
		if s.Conflict != "" {
			*a = *s.Whole
		}
		if !s.Closed || s.Offered {
			continue
		}
		a.Free, a.GPUs, a.Shared = fit.Amount{CPUs: 1 << 20, MemMiB: 1 << 40, DiskMiB: 1 << 40}, a.TotalGPUs, a.AllShared
		a.DeviceIDs = make([]string, len(a.Inventory))
		for n := range a.Inventory {
			a.DeviceIDs[n] = a.Inventory[n].UUID
		}
	}
	return all
}

// Agents returns all agents, sorted by id. The caller must not change them.
func (e *Explainer) Agents() []fit.AgentResources { return e.cluster.Agents() }

// Explain returns why the job's tasks find no place: its role's quota, or the agents' missing resources. usage has the resources
// that roles hold.
func (e *Explainer) Explain(j *queue.WaitingJob, usage *quota.Tracker) placement.PendingCause {
	d := j.TaskDemand(e.policy.Overhead, e.Agents())
	request, guaranteed := usage.RestrictGuaranteed(j.Spec, len(j.Tasks))
	if guaranteed == 0 {
		return placement.QuotaCause(usage.ExplainGuaranteed(j.Spec, len(j.Tasks)))
	}
	if limit := usage.RunningJobsLimit(j.Spec); limit != nil {
		why, _ := usage.Explain(j.Spec, len(j.Tasks), limit)
		return placement.QuotaCause(why)
	}
	restricted, allowed, limit := usage.RestrictJob(j.Spec, request, len(j.Tasks))
	if allowed > 0 && j.Spec.Gang && allowed < len(j.Tasks) {
		limit, allowed = usage.TightestLimit(j.Spec, limit), 0
	}
	if allowed == 0 || usage.ExcludesPresentGPUs(limit, &request, &restricted) {
		why, _ := usage.Explain(j.Spec, len(j.Tasks), limit)
		return placement.QuotaCause(why)
	}
	d.Request = restricted
	key := causeKey{demand: queue.DemandKey(&d, j.Spec), runs: d.RunTime}
	if j.Spec.Gang {
		key.gang = len(j.Tasks)
	}
	cause, known := e.causes[key]
	if !known || len(d.PeerAgents) > 0 {
		s := e.cluster.ExplainGang(&d, key.gang)
		cause = placement.PendingCause{Needs: s.Missing, Available: s.Found + e.describeClosed(&d, key.gang)}
		e.causes[key] = cause
	}
	cause.Available += limit.ExcludedTypeNote()
	return cause
}

// CountExclusions returns how many agents each cause excludes for one task of the job. The caller must not change the
// result.
func (e *Explainer) CountExclusions(j *queue.WaitingJob) []job.ExclusionCount {
	d := j.TaskDemand(e.policy.Overhead, e.Agents())
	key := causeKey{demand: queue.DemandKey(&d, j.Spec), runs: d.RunTime}
	counts, known := e.exclusions[key]
	if !known || len(d.PeerAgents) > 0 {
		counts = e.cluster.CountExclusions(&d)
		e.exclusions[key] = counts
	}
	return counts
}

// describeClosed names closed agents, and agents that offer what our tasks hold, on which the demand would fit; a gang must
// fit as a whole.
func (e *Explainer) describeClosed(d *fit.Demand, gang int) string {
	if e.withClosed == nil {
		return ""
	}
	if gang > 0 {
		places := e.withClosed.PlaceTasks(d, gang)
		e.withClosed.UndoPlacements(d, places)
		if len(places) < gang {
			return ""
		}
	}
	var draining, cordoned, paused, conflicting []string
	agents := e.withClosed.Agents()
	for i := range agents {
		a := &agents[i]
		s := e.status(a)
		if !s.Closed && s.Conflict == "" {
			continue
		}
		free, ok := e.withClosed.DescribeFree(i, d)
		if !ok || d.Request.GPUs == 0 && !s.Offered { // without an offer only the number of GPUs is known
			continue
		}
		name := s.Host
		if why := cmp.Or(s.Reason, s.LostLaunches, s.Conflict); why != "" {
			name += " (" + why + ")"
		}
		if s.Offered {
			name += ", with " + free
		} else {
			name += fmt.Sprintf(", which has %d %s and never offered any", a.TotalGPUs, gpu.Plural(a.TotalGPUs, "GPU"))
		}
		switch {
		case !s.Closed:
			conflicting = append(conflicting, name)
		case s.Draining:
			draining = append(draining, name)
		case s.Reason == "" && s.LostLaunches != "":
			paused = append(paused, name)
		default:
			cordoned = append(cordoned, name)
		}
	}
	return summarizeClosed(draining, "being drained") + summarizeClosed(cordoned, "cordoned") +
		summarizeClosed(paused, "paused") + summarizeClosed(conflicting, "held back")
}

// summarizeClosed counts closed agents and names the first.
func summarizeClosed(agents []string, state string) string {
	switch len(agents) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("; 1 agent that would fit is %s: %s", state, agents[0])
	default:
		return fmt.Sprintf("; %d agents that would fit are %s, such as %s", len(agents), state, agents[0])
	}
}
