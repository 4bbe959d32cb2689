package sched

import (
	"time"
)

// Defaults that operators see.
const (
	DefaultHoldOffers         = 5 * time.Second
	DefaultUnreachableTimeout = 15 * time.Minute
)

// SchedulerSettings says how patient a State is. The zero value takes the defaults.
type SchedulerSettings struct {
	// Policy says where tasks go; zero fields take defaults.
	Policy Policy
	// LaunchTimeout is how long a launch may stay unconfirmed before the
	// master is asked what became of it.
	LaunchTimeout time.Duration
	// KillRetry is the first wait before a KILL is repeated; waits double up
	// to KillRetryMax.
	KillRetry, KillRetryMax time.Duration
	// ReconcileRetry likewise for tasks the master said nothing about.
	ReconcileRetry, ReconcileRetryMax time.Duration
	// ReconcileAll is how often the master is asked for all it knows.
	ReconcileAll time.Duration
	// ReviveEvery bounds how often offers are asked for.
	ReviveEvery time.Duration
	// HoldOffers is how long an offer stays in hand that a waiting job could
	// use once more is free; below zero it is declined at once.
	HoldOffers time.Duration
	// ReturnOffersEvery bounds how often an agent's offers are given back for a role
	// that holds less than its share.
	ReturnOffersEvery time.Duration
	// UnreachableTimeout is how long a task's agent may be away before the
	// task is given up and tried again elsewhere; below zero is for ever.
	UnreachableTimeout time.Duration
	// RetryDelay is the first pause before a task that failed or was lost
	// again is tried anew; pauses double up to RetryDelayMax.
	RetryDelay, RetryDelayMax time.Duration
	// MaxAttempts bounds how often one task may be lost.
	MaxAttempts int
	// MaxLiveTasks bounds the tasks that have not ended, of all jobs.
	MaxLiveTasks int
	// MaxEndedTasks bounds how many tasks the remembered ended jobs have; the
	// job that ended last is remembered in any case.
	MaxEndedTasks int
}

func (c *SchedulerSettings) setDefaults() {
	c.Policy.SetDefaults()
	or := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	or(&c.LaunchTimeout, 30*time.Second)
	or(&c.KillRetry, 5*time.Second)
	or(&c.KillRetryMax, time.Minute)
	or(&c.ReconcileRetry, 15*time.Second)
	or(&c.ReconcileRetryMax, 5*time.Minute)
	or(&c.ReconcileAll, 15*time.Minute)
	or(&c.ReviveEvery, time.Second)
	or(&c.ReturnOffersEvery, time.Minute)
	or(&c.RetryDelay, time.Second)
	or(&c.RetryDelayMax, 5*time.Minute)
	if c.HoldOffers == 0 {
		c.HoldOffers = DefaultHoldOffers
	}
	if c.UnreachableTimeout == 0 {
		c.UnreachableTimeout = DefaultUnreachableTimeout
	}
	if c.MaxLiveTasks <= 0 {
		c.MaxLiveTasks = 100_000
	}
	if c.MaxAttempts <= 0 {
		c.MaxAttempts = 5
	}
	if c.MaxEndedTasks <= 0 {
		c.MaxEndedTasks = 100_000
	}
}

// backoffDelay doubles first for each try already made, up to limit.
func backoffDelay(first, limit time.Duration, tries int) time.Duration {
	d := first
	for range tries {
		if d *= 2; d >= limit {
			return limit
		}
	}
	return d
}
