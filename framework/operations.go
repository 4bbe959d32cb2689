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
	"mesos-gpu/gpu"
	"mesos-gpu/job"
	"mesos-gpu/job/spell"
)

// Queue asks the loop for the order and the reasons.
func (b *leader) Queue(ctx context.Context, p api.Page) (list api.QueueList, err error) {
	err = b.ask(ctx, nil, func(st *sched.State) (err error) {
		order := func() ([]string, error) { return st.Lineup(), nil }
		if list, err = b.lineups.page(p, api.GrantOf(ctx), order, st.Job); err != nil || len(list.Jobs) == 0 {
			return err
		}
		names := make([]string, len(list.Jobs))
		for i := range list.Jobs {
			names[i] = list.Jobs[i].Name
		}
		reasons := st.Reasons(names...)
		for i := range list.Jobs {
			list.Jobs[i].Reason = b.waits(reasons, list.Jobs[i].Name)
		}
		return nil
	})
	return list, err
}

// wishText reads "2 x A100 or V100", "1 x any type", "1 x (4096 MiB, 30 %) of T4".
func wishText(r *gpu.Request) string {
	switch {
	case r.GPUs == 0:
		return ""
	case r.Share.Whole():
		return fmt.Sprintf("%d x %s", r.GPUs, r.Types)
	default:
		return strings.ReplaceAll(r.String(), " × ", " x ")
	}
}

// Roles asks the loop for what they hold.
func (b *leader) Roles(ctx context.Context) (list []api.Role, err error) {
	err = b.ask(ctx, nil, func(st *sched.State) error {
		list = rolesOf(st)
		return nil
	})
	return list, err
}

func rolesOf(st *sched.State) []api.Role {
	var list []api.Role
	for _, s := range st.Standings() {
		r := api.Role{
			Name: s.Name, Weight: s.Weight, Order: string(s.Order), Policy: s.Policy, Backfill: !s.Strict,
			Quota: map[string]int{}, QuotaSet: s.Set, Held: map[string]float64{}, Waiting: s.Waiting,
		}
		for kind, n := range s.Quota {
			r.Quota[kind] = n
		}
		for kind, milli := range s.Held {
			r.Held[kind] = float64(milli) / 1000
		}
		list = append(list, r)
	}
	return list
}

func roleOf(st *sched.State, name string) api.Role {
	for _, r := range rolesOf(st) {
		if r.Name == name {
			return r
		}
	}
	return api.Role{}
}

// SetQuota records a role's quota.
func (b *leader) SetQuota(ctx context.Context, role string, text *string) (set api.Role, err error) {
	var quota sched.Quota
	if text != nil {
		if quota, err = sched.ParseQuota(*text); err != nil {
			return set, api.Problemf(http.StatusUnprocessableEntity, "%v", err)
		}
	}
	err = b.try(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := st.AdmitQuota(role); err != nil {
			return api.Problemf(http.StatusNotFound, "%v", err)
		}
		set = roleOf(st, role)
		if err := api.Match(ctx, api.QuotaTag(&set)); err != nil {
			return err
		}
		apply(sched.SetQuota{Role: role, Quota: quota})
		set = roleOf(st, role)
		return nil
	})
	if err != nil || text == nil {
		return set, err
	}
	ctx, cancel := context.WithTimeout(ctx, warningWait)
	defer cancel()
	if agents, err := b.list(ctx); err == nil { // without them nobody can tell
		set.Warnings = absentTypes(quota, agents)
	}
	return set, nil
}

// warningWait bounds how long the answer to who has set a quota waits for what
// there is to say of it.
const warningWait = time.Second

// absentTypes are the types of a quota that no agent has. That is no mistake of
// those who set quotas before the machines come.
func absentTypes(q sched.Quota, agents []master.Agent) []string {
	var warnings []string
	count := typeCounts(agents)
	for _, name := range slices.Sorted(maps.Keys(q)) {
		switch wish := (gpu.Types{Include: []string{name}}); {
		case name == sched.AllTypes || hasType(agents, wish):
		case gpu.Known(name):
			warnings = append(warnings, fmt.Sprintf("quota: no agent has %s yet; this cluster has %s", name, inventory(count)))
		default:
			instead := ""
			if best := spell.Nearest(strings.ToUpper(name), slices.Sorted(maps.Keys(count))); best != "" {
				instead = fmt.Sprintf("; did you mean %s?", best)
			}
			warnings = append(warnings, fmt.Sprintf("quota: %q bounds nothing: no agent has it and NVIDIA makes none of that name; this cluster has %s%s", name, inventory(count), instead))
		}
	}
	return warnings
}

// Cordon records that the agent's host gets no tasks.
func (b *leader) Cordon(ctx context.Context, agent, reason string, drain bool) error {
	host, err := b.host(ctx, agent)
	if err != nil {
		return err
	}
	return b.try(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := api.Match(ctx, cordonTag(st.Cordoned(host))); err != nil {
			return err
		}
		apply(sched.Cordon{Host: host, Reason: reason, Drain: drain})
		return nil
	})
}

// Uncordon records that it gets tasks again. One that does is no error.
func (b *leader) Uncordon(ctx context.Context, agent string) error {
	host, err := b.host(ctx, agent)
	if err != nil {
		return err
	}
	return b.try(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if err := api.Match(ctx, cordonTag(st.Cordoned(host))); err != nil {
			return err
		}
		apply(sched.Uncordon{Host: host})
		return nil
	})
}

// host finds what an agent is cordoned by. One that is away may be cordoned
// before it is back: the master still lists it for a while.
func (b *leader) host(ctx context.Context, agent string) (host string, err error) {
	err = b.ask(ctx, nil, func(st *sched.State) error {
		host = st.Host(agent)
		return nil
	})
	if err != nil || host != "" {
		return host, err
	}
	agents, err := b.list(ctx)
	if err != nil {
		return "", err
	}
	for i := range agents {
		if a := &agents[i]; a.ID == agent || a.Hostname == agent {
			return cmp.Or(a.Hostname, a.ID), nil
		}
	}
	return "", api.Problemf(http.StatusNotFound, "there is no agent with the id or hostname %q", agent)
}

// Demand asks the loop what is lacking. A guess without offers would have
// machines added that nobody needs.
func (b *leader) Demand(ctx context.Context) (list api.DemandList, err error) {
	err = b.ask(ctx, nil, func(st *sched.State) error {
		lacks, ok := st.Lacking()
		if !ok {
			return api.NotYet("the master has not offered for long enough to tell what is lacking")
		}
		for i := range lacks {
			list.Demand = append(list.Demand, demandOf(&lacks[i]))
		}
		list.Settling = st.Settling()
		return nil
	})
	return list, err
}

func demandOf(l *sched.Lack) api.Demand {
	r := &l.Request
	d := api.Demand{
		Types: append([]string{}, r.Types.Include...), NotTypes: r.Types.Exclude, GPUs: l.GPUs, PerAgent: r.GPUs, Short: l.Short, MemMiB: r.MinMemMiB,
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
	if !r.Share.Whole() {
		d.Share = &r.Share
	}
	return d
}

// copied is a scheduler's State made of the view: what it decides is of no
// effect, but it orders and counts as the leader's.
func (b *standby) copied() (st *sched.State, err error) {
	cfg := b.s.cfg.Sched
	if cfg.Policy, err = b.s.policy(); err != nil {
		return nil, err
	}
	st = sched.New(cfg, b.view.live())
	st.Step(b.s.cfg.Clock(), sched.Cycle{}) // tells it the time
	return st, nil
}

// Queue is in order, and without the reasons: these are in offers that a
// standby does not get.
func (b *standby) Queue(ctx context.Context, p api.Page) (api.QueueList, error) {
	order := func() ([]string, error) {
		st, err := b.copied()
		if err != nil {
			return nil, err
		}
		return st.Lineup(), nil
	}
	return b.lineups.page(p, api.GrantOf(ctx), order, func(name string) (*job.Job, bool) {
		j, ok := b.view.job(name)
		return &j, ok
	})
}

func (b *standby) Roles(context.Context) ([]api.Role, error) {
	st, err := b.copied()
	if err != nil {
		return nil, err
	}
	return rolesOf(st), nil
}

func (b *standby) SetQuota(ctx context.Context, _ string, _ *string) (r api.Role, err error) {
	return r, b.Elsewhere(ctx)
}
func (b *standby) Cordon(ctx context.Context, _, _ string, _ bool) error { return b.Elsewhere(ctx) }
func (b *standby) Uncordon(ctx context.Context, _ string) error          { return b.Elsewhere(ctx) }

// Demand is the leader's to tell: it depends on its offers.
func (b *standby) Demand(ctx context.Context) (l api.DemandList, err error) {
	return l, b.Elsewhere(ctx)
}

func (n nobody) Queue(context.Context, api.Page) (l api.QueueList, err error) {
	return l, n.problem()
}
func (n nobody) Roles(context.Context) ([]api.Role, error) { return nil, n.problem() }
func (n nobody) SetQuota(context.Context, string, *string) (r api.Role, err error) {
	return r, n.problem()
}
func (n nobody) Cordon(context.Context, string, string, bool) error   { return n.problem() }
func (n nobody) Uncordon(context.Context, string) error               { return n.problem() }
func (n nobody) Demand(context.Context) (l api.DemandList, err error) { return l, n.problem() }
