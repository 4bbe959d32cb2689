package leader

import (
	"context"
	"slices"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/notification"
	"mesos-gpu/framework/notifier"
	"mesos-gpu/framework/request"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/usage"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
)

// Notifications delivers notifications, and measures the idle GPUs that some are about.
type Notifications struct {
	leader *Leader
	// notifier delivers notifications; nil if they are not configured.
	notifier *notifier.Notifier
}

// RetryNotification delivers a notification again at once, and starts a new round of attempts.
func (n *Notifications) RetryNotification(ctx context.Context, id string) error {
	return n.changeNotification(ctx, id, sched.RetryNotification{ID: id})
}

// DropNotification removes a notification, whether or not it was delivered.
func (n *Notifications) DropNotification(ctx context.Context, id string) error {
	return n.changeNotification(ctx, id, sched.DropNotification{ID: id})
}

// changeNotification applies an event to a notification; 404 if it does not exist.
func (n *Notifications) changeNotification(ctx context.Context, id string, e sched.Event) error {
	return n.leader.applyInLoop(ctx, func(st *sched.State, apply func(sched.Event)) error {
		if !st.HasNotification(id) {
			return api.UnknownNotification(id)
		}
		apply(e)
		return nil
	})
}

// DeliverNotifications delivers the recorded notifications until ctx ends.
func (n *Notifications) DeliverNotifications(ctx context.Context) error {
	if n.notifier == nil {
		return nil
	}
	return n.notifier.Deliver(ctx, n.leader.Model, n.readErrorLines, n.leader.loop.EventSender(ctx))
}

// longestIdleCheck is the longest pause between two looks for idle GPUs. A pause is at most a quarter of the idle time.
const longestIdleCheck = time.Minute

// WatchIdleGPUs reports the jobs whose GPUs are idle to the scheduler, which notifies their targets, until ctx ends.
func (n *Notifications) WatchIdleGPUs(ctx context.Context) error {
	if n.notifier == nil {
		return nil
	}
	send, tracker := n.leader.loop.EventSender(ctx), notification.IdleGPUTracker{}
	for {
		rule := n.notifier.IdleGPURule()
		select {
		case <-time.After(min(rule.After/4, longestIdleCheck)):
		case <-ctx.Done():
			return nil
		}
		now := n.leader.loop.clock()
		idle, busy := tracker.Update(rule, n.taskDuties(now), now)
		if len(idle) > 0 || len(busy) > 0 {
			send(sched.GPUDutiesMeasured{Idle: idle, Busy: busy, Reason: rule.Reason()})
		}
	}
}

// taskDuties returns the duties of all running tasks with GPUs.
func (n *Notifications) taskDuties(now time.Time) []notification.TaskDuty {
	running, err := n.leader.Model.RunningGPUTasks(request.UsageQuery{})
	if err != nil { // only a query for an unknown job fails
		return nil
	}
	means := map[string]usage.TaskMeans{}
	for _, m := range n.leader.Usage.RecentMeans(now) {
		means[m.ID] = m
	}
	duties := make([]notification.TaskDuty, len(running))
	for i := range running {
		t := &running[i]
		m := means[t.ID]
		duties[i] = notification.TaskDuty{TaskID: t.ID, Run: t.RunID(), Busiest: m.DutyMax, Known: m.Measured >= t.GPUs}
	}
	return duties
}

// Limits of the standard error in a mail.
const (
	mailedLines = 20
	mailedBytes = 4 << 10
)

// readErrorLines returns the end of the standard error of the task that a notification is about. Only targets that the job
// names get it: those of a role may belong to users who may not read the job's output.
func (n *Notifications) readErrorLines(ctx context.Context, about *notification.Notification) []string {
	run := job.RunID{Name: about.Job, Run: about.Run}
	j, ok := n.leader.Model.CopyJob(run.String())
	if !ok || !slices.ContainsFunc(j.Spec.Notify, func(r job.NotificationRule) bool { return r.To == about.To }) {
		return nil
	}
	t, err := n.leader.GetTask(ctx, about.TaskIDs[0])
	if err != nil || t.RunID() != run || t.AgentURL == "" {
		return nil
	}
	_, size, err := n.leader.ReadTaskLog(ctx, t, "stderr", 0, 1)
	if err != nil {
		return nil // it wrote nothing, or its agent is gone
	}
	start := size - min(size, mailedBytes)
	text, _, err := n.leader.ReadTaskLog(ctx, t, "stderr", start, mailedBytes)
	if err != nil {
		return nil
	}
	return term.LastLines(text, start > 0, mailedLines)
}
