package master

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"
	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/sched"
)

// maxConcurrentCalls is how many calls for different agents are made at the
// same time. A gang or a service on 1000 agents takes as many ACCEPTs, each of
// which waits for the master's answer.
const maxConcurrentCalls = 32

// sendCalls makes the posted calls, in their order unless they are independent
// of each other, until ctx ends. If a call fails for a reason other than the
// call itself, the session ends: after the next SUBSCRIBED everything is
// reconciled. It returns when no call is in flight.
func (s *masterSession) sendCalls(ctx context.Context, cancel context.CancelCauseFunc) {
	type sentCall struct {
		agent string
		err   error
	}
	inFlight, sent := map[string]bool{}, make(chan sentCall, maxConcurrentCalls)
	var failure error
	for {
		ended, again := ctx.Done(), (<-chan time.Time)(nil)
		if failure != nil || ctx.Err() != nil { // nothing more is sent
			if len(inFlight) == 0 {
				break
			}
			ended = nil
		} else if len(inFlight) < maxConcurrentCalls {
			op, wait := s.queue.dequeue(time.Now(), inFlight)
			if op != nil {
				agent := agentOf(op)
				inFlight[agent] = true
				go func() { sent <- sentCall{agent, s.performOperation(ctx, op)} }()
				continue
			}
			if wait > 0 {
				again = time.After(wait)
			}
		}
		select {
		case call := <-sent:
			delete(inFlight, call.agent)
			failure = cmp.Or(failure, call.err)
		case <-s.queue.wake:
		case <-again:
		case <-ended:
		}
	}
	if failure != nil && ctx.Err() == nil {
		cancel(failure)
	}
}

// performOperation makes one call. An error means that the session must end.
func (s *masterSession) performOperation(ctx context.Context, op sched.Operation) error {
	for op != nil {
		call, err := s.buildCall(op)
		if err == nil && call == nil {
			return nil
		}
		if err == nil {
			err = s.deliverCall(ctx, call)
		}
		if op, err = s.finishCall(op, call, err, ctx.Err() != nil); err != nil {
			return err
		}
	}
	return nil
}

// finishCall handles the result of a call. ending reports that the session ends. It returns the operation that the
// failure requires, or nil; an error means that the session must end.
func (s *masterSession) finishCall(op sched.Operation, call *scheduler.Call, err error, ending bool) (next sched.Operation, _ error) {
	_, isAccept := op.(sched.AcceptOffers)
	switch {
	case err == nil:
		s.recordSuccess(op, call)
		return nil, nil
	case errors.Is(err, errNoCall), failureScopeOf(err) == scopeCall:
	case isAccept && !wasNotSent(err) && !ending:
		// The master may have accepted it: the tasks are reconciled. It ignores the decline of offers that it has accepted;
		// if the call did not arrive, or arrives after the decline, the offers' resources are free again.
	default:
		return nil, fmt.Errorf("%s: %w", call.GetType(), err)
	}
	s.callLog(op).WithError(err).Warn("the call failed or was rejected")
	return s.handleFailure(op, call), nil
}

// callLog returns a log for messages about an operation.
func (s *masterSession) callLog(op sched.Operation) logrus.FieldLogger {
	return s.client.cfg.Log.WithField("call", op.String())
}

// deliverCall makes a call and retries temporary failures. It does not repeat
// an ACCEPT that the master may have received.
func (s *masterSession) deliverCall(ctx context.Context, call *scheduler.Call) error {
	cfg := &s.client.cfg
	for tries := 0; ; tries++ {
		err := s.postCall(ctx, call)
		if err == nil || failureScopeOf(err) != scopeTransient || tries+1 >= callTries {
			return err
		}
		if call.GetType() == scheduler.Call_ACCEPT && !wasNotSent(err) {
			return err
		}
		select {
		case <-time.After(cfg.backoff(tries)):
		case <-ctx.Done():
			return err
		}
	}
}

// recordSuccess records what the master has accepted.
func (s *masterSession) recordSuccess(op sched.Operation, call *scheduler.Call) {
	s.callLog(op).Debug("called the master")
	switch o := op.(type) {
	case sched.AcceptOffers:
		s.takeOffers(o.OfferIDs)
	case sched.SetRoles:
		s.roles = call.GetUpdateFramework().GetFrameworkInfo().Roles
	}
}

// handleFailure reverts what a failed operation would have changed, and returns the operation that this requires, or nil.
func (s *masterSession) handleFailure(op sched.Operation, call *scheduler.Call) sched.Operation {
	switch o := op.(type) {
	case sched.AcceptOffers:
		return s.handleAcceptFailure(o)
	case sched.SetRoles:
		s.client.roles.revertRefused(call.GetUpdateFramework().GetFrameworkInfo().Roles, s.roles)
	}
	return nil
}

// handleAcceptFailure emits AcceptFailed and returns a decline of the remaining offers:
// otherwise their resources would be blocked until the session ends. Whether the tasks
// were launched nevertheless is decided by reconciliation.
func (s *masterSession) handleAcceptFailure(a sched.AcceptOffers) sched.Operation {
	failed, decline := sched.AcceptFailed{}, sched.DeclineOffers{Refuse: a.Refuse}
	for _, l := range a.Launches {
		failed.TaskIDs = append(failed.TaskIDs, l.TaskID)
	}
	for _, id := range a.OfferIDs {
		decline.Offers = append(decline.Offers, sched.DeclinedOffer{OfferID: id, Reason: "its ACCEPT failed"})
	}
	s.emit(failed)
	return decline
}

// postCall makes one call whose response is only a status.
func (s *masterSession) postCall(ctx context.Context, call *scheduler.Call) error {
	ctx, cancel := context.WithTimeout(ctx, s.client.cfg.callTimeout)
	defer cancel()
	res, err := s.client.cfg.postCall(ctx, s.http, s.endpoint(), s.stream, call)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// Teardown ends the framework: the master kills its tasks and removes it. It
// returns ErrNotConnected without a subscription.
func (c *Client) Teardown(ctx context.Context) error {
	s := c.currentSession()
	if s == nil {
		return ErrNotConnected
	}
	call := (&scheduler.Call{Type: scheduler.Call_TEARDOWN}).With(calls.Framework(c.FrameworkID()))
	if err := s.postCall(ctx, call); err != nil {
		return fmt.Errorf("tear down framework %s: %w", c.FrameworkID(), err)
	}
	return nil
}
