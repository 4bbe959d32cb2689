package metrics

import "time"

// Called, Subscribed and Heard make Counters a master.Observer.

// Called counts a call to Mesos and how it went.
func (c *Counters) Called(call, result string, took time.Duration) {
	c.calls.WithLabelValues(call, result).Inc()
	c.call.Observe(took.Seconds())
}

// Subscribed counts a subscription.
func (c *Counters) Subscribed() { c.subscriptions.Inc() }

// Heard notes that the master has sent something.
func (c *Counters) Heard(at time.Time) { c.lastEvent.Set(float64(at.UnixMilli()) / 1000) }
