package sched

import (
	"cmp"
	"errors"
	"time"

	"mesos-gpu/framework/notification"
	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/framework/sched/placement"
)

// Defaults that the documentation names.
const (
	DefaultHoldOffers         = 5 * time.Second
	DefaultUnreachableTimeout = 15 * time.Minute
	DefaultMaxLiveTasks       = 100_000
	DefaultLimitShare         = 50
	DefaultKeepRuns           = 10
)

const (
	// killRetryMax and reconcileRetryMax are the longest waits before a KILL and a RECONCILE are repeated.
	killRetryMax, reconcileRetryMax = time.Minute, 5 * time.Minute
	// fullReconcileInterval is how often all tasks are reconciled.
	fullReconcileInterval = 15 * time.Minute
)

// SchedulerSettings are the policy, timeouts and limits of a State. Zero fields have defaults.
type SchedulerSettings struct {
	// Policy decides where tasks run and how roles compete. Operators may change it at run time.
	Policy Policy
	// LaunchTimeout is how long a launch may stay unconfirmed before it is reconciled.
	LaunchTimeout time.Duration
	// MaxLaunchDelay is by how long a partition may delay a launch: TCP repeats what it has sent at growing intervals, of at
	// most two minutes.
	MaxLaunchDelay time.Duration
	// KillRetry is the first wait before a KILL is repeated. Waits double up to killRetryMax.
	KillRetry time.Duration
	// ReconcileRetry is the first wait before a RECONCILE is repeated. Waits double up to reconcileRetryMax.
	ReconcileRetry time.Duration
	// PredictRunTimes predicts the run times of jobs that declare none.
	PredictRunTimes bool
	// HoldOffers is how long an offer is held that a waiting job could use with more resources. Below 0 none is held.
	HoldOffers time.Duration
	// returnOffersEvery is how long an agent's offers are not returned for a role below its share after a return had no effect.
	returnOffersEvery time.Duration
	// UnreachableTimeout is how long an agent may be unreachable before its tasks are retried elsewhere. Below 0 means
	// forever.
	UnreachableTimeout time.Duration
	// RetryDelay is the pause before the second retry of a task that failed or was lost. Pauses double up to
	// RetryDelayMax.
	RetryDelay, RetryDelayMax time.Duration
	// HalfLife is after how long GPU time of the past counts half in the fair share of roles and of users in a role. 0 means
	// that only what tasks hold counts. Roles may have other values.
	HalfLife time.Duration
	// MaxAttempts is how often one task may be lost.
	MaxAttempts int
	// MaxLiveTasks limits the tasks of all jobs that have not ended, MaxSpecBytes their texts in bytes.
	MaxLiveTasks, MaxSpecBytes int
	// LimitShare is the part of these limits, and of that of schedules, in percent, that a role or an owner may use of what
	// the others leave free.
	LimitShare int
	// MaxEndedTasks limits the tasks of remembered ended jobs, maxEndedBytes their texts. The job that ended last is
	// always remembered.
	MaxEndedTasks, maxEndedBytes int
	// KeepRuns is how many runs of a job are remembered at most, with the newest one, and KeepEnded how long any run is
	// after its end; 0 means without limit. Roles may have other values. Both apply within the limits above.
	KeepRuns  int
	KeepEnded time.Duration
	// Accounting means that the caller stores the ends of attempts and reports that by AttemptsAccounted. Those of
	// forgotten attempts are kept until then.
	Accounting bool
}

func (c *SchedulerSettings) setDefaults() {
	c.Policy.SetDefaults()
	setDefault(&c.LaunchTimeout, 30*time.Second)
	setDefault(&c.MaxLaunchDelay, 2*time.Minute)
	setDefault(&c.KillRetry, 5*time.Second)
	setDefault(&c.ReconcileRetry, 15*time.Second)
	setDefault(&c.returnOffersEvery, time.Minute)
	setDefault(&c.RetryDelay, time.Second)
	setDefault(&c.RetryDelayMax, 5*time.Minute)
	c.HoldOffers = cmp.Or(c.HoldOffers, DefaultHoldOffers)
	c.UnreachableTimeout = cmp.Or(c.UnreachableTimeout, DefaultUnreachableTimeout)
	setDefault(&c.MaxAttempts, 5)
	setDefault(&c.MaxLiveTasks, DefaultMaxLiveTasks)
	setDefault(&c.MaxSpecBytes, 256<<20)
	setDefault(&c.LimitShare, DefaultLimitShare)
	c.LimitShare = min(c.LimitShare, 100)
	setDefault(&c.MaxEndedTasks, 100_000)
	setDefault(&c.maxEndedBytes, 256<<20)
	setDefault(&c.KeepRuns, DefaultKeepRuns)
}

// setDefault replaces a value that is not positive.
func setDefault[T cmp.Ordered](v *T, def T) {
	var zero T
	if *v <= zero {
		*v = def
	}
}

// Policy contains the operators' settings that may change at run time.
type Policy struct {
	placement.Policy
	// Permissions limit the host resources that jobs may use. RolePermissions replace them for jobs of some roles and of the
	// roles below.
	Permissions     admission.HostPermissions
	RolePermissions []admission.RolePermissions
	// NotificationTargets are the targets that jobs may notify.
	NotificationTargets notification.AllowedTargets
}

// Validate returns all errors of the policy.
func (p Policy) Validate() error {
	return errors.Join(p.Policy.Validate(), p.Permissions.Validate())
}
