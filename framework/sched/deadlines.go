package sched

import (
	"time"

	"mesos-gpu/internal/backoff"
)

// taskDeadlines are the times at which something is due for a placed task. Zero times are not due.
type taskDeadlines struct {
	// confirmBy is when an unconfirmed launch is reconciled. The first update of the task clears it.
	confirmBy time.Time
	// killSchedule is set when the end of the task is requested.
	killSchedule
	// timeoutAt is when the task exceeds its job's timeout. It is set once the task runs.
	timeoutAt time.Time
	// idleAt is when the task has been without clients for its job's idle timeout.
	idleAt time.Time
	// preemptibleAt is when the task may end for another job: when it has run for its job's MinRunTime.
	preemptibleAt time.Time
	// giveUpAt is when the task is declared lost. It is set while the agent is unreachable, and a requested end of the task
	// does not change it.
	giveUpAt time.Time
	// reportedEnd is set while an end is known without its reason: from a reconciliation or an agent's list of tasks.
	reportedEnd *reportedEnd
	// attemptDoubt is set while it is not known whether the agent has the task, and before a task is first reported that another
	// process has launched.
	attemptDoubt
}

// killSchedule is when KILLs of an attempt are sent.
type killSchedule struct {
	// killAt is when the next KILL is sent.
	killAt time.Time
	// killsSent is the number of KILLs sent; it determines the wait before the next one.
	killsSent int
}

// scheduleNextKill sets when the KILL is repeated that is sent now.
func (k *killSchedule) scheduleNextKill(s *State) {
	k.killAt = s.now.Add(backoff.Delay(s.cfg.KillRetry, killRetryMax, k.killsSent))
	k.killsSent++
}

// deadlineTable has the deadlines of placed tasks by task id. A task without a deadline has no entry.
type deadlineTable map[string]*taskDeadlines

// entry returns the deadlines of a task, and adds an entry if it has no entry.
func (d deadlineTable) entry(id string) *taskDeadlines {
	if d[id] == nil {
		d[id] = &taskDeadlines{}
	}
	return d[id]
}

// dropIdle removes the entry of a task if nothing is due.
func (d deadlineTable) dropIdle(id string) {
	if t := d[id]; t != nil && t.confirmBy.IsZero() && t.killAt.IsZero() && t.timeoutAt.IsZero() && t.idleAt.IsZero() &&
		t.preemptibleAt.IsZero() && t.giveUpAt.IsZero() && t.reportedEnd == nil && t.attemptDoubt.isZero() {
		delete(d, id)
	}
}

// reconcileRound is one round of reconciliation of placed tasks. Each subscription starts a new one.
type reconcileRound struct {
	// unanswered are the ids of tasks whose state the master has not reported in this round. An update or the end of the
	// task removes it.
	unanswered map[string]bool
	// due is when the next RECONCILE of the unanswered tasks is sent.
	due time.Time
	// tries is the number of repeated RECONCILEs; it determines the wait before the next one.
	tries int
	// nextFull is when all tasks are reconciled next. It is independent of the answers.
	nextFull time.Time
}

func isDue(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

// limitWait returns at, but no time that is longer than wait after now. A recovered task may have a later one if the clock
// was set back since it was recorded. Within a process, times do not depend on the clock's setting.
func limitWait(at, now time.Time, wait time.Duration) time.Time {
	if limit := now.Add(wait); at.After(limit) {
		return limit
	}
	return at
}
