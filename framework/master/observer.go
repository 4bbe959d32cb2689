package master

import (
	"context"
	"errors"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/agent"
	mastermsg "github.com/mesos/mesos-go/api/v1/lib/master"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
)

// Observer is told how the calls go. Several goroutines tell it; it keeps none
// of them waiting.
type Observer interface {
	// Called: a call, such as ACCEPT or GET_AGENTS, has had that Result after so
	// long. Each try is one.
	Called(call, result string, took time.Duration)
	// Subscribed: the master has taken a subscription.
	Subscribed()
	// Heard: the master has sent something, a heartbeat at least.
	Heard(at time.Time)
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

func (c *Config) called(message marshaler, took time.Duration, err error) {
	if c.Observer != nil {
		c.Observer.Called(callName(message), resultOf(err), took)
	}
}

func (c *Config) subscribed() {
	if c.Observer != nil {
		c.Observer.Subscribed()
	}
}

func (c *Config) heard() {
	if c.Observer != nil {
		c.Observer.Heard(time.Now())
	}
}

func callName(message marshaler) string {
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

func resultOf(err error) string {
	var status *statusError
	switch {
	case err == nil:
		return ResultOK
	case errors.Is(err, context.Canceled):
		return ResultCanceled
	case !errors.As(err, &status):
		return ResultUnanswered
	}
	switch blameOf(err) {
	case theSession:
		return ResultUnsubscribed
	case thisMoment:
		return ResultUnavailable
	default:
		return ResultRefused
	}
}
