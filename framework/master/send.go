package master

import (
	"context"
	"errors"
	"fmt"

	"github.com/mesos/mesos-go/api/v1/lib/httpcli/apierrors"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"

	"mesos-gpu/framework/sched"
)

// send makes the posted calls, one after the other, until ctx ends. A call
// that the master did not take for a reason other than the call itself ends
// the session: after the next SUBSCRIBED all is asked about anew.
func (s *session) send(ctx context.Context, cancel context.CancelCauseFunc) {
	for {
		for _, op := range s.queue.take() {
			if ctx.Err() != nil {
				return
			}
			if err := s.perform(ctx, op); err != nil && ctx.Err() == nil {
				cancel(err)
				return
			}
		}
		select {
		case <-s.queue.wake:
		case <-ctx.Done():
			return
		}
	}
}

// perform makes one call. Its error means that the session is of no more use.
func (s *session) perform(ctx context.Context, op sched.Op) error {
	log := s.client.cfg.Log.WithField("call", op.String())
	call, err := s.callOf(op)
	if err == nil && call != nil {
		err = s.post(ctx, call)
	}
	if err == nil {
		if a, ok := op.(sched.Accept); ok {
			s.take(a.OfferIDs)
		}
		log.Debug("called the master")
		return nil
	}
	if !apierrors.CodeMalformedRequest.Matches(err) && !errors.Is(err, errNotSent) {
		return fmt.Errorf("%s: %w", call.GetType(), err)
	}
	log.WithError(err).Warn("the call was not made or refused")
	if a, ok := op.(sched.Accept); ok {
		return s.acceptFailed(ctx, a)
	}
	return nil
}

// acceptFailed says so, and declines the offers that are still there: nobody
// else would get what they hold before this session ends.
func (s *session) acceptFailed(ctx context.Context, a sched.Accept) error {
	failed, decline := sched.AcceptFailed{}, sched.Decline{Refuse: a.Refuse}
	for _, l := range a.Launches {
		failed.TaskIDs = append(failed.TaskIDs, l.TaskID)
	}
	for _, id := range a.OfferIDs {
		decline.Offers = append(decline.Offers, sched.Declined{OfferID: id, Reason: "its ACCEPT failed"})
	}
	s.emit(failed)
	return s.perform(ctx, decline)
}

func (s *session) post(ctx context.Context, call *scheduler.Call) error {
	ctx, cancel := context.WithTimeout(ctx, s.client.cfg.CallTimeout)
	defer cancel()
	res, err := s.caller.Call(ctx, call)
	if res != nil {
		_ = res.Close() // a call has no answer but its status
	}
	return err
}

// errNotSent means that there is no call to make of an operation.
var errNotSent = errors.New("not sent")

// callOf makes the call of an operation; nil where none is needed any more.
func (s *session) callOf(op sched.Op) (*scheduler.Call, error) {
	var call *scheduler.Call
	switch o := op.(type) {
	case sched.Accept:
		offers := s.held(o.OfferIDs)
		if len(offers) < len(o.OfferIDs) {
			return nil, fmt.Errorf("%w: offers of agent %s are gone", errNotSent, o.AgentID)
		}
		tasks, err := s.client.tasksOf(o, offers, s.frameworkID)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNotSent, err)
		}
		launch := calls.OfferOperations{calls.OpLaunch(tasks...)}
		call = calls.Accept(launch.WithOffers(offerIDs(offers)...)).With(calls.RefuseSeconds(o.Refuse))
	case sched.Decline:
		ids := make([]string, len(o.Offers))
		for i, d := range o.Offers {
			ids[i] = d.OfferID
		}
		offers := s.take(ids)
		if len(offers) == 0 {
			return nil, nil // all were rescinded
		}
		call = calls.Decline(offerIDs(offers)...).With(calls.RefuseSeconds(o.Refuse))
	case sched.Revive:
		call = calls.Revive()
	case sched.Suppress:
		call = calls.Suppress()
	case sched.Acknowledge:
		call = calls.Acknowledge(o.AgentID, o.TaskID, o.UUID)
	case sched.KillTask:
		call = calls.Kill(o.TaskID, o.AgentID)
	case sched.Reconcile:
		ask := map[string]string{}
		for _, t := range o.Tasks {
			ask[t.TaskID] = t.AgentID
		}
		call = calls.Reconcile(calls.ReconcileTasks(ask))
	default:
		return nil, fmt.Errorf("%w: no call is known for %T", errNotSent, op)
	}
	return call.With(calls.Framework(s.frameworkID)), nil
}

// Teardown ends the framework: the master kills its tasks and forgets it.
// Returns ErrNotConnected if there is no subscription.
func (c *Client) Teardown(ctx context.Context) error {
	s := c.current()
	if s == nil {
		return ErrNotConnected
	}
	call := (&scheduler.Call{Type: scheduler.Call_TEARDOWN}).With(calls.Framework(c.FrameworkID()))
	if err := s.post(ctx, call); err != nil {
		return fmt.Errorf("tear down framework %s: %w", c.FrameworkID(), err)
	}
	return nil
}
