package metrics

import "time"

// Called, Subscribed and Heard make Counters a master.CallObserver.

// CallFinished counts a call to Mesos and how it went.
func (c *SchedulerCounters) CallFinished(call, result string, took time.Duration) {
	c.calls.WithLabelValues(call, result).Inc()
	c.callTime.Observe(took.Seconds())
}

// SubscriptionAccepted counts a subscription.
func (c *SchedulerCounters) SubscriptionAccepted() { c.subscriptions.Inc() }

// EventReceived notes that the master has sent something.
func (c *SchedulerCounters) EventReceived(at time.Time) {
	c.lastEvent.Set(float64(at.UnixMilli()) / 1000)
}
