package readmodel

import (
	"cmp"
	"maps"
	"slices"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/notification"
)

// applyNotification applies the journal's record of a notification; nil deletes it. The caller holds the lock.
func (m *Model) applyNotification(id string, n *notification.Notification) {
	if n == nil {
		delete(m.notifications, id)
	} else {
		m.notifications[id] = n
	}
	select {
	case m.notificationsChanged <- struct{}{}:
	default: // an element is already there
	}
}

// NotificationsChanged returns a channel that has an element after notifications have changed. It is for one reader.
func (m *Model) NotificationsChanged() <-chan struct{} { return m.notificationsChanged }

// Notifications returns the notifications that were not delivered, in no order. The caller must not change them.
func (m *Model) Notifications() []*notification.Notification {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.AppendSeq(make([]*notification.Notification, 0, len(m.notifications)), maps.Values(m.notifications))
}

// CountNotifications counts the notifications to be delivered, and those that were given up.
func (m *Model) CountNotifications() (pending, givenUp int) {
	for _, n := range m.Notifications() {
		if n.IsFailed() {
			givenUp++
		} else {
			pending++
		}
	}
	return pending, givenUp
}

// ListNotifications returns the notifications that were not delivered, oldest first, without what may be secret in their
// targets.
func (m *Model) ListNotifications() []api.NotificationView {
	list := m.Notifications()
	slices.SortFunc(list, func(a, b *notification.Notification) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID))
	})
	views := make([]api.NotificationView, len(list))
	for i, n := range list {
		views[i] = notificationView(n)
	}
	return views
}

func notificationView(n *notification.Notification) api.NotificationView {
	view := api.NotificationView{
		ID: n.ID, To: notification.RedactTarget(n.To), Event: n.Event, Time: n.Time, Job: n.Job, Run: n.Run, Role: n.Role, Owner: n.Owner,
		State: api.NotificationPending, Attempts: n.Attempts, Next: n.Next, Error: n.Error, GivenUp: n.GivenUp,
	}
	if n.IsFailed() {
		view.State = api.NotificationFailed
	}
	return view
}
