package master

import (
	"context"
	"errors"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/agent"
	mastermsg "github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// CallObserver receives the results of calls. Its methods are called from
// several goroutines and must not block.
type CallObserver interface {
	// CallFinished reports the result and duration of a call such as ACCEPT or
	// GET_AGENTS. Each attempt is a call.
	CallFinished(call, result string, took time.Duration)
	// SubscriptionAccepted reports that the master has accepted a
	// subscription.
	SubscriptionAccepted()
	// EventReceived reports an event of the master, which may be a heartbeat.
	EventReceived(at time.Time)
}

// Results of a call.
const (
	// ResultOK: the call was accepted.
	ResultOK = "ok"
	// ResultRefused: the call was rejected, and so will be a retry.
	ResultRefused = "refused"
	// ResultUnavailable: the call failed temporarily.
	ResultUnavailable = "unavailable"
	// ResultUnsubscribed: the master is not the leader, or has no subscription
	// of this framework.
	ResultUnsubscribed = "unsubscribed"
	// ResultUnanswered: there was no answer.
	ResultUnanswered = "unanswered"
	// ResultCanceled: the caller did not wait for the answer.
	ResultCanceled = "canceled"
)

// observeCall, observeSubscription and observeEvent report to the observer, if there is one.
func (c *ConnectionConfig) observeCall(message protoMarshaler, took time.Duration, err error) {
	if c.Observer != nil {
		c.Observer.CallFinished(callName(message), callResult(err), took)
	}
}

func (c *ConnectionConfig) observeSubscription() {
	if c.Observer != nil {
		c.Observer.SubscriptionAccepted()
	}
}

func (c *ConnectionConfig) observeEvent() {
	if c.Observer != nil {
		c.Observer.EventReceived(time.Now())
	}
}

// callName returns the type of a call, such as ACCEPT.
func callName(message protoMarshaler) string {
	switch m := message.(type) {
	case *scheduler.Call:
		return m.GetType().String()
	case *mastermsg.Call:
		return m.GetType().String()
	case *agent.Call:
		return m.GetType().String()
	}
	return "other"
}

// callResult returns the result of a call that ended with err.
func callResult(err error) string {
	var status *statusError
	switch {
	case err == nil:
		return ResultOK
	case errors.Is(err, context.Canceled):
		return ResultCanceled
	case !errors.As(err, &status):
		return ResultUnanswered
	}
	switch failureScopeOf(err) {
	case scopeSession:
		return ResultUnsubscribed
	case scopeTransient:
		return ResultUnavailable
	default:
		return ResultRefused
	}
}
