package sched

import "time"

// Config says how patient a State is. The zero value takes the defaults.
type Config struct {
	// Policy ranks agents; without comparators it is BestFit.
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
	// MaxAttempts bounds how often one task is tried.
	MaxAttempts int
	// KeepEnded bounds how many tasks the remembered ended jobs have; the
	// job that ended last is remembered in any case.
	KeepEnded int
}

func (c *Config) setDefaults() {
	if len(c.Policy.GPU) == 0 && len(c.Policy.CPU) == 0 {
		c.Policy = BestFit()
	}
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
	if c.MaxAttempts <= 0 {
		c.MaxAttempts = 5
	}
	if c.KeepEnded <= 0 {
		c.KeepEnded = 50_000
	}
}

// backoff doubles first for each try already made, up to limit.
func backoff(first, limit time.Duration, tries int) time.Duration {
	d := first
	for range tries {
		if d *= 2; d >= limit {
			return limit
		}
	}
	return d
}
