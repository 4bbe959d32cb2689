// Package sched is the scheduler's state machine: Step takes one event and returns the operations to send to Mesos. It
// is a pure function of its events: no I/O, no clock, no log, so that the simulator, the fuzzer and production run the
// same code. Which job goes first, what a role may hold, where tasks run and why jobs wait are decided by the packages
// queue, quota, placement and pending.
//
// Files build on each other in one direction: events, operations and settings; the tables of jobs, documents, agents and
// offers; State, which combines them; what happens to one task (transition, kill, retry, task_update); the placement
// cycle, reconciliation and the requests of users and operators; and Step, which calls all of these.
package sched

import (
	"cmp"
	"time"

	"mesos-gpu/framework/sched/fit"
	"mesos-gpu/framework/sched/pending"
	"mesos-gpu/framework/sched/placement"
	"mesos-gpu/framework/sched/queue"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/job"
)

// State is the scheduler's view of jobs, tasks, offers and agents. It changes only in Step, and belongs to one
// goroutine. Job pointers inside it are not shared; accessors return copies. The exported methods of its tables are
// part of its interface.
type State struct {
	// cfg has its defaults filled in. PolicyChanged replaces cfg.Policy; SetQuota changes cfg.Policy.Roles.
	cfg SchedulerSettings
	// now is the time of the current or last Step.
	now time.Time

	// frameworkID is the id that the master assigned, "" before the first subscription. It survives a failover.
	frameworkID string
	// connected is true from Subscribed to Disconnected. Calls to the master are made only meanwhile.
	connected bool
	// subscribedAt is when the current or last subscription started.
	subscribedAt time.Time

	jobTable
	documentStore
	agentTable

	// endedAttempts is an index of the documents that record ended attempts. A retry adds to it.
	endedAttempts endedAttempts
	// unaccounted are the ended attempts that the accounting has not stored yet.
	unaccounted unaccountedAttempts
	// unaccountedEnds is the number of documents with ends of forgotten attempts.
	unaccountedEnds int
	// notifications contains the undelivered notifications.
	notifications notificationQueue
	// used records the usage of ended tasks, for fair share over time.
	used usageLedger
	// deadlines contains the due times of placed tasks. A launch or a change of the task sets them, Tick checks them, the end of
	// the task removes them.
	deadlines deadlineTable
	// clients counts the connected clients of jobs, by name. It is not recorded.
	clients map[string]int
	// reconciliation is the current round of reconciliation.
	reconciliation reconcileRound
	// offers are the held offers. Disconnected makes them void.
	offers offerPool
	// offerDemands is the demand for offers by role. It follows the states of tasks; each Step ends with the calls that
	// make it known to the master.
	offerDemands offerDemands
	// reviveDue is when a postponed REVIVE is due, zero if none exists.
	reviveDue time.Time
	// freed are places of ended tasks that Mesos has not offered again. They expire after freedPlaceTimeout.
	freed freedPlaces
	// returned are the offers that roles have returned for others of late.
	returned returnedOffers

	// strays are the attempts that were given up or replaced and may run. The journal has them.
	strays strayAttempts
	// inspections are the questions to agents that are open, by agent id. absentAgents are the agents with unreachable tasks,
	// with the URL of their API: they are asked when they are back. Both are empty after a subscription, which asks the
	// master about all tasks.
	inspections  map[string]*agentInspection
	absentAgents map[string]string
	// held has the resources that placed tasks and strays hold. conflicts lists the agents that offer some of them.
	held      heldResources
	conflicts map[placement.AgentKey]offerConflict
	// amountsReported is when CPUs or memory that attempts hold were last offered, by agent.
	amountsReported map[string]time.Time
	// timedHolders are the holdings that end at a time: those of machines that have registered under another id, and those
	// that an agent's daemon has reported.
	timedHolders []*holding

	// agentCache and queueCache keep agents, jobs and memory from cycle to cycle. They do not affect plans.
	agentCache agentCache
	queueCache queueCache
	// patterns are the expressions of constraints. They live as long as the State, and do not affect plans either.
	patterns fit.PatternCache
	// taskMix counts the tasks of the remembered jobs by demand, for policies that use typical tasks.
	taskMix taskMix
	// planCount is the number of plans made since New.
	planCount int
	// submittedParts are shared by the jobs that are submitted and by their tasks.
	submittedParts job.Interner
	// reservationReasons are, by run, the reasons of jobs that the last plan kept off reserved resources. They are nil
	// after a change that makes them invalid.
	reservationReasons map[job.RunID]placement.PendingReason
	// blockedClaims are copied from the last plan.
	blockedClaims map[job.RunID]string
	// quotaBlockedRoles are the roles with a job that a quota has blocked in a plan since a task last ended. Offers that
	// only such a job could use were refused for long, so the end of any task revives offers to these roles, whatever
	// blocks their jobs in later plans.
	quotaBlockedRoles map[string]bool
	// explanations explains why jobs wait on the agents as they are now. It is nil after an offer, an agent, a cordon or
	// the policy has changed, and is built when it is next needed.
	explanations *pending.Explainer
	// totals is what the listed agents have in total. It is nil after the list of agents or the policy has changed, and is
	// built when it is next needed.
	totals *fit.TotalCapacity

	// runTimes predicts run times; nil if the settings do not ask for it. reservations has the reservations of the last plan.
	runTimes     *runTimes
	reservations map[string]placement.Reservation

	// configuredRoles are the roles as configured. PolicyChanged replaces them.
	configuredRoles []queue.Role
	// operatorQuotas are the quotas that operators have set at run time, by role. They replace the configured ones in
	// cfg.Policy.Roles, and are kept for roles that are not configured.
	operatorQuotas map[string]quota.Quota
	// mesosQuotas are the quotas that operators of Mesos have set, as the master last reported them.
	mesosQuotas []quota.MesosQuota

	// budgets has the GPU time of the month and the budgets that are used up.
	budgets budgetLedger

	// holds are the holds of users and roles. Those of single jobs are in the jobs.
	holds Holds

	// changes lists the changes that the journal has not recorded yet. TakeChanges empties it.
	changes changeLog
}

// TakeChanges returns what has changed since the last call. The caller records it before it performs the operations
// that Step returned.
func (s *State) TakeChanges() StateChanges {
	c, jobs := s.changes.take(s.tasks)
	c.Documents, s.changedDocuments = s.changedDocuments, nil
	for _, j := range jobs {
		if s.placed.tasks[j] > 0 {
			continue
		}
		c.Shared = append(c.Shared, j)
		if !j.IsTerminal() {
			s.sharedTasks[j] = true
		}
	}
	return c
}

// FrameworkID returns the id that the master assigned, "" before the first subscription.
func (s *State) FrameworkID() string { return s.frameworkID }

// IsConnected reports whether the scheduler is subscribed.
func (s *State) IsConnected() bool { return s.connected }

// CountHeldOffers returns the number of held offers.
func (s *State) CountHeldOffers() int { return len(s.offers.offers) }

// CountPlans returns how many plans have been made.
func (s *State) CountPlans() int { return s.planCount }

// DefaultRole returns the role of jobs that name none.
func (s *State) DefaultRole() string { return s.cfg.Policy.DefaultRole() }

// Roles returns the roles with the quotas that operators have set, the default one first. The caller must not change them.
func (s *State) Roles() []queue.Role { return s.cfg.Policy.Roles }

// roleOf returns the role of a job. It is fixed when the job is submitted.
func (s *State) roleOf(spec *job.Spec) string { return cmp.Or(spec.Role, s.DefaultRole()) }

// roleNames returns all roles, the default one first.
func (s *State) roleNames() []string {
	if len(s.cfg.Policy.Roles) == 0 {
		return []string{""}
	}
	names := make([]string, len(s.cfg.Policy.Roles))
	for i, r := range s.cfg.Policy.Roles {
		names[i] = r.Name
	}
	return names
}

// unreachableTimeout returns how long the agent of a job's task may be unreachable; below 0 means forever.
func (s *State) unreachableTimeout(spec *job.Spec) time.Duration {
	if v := spec.Service; v != nil && v.ReplaceAfter != 0 {
		return v.ReplaceAfter
	}
	return s.cfg.UnreachableTimeout
}
