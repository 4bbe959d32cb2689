package leader

import (
	"context"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/sched"
)

// RetryNotification delivers a notification again at once, and starts a new round of attempts.
func (b *Leader) RetryNotification(ctx context.Context, id string) error {
	return b.changeNotification(ctx, id, sched.RetryNotification{ID: id})
}

// DropNotification removes a notification, whether or not it was delivered.
func (b *Leader) DropNotification(ctx context.Context, id string) error {
	return b.changeNotification(ctx, id, sched.DropNotification{ID: id})
}

// changeNotification applies an event to a notification; 404 if it does not exist.
func (b *Leader) changeNotification(ctx context.Context, id string, e sched.Event) error {
	return b.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if !st.HasNotification(id) {
			return api.UnknownNotification(id)
		}
		apply(e)
		return nil
	})
}

// DeliverNotifications delivers the recorded notifications until ctx ends.
func (b *Leader) DeliverNotifications(ctx context.Context) error {
	if b.notifier == nil {
		return nil
	}
	return b.notifier.Deliver(ctx, b.Model, b.loop.EventSender(ctx))
}
