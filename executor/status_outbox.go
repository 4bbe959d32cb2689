package executor

import (
	"bytes"
	"context"
	"slices"
	"sync"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"
)

// statusOutbox stores the tasks and status updates that the agent has not
// acknowledged, in order. Each SUBSCRIBE carries all of them. While the
// executor is subscribed, later updates are sent one by one.
type statusOutbox struct {
	mu sync.Mutex
	// subscribed is set while the agent's event stream is open. Without it no
	// update is sent: the next SUBSCRIBE carries them.
	subscribed bool
	// tasks are the tasks of which the agent has acknowledged no update.
	tasks []mesos.TaskInfo
	// updates are the unacknowledged updates, oldest first.
	updates []*outgoingUpdate
	// changed has one token at most. Every change of what waitForUpdate returns
	// adds it.
	changed chan struct{}
}

type outgoingUpdate struct {
	call executor.Call_Update
	// sent is set once the agent has accepted the update in this subscription.
	// Each new subscription sets it again from the updates that it carried.
	sent bool
}

func newStatusOutbox() *statusOutbox { return &statusOutbox{changed: make(chan struct{}, 1)} }

func (o *statusOutbox) signalChange() {
	select {
	case o.changed <- struct{}{}:
	default:
	}
}

func (o *statusOutbox) addTask(t mesos.TaskInfo) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tasks = append(o.tasks, t)
}

func (o *statusOutbox) addStatus(s mesos.TaskStatus) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.updates = append(o.updates, &outgoingUpdate{call: executor.Call_Update{Status: s}})
	o.signalChange()
}

// acknowledge removes an update and its task, which the agent has stored now.
func (o *statusOutbox) acknowledge(task mesos.TaskID, uuid []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tasks = slices.DeleteFunc(o.tasks, func(t mesos.TaskInfo) bool { return t.TaskID == task })
	o.updates = slices.DeleteFunc(o.updates, func(u *outgoingUpdate) bool { return bytes.Equal(u.call.Status.UUID, uuid) })
}

// unacknowledged returns the tasks and updates for a SUBSCRIBE call.
func (o *statusOutbox) unacknowledged() ([]mesos.TaskInfo, []executor.Call_Update) {
	o.mu.Lock()
	defer o.mu.Unlock()
	updates := make([]executor.Call_Update, len(o.updates))
	for i, u := range o.updates {
		updates[i] = u.call
	}
	return slices.Clone(o.tasks), updates
}

// markConnected records that the agent has accepted a subscription with the
// given updates.
func (o *statusOutbox) markConnected(carried []executor.Call_Update) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, u := range o.updates {
		u.sent = slices.ContainsFunc(carried, func(c executor.Call_Update) bool {
			return bytes.Equal(c.Status.UUID, u.call.Status.UUID)
		})
	}
	o.subscribed = true
	o.signalChange()
}

func (o *statusOutbox) markDisconnected() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.subscribed = false
}

func (o *statusOutbox) isSubscribed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.subscribed
}

func (o *statusOutbox) markSent(uuid []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, u := range o.updates {
		if bytes.Equal(u.call.Status.UUID, uuid) {
			u.sent = true
		}
	}
}

// waitForUpdate waits for an update to send. It returns ctx's error when ctx
// ends.
func (o *statusOutbox) waitForUpdate(ctx context.Context) (mesos.TaskStatus, error) {
	for {
		if s, ok := o.firstUnsent(); ok {
			return s, nil
		}
		select {
		case <-o.changed:
		case <-ctx.Done():
			return mesos.TaskStatus{}, ctx.Err()
		}
	}
}

func (o *statusOutbox) firstUnsent() (mesos.TaskStatus, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.subscribed {
		for _, u := range o.updates {
			if !u.sent {
				return u.call.Status, true
			}
		}
	}
	return mesos.TaskStatus{}, false
}
