package metrics

import (
	"context"
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"mesos-gpu/framework/sched/pending"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

const (
	namespace = "mesos_gpu"
	subsystem = "scheduler"
)

// snapshotCollector exports one Snapshot. Values that the snapshot lacks, such as those of the accounting, have no series.
type snapshotCollector struct {
	Snapshot
	// One description for each metric; the collector creates the values when it is read.
	jobs, tasks, textBytes, allocated, isLeader, connected, cordoned *prometheus.Desc
	deserved, demanded, entitled, recent, halfLife                   *prometheus.Desc
	// hosts has the descriptions of deserved, demanded and held resources of agents, by resource.
	hosts                                                                           map[string][3]*prometheus.Desc
	budgetUsed, budget, budgetHeldTasks                                             *prometheus.Desc
	waiting, deferred, waitingGPUs, oldestWaiting, gpus, free, gpuSeconds           *prometheus.Desc
	notified, notificationsDropped, notificationsWaiting                            *prometheus.Desc
	accounted, accountingLost, accountingWaiting, accountingBytes, accountingFailed *prometheus.Desc
}

// newCollector returns the collector for one scrape.
func newCollector(ctx context.Context, v SnapshotSource) (*snapshotCollector, error) {
	s, err := v.MetricsSnapshot(ctx)
	if err != nil {
		return nil, err
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, subsystem, name), help, labels, nil)
	}
	return &snapshotCollector{
		Snapshot:  s,
		jobs:      desc("jobs", "Jobs by state, including remembered ones that have ended.", "state"),
		tasks:     desc("tasks", "Tasks by their job's role and by state, including remembered ones that have ended.", "role", "state"),
		textBytes: desc("job_text_bytes", "Bytes of the texts of jobs that have not ended, by role, as the scheduler limits them.", "role"),
		allocated: desc("gpus_held", "GPUs that tasks hold, by role and type; the type is empty if the agent does not report it.", "role", "type"),
		deserved:  desc("gpus_deserved", "GPUs that a role gets while it demands them, by type; * counts all.", "role", "type"),
		demanded:  desc("gpus_demanded", "GPUs that tasks of a role and of the roles below it hold or wait for, by type.", "role", "type"),
		entitled:  desc("gpus_entitled", "GPUs that a role would have if all demand were divided by what roles deserve and by weight, by type.", "role", "type"),
		hosts: map[string][3]*prometheus.Desc{
			quota.CPUs: {
				desc("cpus_deserved", "CPUs that a role gets while it demands them.", "role"),
				desc("cpus_demanded", "CPUs that tasks of a role and of the roles below it hold or wait for.", "role"),
				desc("cpus_held", "CPUs that tasks of a role and of the roles below it hold.", "role"),
			},
			quota.Memory: {
				desc("memory_deserved_bytes", "Memory of agents that a role gets while it demands it.", "role"),
				desc("memory_demanded_bytes", "Memory of agents that tasks of a role and of the roles below it hold or wait for.", "role"),
				desc("memory_held_bytes", "Memory of agents that tasks of a role and of the roles below it hold.", "role"),
			},
		},
		recent: desc("gpus_recent",
			"Mean number of GPUs that a role's own tasks have held, in which the past counts half after each half-life of the fair share.",
			"role"),
		halfLife: desc("fair_share_half_life_seconds", "Time after which GPU time of the past counts half in the fair share of a role.", "role"),
		budgetUsed: desc("budget_used",
			"GPU hours, or their cost, that are used of an amount of a role's budget in this month (UTC), by user and GPU type.",
			"role", "user", "type"),
		budget: desc("budget", "An amount of a role's budget for a month in GPU hours, or their cost, by user and GPU type.", "role", "user", "type"),
		budgetHeldTasks: desc("budget_held_tasks",
			"Waiting tasks that get no GPUs of an amount of a role's budget, because it is used up.", "role", "user", "type"),
		waiting:       desc("waiting_tasks", "Tasks that wait to be placed, by role and by the type of GPU that they request.", "role", "type"),
		deferred:      desc("deferred_tasks", "Tasks that wait for something before they may be placed, by role and reason.", "role", "reason"),
		waitingGPUs:   desc("waiting_gpus", "GPUs that tasks wait for, by role and type; a share of one counts as one.", "role", "type"),
		oldestWaiting: desc("oldest_waiting_seconds", "Longest time that a task has waited for a place, by role and type.", "role", "type"),
		gpus:          desc("gpus", "GPUs of agents that accept tasks, by type.", "type"),
		free:          desc("gpus_free", "GPUs of agents that accept tasks and that no task of any framework holds, by type.", "type"),
		gpuSeconds: desc("gpu_seconds_total",
			"Seconds for which tasks have held GPUs, by role and type. The journal stores them, so that a new leader continues the count.",
			"role", "type"),
		notified: desc("notification_deliveries_total",
			"Attempts to deliver notifications since the scheduler's start, by channel and result.", "channel",
			"result"),
		notificationsDropped: desc("notifications_dropped_total",
			"Notifications that were not recorded because too many of them waited, since the scheduler's start."),
		notificationsWaiting: desc("notifications", "Notifications that were not delivered, by state.", "state"),
		accounted:            desc("accounting_stored_total", "Ends of attempts that the accounting has stored since the scheduler's start."),
		accountingLost:       desc("accounting_lost_total", "Ends of attempts that were forgotten while the accounting could not store them."),
		accountingWaiting:    desc("accounting_waiting", "Ends of attempts that the accounting has not stored yet."),
		accountingBytes:      desc("accounting_size_bytes", "Used part of the accounting's file."),
		accountingFailed:     desc("accounting_failed", "1 while the accounting's file cannot be written."),
		isLeader:             desc("leads", "1 if this scheduler is the leader, 0 if it is a standby."),
		connected:            desc("connected", "1 while this scheduler has a subscription to a Mesos master."),
		cordoned:             desc("cordoned_agents", "Hosts that operators have cordoned, whether their agents are registered or not."),
	}, nil
}

// Describe implements prometheus.Collector.
func (c *snapshotCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *snapshotCollector) Collect(ch chan<- prometheus.Metric) {
	put := func(d *prometheus.Desc, value float64, labels ...string) {
		sendMetric(ch, d, prometheus.GaugeValue, value, labels...)
	}
	put(c.isLeader, boolValue(c.IsLeader))
	put(c.connected, boolValue(c.Connected))
	put(c.cordoned, float64(c.Cordoned))
	for _, s := range job.States() {
		put(c.jobs, float64(c.Snapshot.jobs[s]), string(s))
	}
	for name, r := range c.roles {
		for _, s := range job.States() {
			put(c.tasks, float64(r.tasks[s]), name, string(s))
		}
		put(c.textBytes, float64(r.textBytes), name)
		for kind, q := range r.queue {
			put(c.waiting, float64(q.tasks), name, kind)
			if q.gpus > 0 {
				put(c.waitingGPUs, float64(q.gpus), name, kind)
			}
			if !q.since.IsZero() && !c.Now.IsZero() {
				put(c.oldestWaiting, max(c.Now.Sub(q.since), 0).Seconds(), name, kind)
			}
		}
		for _, why := range pending.AllDeferralReasons() {
			put(c.deferred, float64(r.deferred[why]), name, string(why))
		}
		for kind, n := range r.allocated {
			put(c.allocated, float64(n)/milliPerGPU, name, kind)
		}
	}
	for _, r := range c.RoleShares {
		role, kind := sanitizeLabel(r.Role), sanitizeLabel(r.Type)
		put(c.deserved, r.Deserved, role, kind)
		put(c.demanded, r.Demanded, role, kind)
		put(c.entitled, r.Entitled, role, kind)
	}
	for _, h := range c.HostShares {
		role, descs := sanitizeLabel(h.Role), c.hosts[h.Resource]
		put(descs[0], h.Deserved, role)
		put(descs[1], h.Demanded, role)
		put(descs[2], h.Held, role)
	}
	for _, r := range c.RecentUsages {
		role := sanitizeLabel(r.Role)
		put(c.recent, r.GPUs, role)
		put(c.halfLife, r.HalfLifeSeconds, role)
	}
	for _, b := range c.Budgets {
		labels := []string{sanitizeLabel(b.Role), sanitizeLabel(b.User), sanitizeLabel(b.Type)}
		put(c.budgetUsed, b.Used, labels...)
		put(c.budget, b.Amount, labels...)
		put(c.budgetHeldTasks, float64(b.HeldTasks), labels...)
	}
	for kind, n := range c.GPUs {
		put(c.gpus, float64(n.All), kind)
		put(c.free, float64(n.Free), kind)
	}
	for _, s := range c.GPUSeconds {
		sendMetric(ch, c.gpuSeconds, prometheus.CounterValue, s.Seconds, sanitizeLabel(s.Role), sanitizeLabel(s.Type))
	}
	if a := c.Accounting; a != nil {
		sendMetric(ch, c.accounted, prometheus.CounterValue, float64(a.Stored))
		sendMetric(ch, c.accountingLost, prometheus.CounterValue, float64(a.Lost))
		put(c.accountingWaiting, float64(a.Waiting))
		put(c.accountingBytes, float64(a.Bytes))
		put(c.accountingFailed, boolValue(a.Failed))
	}
	if n := c.Notifications; n != nil {
		for channel, counts := range map[string]DeliveryCounts{"webhook": n.Webhooks, "mail": n.Mails} {
			sendMetric(ch, c.notified, prometheus.CounterValue, float64(counts.Sent), channel, "sent")
			sendMetric(ch, c.notified, prometheus.CounterValue, float64(counts.Failed), channel, "failed")
		}
		sendMetric(ch, c.notificationsDropped, prometheus.CounterValue, float64(n.Dropped))
		put(c.notificationsWaiting, float64(n.Pending), "pending")
		put(c.notificationsWaiting, float64(n.GivenUp), "failed")
	}
	for _, g := range c.Gauges {
		keys := slices.Sorted(maps.Keys(g.Labels))
		var values []string
		for _, k := range keys {
			values = append(values, sanitizeLabel(g.Labels[k]))
		}
		put(prometheus.NewDesc(namespace+"_"+g.Name, g.Help, keys, nil), g.Value, values...)
	}
}

// sendMetric sends a value. Labels that are not valid fail the scrape, so that the mistake is noticed.
func sendMetric(ch chan<- prometheus.Metric, d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
	m, err := prometheus.NewConstMetric(d, kind, value, labels...)
	if err != nil {
		m = prometheus.NewInvalidMetric(d, err)
	}
	ch <- m
}

func boolValue(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
