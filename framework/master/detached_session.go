package master

import (
	"time"

	mastermsg "github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/framework/sched"
)

// DetachedSession is a session without connections, goroutines and timers. Its caller carries calls and events between it
// and a master, and decides when. The simulation of clusters uses it; everything else runs Client.Run. It belongs to one
// goroutine.
type DetachedSession struct{ session *masterSession }

// PendingCall is a call that has no result yet.
type PendingCall struct {
	// Call is sent to the master.
	Call *scheduler.Call
	op   sched.Operation
}

// OpenDetached returns a new session and the SUBSCRIBE call that starts it. Events of the master reach emit.
func (c *Client) OpenDetached(emit func(sched.Event)) (*DetachedSession, *scheduler.Call) {
	s := newSession(c, nil, "", emit)
	return &DetachedSession{s}, s.buildSubscribe()
}

// HandleEvent handles an event of the master. An error means that the session must end.
func (d *DetachedSession) HandleEvent(ev *scheduler.Event) error {
	if ev.GetType() == scheduler.Event_SUBSCRIBED {
		if d.session.subscribed {
			return nil
		}
		d.session.acceptSubscription(ev.GetSubscribed())
	}
	return d.session.handleEvent(ev)
}

// NextCall returns the next posted call, or nil if no call is due. FinishCall must be called before the next NextCall.
func (d *DetachedSession) NextCall(now time.Time) *PendingCall {
	for {
		op, _ := d.session.queue.dequeue(now, nil)
		if op == nil {
			return nil
		}
		if p := d.buildPending(op); p != nil {
			return p
		}
	}
}

// buildPending returns the call of an operation, or nil if none is needed. If a call cannot be built,
// it returns the call of the operation that follows the failure.
func (d *DetachedSession) buildPending(op sched.Operation) *PendingCall {
	for op != nil {
		call, err := d.session.buildCall(op)
		switch {
		case err == nil && call == nil:
			return nil
		case err == nil:
			return &PendingCall{Call: call, op: op}
		}
		if op, err = d.session.finishCall(op, call, err, false); err != nil {
			return nil // a call that was not built never ends the session
		}
	}
	return nil
}

// FinishCall handles the result of a call, nil for success, and returns the call that this requires next, or nil. An
// error means that the session must end.
func (d *DetachedSession) FinishCall(p *PendingCall, result error) (*PendingCall, error) {
	next, err := d.session.finishCall(p.op, p.Call, result, false)
	if err != nil {
		return nil, err
	}
	return d.buildPending(next), nil
}

// Close ends the session and emits Disconnected.
func (d *DetachedSession) Close() {
	d.session.client.clearSession()
	if d.session.subscribed {
		d.session.emit(sched.Disconnected{})
	}
}

// ConvertAgents returns a master's list of agents as ListAgents returns it.
func (c *Client) ConvertAgents(list []mastermsg.Response_GetAgents_Agent) []ListedAgent {
	return c.convertAgents(list)
}
