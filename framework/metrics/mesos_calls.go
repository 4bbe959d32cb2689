package metrics

import "time"

// CallFinished, SubscriptionAccepted and EventReceived implement master.CallObserver.

// CallFinished counts a call to Mesos with its result and duration.
func (c *SchedulerCounters) CallFinished(call, result string, took time.Duration) {
	c.calls.WithLabelValues(call, result).Inc()
	c.callTime.Observe(took.Seconds())
}

// SubscriptionAccepted counts a subscription.
func (c *SchedulerCounters) SubscriptionAccepted() { c.subscriptions.Inc() }

// EventReceived records the time of the last event from the master.
func (c *SchedulerCounters) EventReceived(at time.Time) {
	c.lastEvent.Set(float64(at.UnixMilli()) / 1000)
}
