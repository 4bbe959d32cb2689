package metrics

import (
	"time"

	"mesos-gpu/framework/sched/pending"
	"mesos-gpu/job"
)

// Snapshot is the state of a scheduler at one time. The zero value is empty. Each scrape has its own: the read model
// fills it with CountJob, and the leader adds what only it knows.
type Snapshot struct {
	// IsLeader means that this scheduler leads. Connected means that it is subscribed to
	// a master; a standby never is.
	IsLeader, Connected bool
	// Cordoned is the number of hosts whose agents operators have cordoned.
	Cordoned int
	// Now is the time of the snapshot. Without it, waiting times are unknown.
	Now time.Time
	// GPUs counts the GPUs of agents that accept tasks, by type. A standby has none.
	GPUs map[string]GPUCount
	// GPUSeconds are the last recorded totals of GPU time.
	GPUSeconds []GPUSeconds
	// RoleShares contains the deserved, demanded and entitled GPUs of roles. It is empty unless a role
	// deserves GPUs, and on a standby.
	RoleShares []RoleShare
	// HostShares contains what roles deserve, demand and hold of CPUs and memory. It is empty unless a role deserves some, and on
	// a standby.
	HostShares []HostShare
	// RecentUsages contains the decayed usage of roles with a half-life of the fair share. A standby has none.
	RecentUsages []RecentUsage
	// Budgets contains the amounts of roles' budgets. It is empty on a standby.
	Budgets []Budget
	// Accounting are the figures of the accounting, nil without one.
	Accounting *AccountingFigures
	// Notifications are the figures of notifications, nil if they are not configured.
	Notifications *NotificationFigures
	// Gauges are the gauges of an extension.
	Gauges []ExtensionGauge

	// counters contains the scheduler's counters, exported together with the snapshot. types has their labels.
	counters *SchedulerCounters
	types    *labelValues
	// jobs counts the recorded jobs by state; roles has the counts of tasks by role. CountJob adds to both.
	jobs  map[job.State]int
	roles map[string]*roleCounts
}

// NewSnapshot returns an empty snapshot that is exported together with the counters.
func (c *SchedulerCounters) NewSnapshot(now time.Time) Snapshot {
	return Snapshot{Now: now, counters: c, types: c.types}
}

// AccountingFigures describe the store of ended attempts.
type AccountingFigures struct {
	// Stored and Lost count ends of attempts since the start of the process. Waiting ends are not stored yet.
	Stored, Lost, Waiting int
	// Bytes is the used part of the file. Failed is set while it cannot be written.
	Bytes  int64
	Failed bool
}

// NotificationFigures describe the deliveries of notifications.
type NotificationFigures struct {
	Webhooks, Mails DeliveryCounts
	// Dropped counts notifications that were not recorded because too many of them waited, since the start of the process.
	Dropped int
	// Pending are to be delivered, GivenUp were given up.
	Pending, GivenUp int
}

// DeliveryCounts counts attempts to deliver notifications since the start of the process.
type DeliveryCounts struct{ Sent, Failed int }

// GPUCount counts GPUs: all of them, and those that no task of any framework holds.
type GPUCount struct{ All, Free int }

// RoleShare contains the GPUs of one type that a role and the roles below it deserve, demand and are
// entitled to. Type "*" counts all.
type RoleShare struct {
	Role, Type                   string
	Deserved, Demanded, Entitled float64
}

// HostShare contains what a role and the roles below it deserve, demand and hold of one resource of agents: CPUs, or memory in
// bytes.
type HostShare struct {
	Role, Resource           string
	Deserved, Demanded, Held float64
}

// RecentUsage is the mean number of GPUs that a role's own tasks have held, in which the past counts half after each
// half-life.
type RecentUsage struct {
	Role                  string
	GPUs, HalfLifeSeconds float64
}

// Budget is one amount of a role's budget, and what is used of it in the month. User is "" for the amount of all users together,
// Type "*" for that of all types. Amounts are GPU hours or their cost.
type Budget struct {
	Role, User, Type string
	Used, Amount     float64
	// HeldTasks is the number of waiting tasks that get no GPUs of it, because it is used up.
	HeldTasks int
}

// roleCounts counts the tasks and GPUs of one role.
type roleCounts struct {
	// tasks counts by state.
	tasks map[job.State]int
	// allocated are thousandths of GPUs that placed tasks hold, by type.
	allocated map[string]int
	// textBytes is the size of the texts of live jobs, which the scheduler limits.
	textBytes int
	// queue has the waiting tasks by the type that they request, deferred those that may not be placed yet.
	queue    map[string]*queueCounts
	deferred map[pending.DeferralReason]int
}

// queueCounts counts the waiting tasks that request one type.
type queueCounts struct {
	// tasks is their number, gpus what they request together.
	tasks int
	gpus  int
	// since is the start of the longest wait; zero if unknown.
	since time.Time
}

// ExtensionGauge is a gauge of an extension.
type ExtensionGauge struct {
	// Name excludes the common prefix mesos_gpu_. Gauges with the same Name must have
	// the same Help and the same keys in Labels.
	Name, Help string
	// Labels must have few values: Prometheus stores a series for each combination.
	Labels map[string]string
	Value  float64
}

// CountJob adds a job and its tasks to the snapshot. held is whether the job, its user or its role is held.
func (s *Snapshot) CountJob(j *job.Job, held bool) {
	if s.jobs == nil {
		s.jobs, s.roles = map[job.State]int{}, map[string]*roleCounts{}
	}
	if s.types == nil {
		s.types = newLabelValues()
	}
	s.jobs[j.State()]++
	r := s.roleCountsFor(j.Spec.Role)
	if !j.IsTerminal() {
		r.textBytes += j.Spec.TextBytes()
	}
	waits := false
	for i := range j.Tasks {
		t := &j.Tasks[i]
		r.tasks[t.State]++
		switch {
		case t.State == job.Waiting:
			waits = true
		case t.State.IsPlaced():
			for kind, n := range t.GPUTypes {
				r.allocated[s.types.deviceLabel(kind)] += n * milliPerGPU
			}
			for _, p := range t.Shares {
				r.allocated[s.types.deviceLabel(p.Type)] += p.MilliDevices
			}
		}
	}
	if waits {
		s.countWaiting(r, j, held)
	}
}

// roleCountsFor returns the counts of a role, which it adds if there are none.
func (s *Snapshot) roleCountsFor(name string) *roleCounts {
	name = sanitizeLabel(name)
	r := s.roles[name]
	if r == nil {
		r = &roleCounts{tasks: map[job.State]int{}, allocated: map[string]int{}, queue: map[string]*queueCounts{}, deferred: map[pending.DeferralReason]int{}}
		s.roles[name] = r
	}
	return r
}

// countWaiting counts the waiting tasks of a job: those that wait for resources, and
// those that are deferred, by reason.
func (s *Snapshot) countWaiting(r *roleCounts, j *job.Job, held bool) {
	ready, since := pending.CountReady(s.Now, j, held, func(why pending.DeferralReason, tasks int) { r.deferred[why] += tasks })
	if ready == 0 {
		return
	}
	kind := s.types.requestLabel(&j.Spec.Request)
	q := r.queue[kind]
	if q == nil {
		q = &queueCounts{}
		r.queue[kind] = q
	}
	q.tasks += ready
	q.gpus += ready * j.Spec.Request.GPUs
	if !since.IsZero() && (q.since.IsZero() || since.Before(q.since)) {
		q.since = since
	}
}

// milliPerGPU is the number of units per GPU; shares are counted in thousandths.
const milliPerGPU = 1000
