package leader

import (
	"context"
	"slices"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/notification"
	"mesos-gpu/framework/sched"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
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
	return b.notifier.Deliver(ctx, b.Model, b.readErrorLines, b.loop.EventSender(ctx))
}

// Limits of the standard error in a mail.
const (
	mailedLines = 20
	mailedBytes = 4 << 10
)

// readErrorLines returns the end of the standard error of the task that a notification is about. Only targets that the job
// names get it: those of a role may belong to users who may not read the job's output.
func (b *Leader) readErrorLines(ctx context.Context, n *notification.Notification) []string {
	run := job.RunID{Name: n.Job, Run: n.Run}
	j, ok := b.Model.CopyJob(run.String())
	if !ok || !slices.ContainsFunc(j.Spec.Notify, func(r job.NotificationRule) bool { return r.To == n.To }) {
		return nil
	}
	t, err := b.GetTask(ctx, n.TaskIDs[0])
	if err != nil || t.RunID() != run || t.AgentURL == "" {
		return nil
	}
	_, size, err := b.ReadTaskLog(ctx, t, "stderr", 0, 1)
	if err != nil {
		return nil // it wrote nothing, or its agent is gone
	}
	start := size - min(size, mailedBytes)
	text, _, err := b.ReadTaskLog(ctx, t, "stderr", start, mailedBytes)
	if err != nil {
		return nil
	}
	return term.LastLines(text, start > 0, mailedLines)
}
