package master

import (
	"context"
	"errors"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/agent"
	mastermsg "github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// CallObserver is told how the calls go. Several goroutines tell it; it keeps none
// of them waiting.
type CallObserver interface {
	// CallFinished: a call, such as ACCEPT or GET_AGENTS, has had that Result after so
	// long. Each try is one.
	CallFinished(call, result string, took time.Duration)
	// SubscriptionAccepted: the master has taken a subscription.
	SubscriptionAccepted()
	// EventReceived: the master has sent something, a heartbeat at least.
	EventReceived(at time.Time)
}

// Results of a call.
const (
	// ResultOK: it was taken.
	ResultOK = "ok"
	// ResultRefused: it will never be taken.
	ResultRefused = "refused"
	// ResultUnavailable: it was not taken now.
	ResultUnavailable = "unavailable"
	// ResultUnsubscribed: another master leads, or it knows no subscription.
	ResultUnsubscribed = "unsubscribed"
	// ResultUnanswered: there was no answer.
	ResultUnanswered = "unanswered"
	// ResultCanceled: we did not wait for the answer.
	ResultCanceled = "canceled"
)

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
