package leader

import (
	"sync/atomic"
	"time"

	"mesos-gpu/framework/clusterview"
	"mesos-gpu/framework/journal"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/metrics"
	"mesos-gpu/framework/readmodel"
	"mesos-gpu/framework/sched"
)

// roleShareInterval is how often the shares of roles are computed for metrics: that visits all jobs, in the loop.
const roleShareInterval = 10 * time.Second

// gpuTimeRecordInterval is how often the GPU time used by tasks is recorded. After a failover the counters may lack that
// much.
const gpuTimeRecordInterval = 30 * time.Second

// loopMetrics holds the loop's counters. Only the loop uses them, except counters.
type loopMetrics struct {
	// counters count since the start of the process, also while it is a standby.
	counters *metrics.SchedulerCounters
	// gpuTime adds up the GPU time of tasks. recorded is when it was last recorded.
	gpuTime  *metrics.GPUTimeTracker
	recorded time.Time
	// roleShares contains the deserved, demanded and entitled GPUs of roles, their decayed usage and budgets, as of sharesComputed.
	// Metrics read them without the loop.
	roleShares     *atomic.Pointer[roleFigures]
	sharesComputed time.Time
}

// roleFigures contains the metrics of roles besides the counts of their tasks.
type roleFigures struct {
	shares  []metrics.RoleShare
	hosts   []metrics.HostShare
	recent  []metrics.RecentUsage
	budgets []metrics.Budget
}

// newLoopMetrics returns the metrics of a term. GPU time continues from what the journal contains; a record that cannot be
// read is logged, and GPU time then starts at 0.
func newLoopMetrics(cfg LoopConfig, past journal.JournalContents, v *readmodel.Model) loopMetrics {
	now := cfg.Clock()
	gpuTime, err := cfg.Counters.RestoreGPUTime(sched.RecoveredState(past), v.EarlierAttempts(), now)
	if err != nil {
		cfg.Log.WithError(err).Warn("GPU hours are counted from 0")
	}
	return loopMetrics{counters: cfg.Counters, gpuTime: gpuTime, recorded: now, roleShares: &atomic.Pointer[roleFigures]{}}
}

// countOperations counts recorded operations before they are carried out.
func (m *loopMetrics) countOperations(now time.Time, ops []sched.Operation, moves []sched.StateTransition, held int) {
	m.counters.CountActions(now, ops, moves, held)
	m.gpuTime.ApplyActions(now, ops, moves)
}

// recordGPUTime adds the GPU time used so far to the next write to the journal, once
// every gpuTimeRecordInterval.
func (l *Loop) recordGPUTime() {
	now := l.clock()
	if since := now.Sub(l.recorded); since >= 0 && since < gpuTimeRecordInterval {
		return
	}
	l.recorded = now
	if document := l.gpuTime.EncodeRecord(now); document != nil {
		l.applyEvent(sched.CountersChanged{Value: document})
	}
}

// computeRoleShares computes what roles deserve, demand, are entitled to, have used of late and of their budgets, once every
// roleShareInterval. Without roles that deserve GPUs, have a half-life or a budget there is nothing to compute.
func (l *Loop) computeRoleShares() {
	now := l.clock()
	if since := now.Sub(l.sharesComputed); since >= 0 && since < roleShareInterval {
		return
	}
	l.sharesComputed = now
	var figures roleFigures
	if l.state.Reclaims() || l.state.HasHalfLife() || l.state.HasBudgets() {
		roles := readmodel.RoleViews(l.state)
		figures = roleFigures{readmodel.RoleShares(roles), readmodel.HostShares(roles), readmodel.RecentUsages(roles), readmodel.Budgets(roles)}
	}
	l.roleShares.Store(&figures)
}

// UpdateAgents stores the master's list of agents for constraints and metrics, and
// notifies clients that watch the inventory of changes.
func (l *Leader) UpdateAgents(list []master.ListedAgent) {
	l.agentFields.UpdateAgents(list)
	l.countAgents(list)
	if l.inventory.UpdateAndCompare(list) {
		l.Model.PublishInventoryChange()
	}
}

// countAgents counts the GPUs of the agents that can run new tasks: those that are inactive, draining or cordoned do not
// count.
func (l *Leader) countAgents(agents []master.ListedAgent) {
	all, cordons := map[string]metrics.GPUCount{}, l.Model.CordonedHosts()
	for i := range agents {
		a := &agents[i]
		if _, cordoned := sched.FindCordon(cordons, a.Hostname, a.ID); !a.Active || a.Draining || cordoned {
			continue
		}
		for kind, n := range clusterview.CountGPUs(a) {
			sum := all[kind]
			all[kind] = metrics.GPUCount{All: sum.All + n.All, Free: sum.Free + n.Free}
		}
	}
	all = l.loop.counters.GPUsByLabel(all)
	l.gpuCounts.SetCounts(all)
}
