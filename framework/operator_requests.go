package framework

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/pending"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
	"mesos-gpu/job/editdistance"
)

// ListQueue asks the loop for the order and the reasons.
func (b *leaderBackend) ListQueue(ctx context.Context, p api.PageRequest) (list api.QueueList, err error) {
	err = b.runInLoop(ctx, nil, func(st *sched.State) (err error) {
		order := func() ([]string, error) { return st.QueueOrder(), nil }
		if list, err = b.queuePages.listPage(p, api.GrantOf(ctx), order, st.Job); err != nil || len(list.Jobs) == 0 {
			return err
		}
		names := make([]string, len(list.Jobs))
		for i := range list.Jobs {
			names[i] = list.Jobs[i].Name
		}
		reasons := st.PendingReasons(names...)
		for i := range list.Jobs {
			list.Jobs[i].Reason = b.pendingText(reasons, list.Jobs[i].Name)
		}
		return nil
	})
	return list, err
}

// gpuRequestText reads "2 x A100 or V100", "1 x any type", "1 x (4096 MiB, 30 %) of T4".
func gpuRequestText(r *gpu.Request) string {
	switch {
	case r.GPUs == 0:
		return ""
	case r.Share.IsWhole():
		return fmt.Sprintf("%d x %s", r.GPUs, r.Types)
	default:
		return strings.ReplaceAll(r.String(), " × ", " x ")
	}
}

// ListRoles asks the loop for what they hold.
func (b *leaderBackend) ListRoles(ctx context.Context) (list []api.RoleStatus, err error) {
	err = b.runInLoop(ctx, nil, func(st *sched.State) error {
		list = roleViews(st)
		return nil
	})
	return list, err
}

func roleViews(st *sched.State) []api.RoleStatus {
	var list []api.RoleStatus
	for _, s := range st.RoleUsages() {
		r := api.RoleStatus{
			Name: s.Name, Weight: s.Weight, Order: string(s.Order), Policy: s.FitPolicy, Backfill: !s.Strict,
			Quota: map[string]int{}, QuotaSet: s.QuotaOverridden, Allocated: map[string]float64{}, Waiting: s.Waiting,
		}
		for kind, n := range s.Quota {
			r.Quota[kind] = n
		}
		for kind, milli := range s.Held {
			r.Allocated[kind] = float64(milli) / 1000
		}
		list = append(list, r)
	}
	return list
}

func roleView(st *sched.State, name string) api.RoleStatus {
	for _, r := range roleViews(st) {
		if r.Name == name {
			return r
		}
	}
	return api.RoleStatus{}
}

// SetQuota records a role's quota.
func (b *leaderBackend) SetQuota(ctx context.Context, role string, text *string) (set api.RoleStatus, err error) {
	var limits quota.Quota
	if text != nil {
		if limits, err = quota.Parse(*text); err != nil {
			return set, api.NewProblemf(http.StatusUnprocessableEntity, "%v", err)
		}
	}
	err = b.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := st.AdmitQuota(role); err != nil {
			return api.NewProblemf(http.StatusNotFound, "%v", err)
		}
		set = roleView(st, role)
		if err := api.CheckIfMatch(ctx, api.QuotaETag(&set)); err != nil {
			return err
		}
		apply(sched.SetQuota{Role: role, Quota: limits})
		set = roleView(st, role)
		return nil
	})
	if err != nil || text == nil {
		return set, err
	}
	ctx, cancel := context.WithTimeout(ctx, quotaWarningTimeout)
	defer cancel()
	if agents, err := b.listAgents(ctx); err == nil { // without them nobody can tell
		set.Warnings = quotaTypeWarnings(limits, agents)
	}
	return set, nil
}

// quotaWarningTimeout bounds how long the answer to who has set a quota waits for what
// there is to say of it.
const quotaWarningTimeout = time.Second

// quotaTypeWarnings are the types of a quota that no agent has. That is no mistake of
// those who set quotas before the machines come.
func quotaTypeWarnings(q quota.Quota, agents []master.ListedAgent) []string {
	var warnings []string
	count := countGPUTypes(agents)
	for _, name := range slices.Sorted(maps.Keys(q)) {
		switch wish := (gpu.TypeSelector{Include: []string{name}}); {
		case name == quota.AllTypes || anyAgentHasType(agents, wish):
		case gpu.IsKnownType(name):
			warnings = append(warnings, fmt.Sprintf("quota: no agent has %s yet; this cluster has %s", name, formatTypeCounts(count)))
		default:
			instead := ""
			if best := editdistance.Nearest(strings.ToUpper(name), slices.Sorted(maps.Keys(count))); best != "" {
				instead = fmt.Sprintf("; did you mean %s?", best)
			}
			warnings = append(warnings, fmt.Sprintf("quota: %q bounds nothing: no agent has it and NVIDIA makes none of that name; this cluster has %s%s", name, formatTypeCounts(count), instead))
		}
	}
	return warnings
}

// CordonAgent records that the agent's host gets no tasks.
func (b *leaderBackend) CordonAgent(ctx context.Context, agent, reason string, drain bool) error {
	host, err := b.findHost(ctx, agent)
	if err != nil {
		return err
	}
	return b.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := api.CheckIfMatch(ctx, cordonTag(st.CordonOf(host))); err != nil {
			return err
		}
		apply(sched.CordonHost{Host: host, Reason: reason, Drain: drain})
		return nil
	})
}

// UncordonAgent records that it gets tasks again. One that does is no error.
func (b *leaderBackend) UncordonAgent(ctx context.Context, agent string) error {
	host, err := b.findHost(ctx, agent)
	if err != nil {
		return err
	}
	return b.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := api.CheckIfMatch(ctx, cordonTag(st.CordonOf(host))); err != nil {
			return err
		}
		apply(sched.UncordonHost{Host: host})
		return nil
	})
}

// findHost finds what an agent is cordoned by. One that is away may be cordoned
// before it is back: the master still lists it for a while.
func (b *leaderBackend) findHost(ctx context.Context, agent string) (findHost string, err error) {
	err = b.runInLoop(ctx, nil, func(st *sched.State) error {
		findHost = st.ResolveHost(agent)
		return nil
	})
	if err != nil || findHost != "" {
		return findHost, err
	}
	agents, err := b.listAgents(ctx)
	if err != nil {
		return "", err
	}
	for i := range agents {
		if a := &agents[i]; a.ID == agent || a.Hostname == agent {
			return cmp.Or(a.Hostname, a.ID), nil
		}
	}
	return "", api.UnknownAgent(agent)
}

// GetDemand asks the loop what is lacking. A guess without offers would have
// machines added that nobody needs.
func (b *leaderBackend) GetDemand(ctx context.Context) (list api.DemandList, err error) {
	err = b.runInLoop(ctx, nil, func(st *sched.State) error {
		lacks, ok := st.UnmetDemand()
		if !ok {
			return api.NewUnavailable("the master has not offered for long enough to tell what is lacking")
		}
		for i := range lacks {
			list.Demand = append(list.Demand, demandView(&lacks[i]))
		}
		list.NotYetCounted = st.RecentlyQueuedJobs()
		return nil
	})
	return list, err
}

func demandView(l *pending.UnmetDemand) api.UnmetDemand {
	r := &l.Request
	d := api.UnmetDemand{
		Types: append([]string{}, r.Types.Include...), NotTypes: r.Types.Exclude, GPUs: l.GPUs, PerAgent: r.GPUs, InsufficientResources: l.Missing, MemMiB: r.MinMemMiB,
		MinDriver: r.MinDriver, MinCUDA: r.MinCUDA, Constraints: l.Constraints,
		Tasks: l.Tasks, Jobs: l.Jobs, Roles: l.Roles, CPUs: l.Amount.CPUs, TaskMemMiB: l.Amount.MemMiB,
	}
	switch {
	case len(d.Types) == 1:
		d.Type = d.Types[0]
	case len(d.Types) == 0:
		d.Type = api.AnyType
	}
	if r.Topology != gpu.AnyTopology {
		d.Topology = string(r.Topology)
	}
	if !r.Share.IsWhole() {
		d.Share = &r.Share
	}
	return d
}

// newStateCopy is a scheduler's State made of the view: what it decides is of no
// effect, but it orders and counts as the leader's.
func (b *standbyBackend) newStateCopy() (st *sched.State, err error) {
	cfg := b.s.cfg.Sched
	if cfg.Policy, err = b.s.loadPolicy(); err != nil {
		return nil, err
	}
	st = sched.New(cfg, b.view.liveContents())
	st.Step(b.s.cfg.Clock(), sched.Cycle{}) // tells it the time
	return st, nil
}

// ListQueue is in order, and without the reasons: these are in offers that a
// standby does not get.
func (b *standbyBackend) ListQueue(ctx context.Context, p api.PageRequest) (api.QueueList, error) {
	order := func() ([]string, error) {
		st, err := b.newStateCopy()
		if err != nil {
			return nil, err
		}
		return st.QueueOrder(), nil
	}
	return b.queuePages.listPage(p, api.GrantOf(ctx), order, func(name string) (*job.Job, bool) {
		j, ok := b.view.copyJob(name)
		return &j, ok
	})
}

func (b *standbyBackend) ListRoles(context.Context) ([]api.RoleStatus, error) {
	st, err := b.newStateCopy()
	if err != nil {
		return nil, err
	}
	return roleViews(st), nil
}
