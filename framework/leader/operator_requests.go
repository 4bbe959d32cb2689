package leader

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/clusterview"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/pending"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

// ListQueue returns a page of the queue with the reason why each job waits and an estimate of its start. The estimates
// are computed outside the loop, after the page: a long queue takes a second.
func (l *Leader) ListQueue(ctx context.Context, by *access.Grant, p api.PageRequest) (list api.QueueList, err error) {
	err = l.runInLoop(ctx, nil, func(st *sched.State) (err error) {
		order := func() ([]job.RunID, error) { return st.QueueOrder(), nil }
		if list, err = l.queuePages.ListPage(p, by, order, st.Job); err != nil || len(list.Jobs) == 0 {
			return err
		}
		runs := make([]job.RunID, len(list.Jobs))
		for i := range list.Jobs {
			runs[i] = list.Jobs[i].RunID()
		}
		reasons := st.PendingReasons(runs...)
		for i := range list.Jobs {
			list.Jobs[i].Reason = l.pendingText(reasons, runs[i])
		}
		return nil
	})
	if err == nil && len(list.Jobs) > 0 {
		newest := slices.MaxFunc(list.Jobs, func(x, y api.QueuedJob) int { return x.Submitted.Compare(y.Submitted) })
		starts := l.estimateStarts(ctx, newest.Submitted)
		for i := range list.Jobs {
			list.Jobs[i].Start = starts.of(list.Jobs[i].RunID())
		}
	}
	return list, err
}

// ListRoles returns the roles with their usage.
func (l *Leader) ListRoles(ctx context.Context) (list []api.RoleStatus, err error) {
	err = l.runInLoop(ctx, nil, func(st *sched.State) error {
		list = readmodel.RoleViews(st)
		return nil
	})
	return list, err
}

// OperatorCommands change quotas and cordon agents.
type OperatorCommands struct{ leader *Leader }

// SetQuota sets and records a role's quota; a nil text removes it. The result has warnings about GPU types that no agent
// has, unless the master does not answer in time.
func (c *OperatorCommands) SetQuota(ctx context.Context, change request.Change, role string, text *string) (set api.RoleStatus, err error) {
	var limits quota.Quota
	if text != nil {
		if limits, err = quota.Parse(*text); err != nil {
			return set, api.NewProblemf(http.StatusUnprocessableEntity, "%v", err)
		}
	}
	err = c.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := st.AdmitQuota(role); err != nil {
			return api.NewProblemf(http.StatusNotFound, "%v", err)
		}
		set = readmodel.RoleView(st, role)
		if err := change.CheckIfMatch(request.QuotaETag(&set)); err != nil {
			return err
		}
		apply(sched.SetQuota{Role: role, Quota: limits})
		set = readmodel.RoleView(st, role)
		return nil
	})
	if err != nil || text == nil {
		return set, err
	}
	ctx, cancel := context.WithTimeout(ctx, quotaWarningTimeout)
	defer cancel()
	if agents, err := c.leader.SortedAgents(ctx); err == nil { // without the agents there is nothing to compare with
		set.Warnings = clusterview.QuotaTypeWarnings(limits, agents)
	}
	return set, nil
}

// quotaWarningTimeout is how long the answer to a changed quota may wait for the agent
// list, from which warnings are computed.
const quotaWarningTimeout = time.Second

// CordonAgent cordons the agent's host: it gets no new tasks. With drain its tasks are killed too. agent is an agent's ID
// or host name. The cordon belongs to the host, so that it outlasts the agent's ID.
func (c *OperatorCommands) CordonAgent(ctx context.Context, change request.Change, agent, reason string, drain bool) error {
	return c.changeCordon(ctx, change, agent, func(host string) sched.Event {
		return sched.CordonHost{Host: host, Reason: reason, Drain: drain}
	})
}

// UncordonAgent lets the agent's host get tasks again. It is no error if it is not cordoned.
func (c *OperatorCommands) UncordonAgent(ctx context.Context, change request.Change, agent string) error {
	return c.changeCordon(ctx, change, agent, func(host string) sched.Event { return sched.UncordonHost{Host: host} })
}

// changeCordon applies an event to the cordon of the agent's host.
func (c *OperatorCommands) changeCordon(ctx context.Context, change request.Change, agent string, event func(host string) sched.Event) error {
	host, err := c.findHost(ctx, agent)
	if err != nil {
		return err
	}
	return c.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := change.CheckIfMatch(clusterview.CordonTag(st.CordonOf(host))); err != nil {
			return err
		}
		apply(event(host))
		return nil
	})
}

// findHost returns the host by which an agent is cordoned, from its ID or host name. It also finds an agent that
// is disconnected, as long as the master still lists it. Only that needs a request to the master.
func (c *OperatorCommands) findHost(ctx context.Context, agent string) (host string, err error) {
	err = c.leader.runInLoop(ctx, nil, func(st *sched.State) error {
		host = st.ResolveHost(agent)
		return nil
	})
	if err != nil || host != "" {
		return host, err
	}
	agents, err := c.leader.SortedAgents(ctx)
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

// GetDemand returns the unmet demand. It fails until enough offers have arrived: an
// estimate without offers would make an autoscaler add machines that are not needed.
func (l *Leader) GetDemand(ctx context.Context) (list api.DemandList, err error) {
	err = l.runInLoop(ctx, nil, func(st *sched.State) error {
		lacks, ok := st.UnmetDemand()
		if !ok {
			return api.NewUnavailable("the master has not sent offers for long enough to compute the unmet demand")
		}
		for i := range lacks {
			list.Demand = append(list.Demand, demandView(&lacks[i]))
		}
		list.NotYetCounted = st.RecentlyQueuedJobs()
		return nil
	})
	return list, err
}

// demandView returns the API's view of unmet demand. Type repeats the only element of Types for clients that know one
// type per group.
func demandView(l *pending.UnmetDemand) api.UnmetDemand {
	r := &l.Request
	d := api.UnmetDemand{
		Types:                 append([]string{}, r.Types.Named()...),
		NotTypes:              r.Types.Exclude,
		SameType:              r.Types.Same,
		GPUs:                  l.GPUs,
		PerAgent:              r.GPUs,
		InsufficientResources: l.Missing,
		MemMiB:                r.MinMemMiB,
		MinDriver:             r.MinDriver,
		MinCUDA:               r.MinCUDA,
		Constraints:           l.Constraints,
		Tasks:                 l.Tasks,
		Jobs:                  l.Jobs,
		Roles:                 l.Roles,
		CPUs:                  l.Amount.CPUs,
		TaskMemMiB:            l.Amount.MemMiB,
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
