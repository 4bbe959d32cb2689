package master

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"
	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/sched"
)

// send makes the posted calls, one after the other, until ctx ends. A call
// that the master did not take for a reason other than the call itself ends
// the session: after the next SUBSCRIBED all is asked about anew.
func (s *session) send(ctx context.Context, cancel context.CancelCauseFunc) {
	for {
		op, wait := s.queue.next(time.Now())
		if op != nil {
			if err := s.perform(ctx, op); err != nil && ctx.Err() == nil {
				cancel(err)
				return
			}
			if ctx.Err() == nil {
				continue
			}
		}
		var again <-chan time.Time
		if wait > 0 {
			again = time.After(wait)
		}
		select {
		case <-s.queue.wake:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// perform makes one call. Its error means that the session is of no more use.
func (s *session) perform(ctx context.Context, op sched.Op) error {
	call, err := s.callOf(op)
	if err == nil && call == nil {
		return nil
	}
	if err == nil {
		err = s.deliver(ctx, call)
	}
	accept, isAccept := op.(sched.Accept)
	switch {
	case err == nil:
		s.performed(op, call)
		return nil
	case errors.Is(err, errNotSent), blameOf(err) == theCall:
	case isAccept && !unsent(err) && ctx.Err() == nil:
		// It may have been taken: the tasks are asked about.
		s.take(accept.OfferIDs)
	default:
		return fmt.Errorf("%s: %w", call.GetType(), err)
	}
	s.log(op).WithError(err).Warn("the call was not made or refused")
	return s.failed(ctx, op, call)
}

func (s *session) log(op sched.Op) logrus.FieldLogger {
	return s.client.cfg.Log.WithField("call", op.String())
}

// deliver makes a call and, where the moment was wrong, makes it again. An
// ACCEPT that may have been taken is not repeated.
func (s *session) deliver(ctx context.Context, call *scheduler.Call) error {
	cfg := &s.client.cfg
	for tries := 0; ; tries++ {
		err := s.post(ctx, call)
		if err == nil || blameOf(err) != thisMoment || tries+1 >= cfg.CallTries {
			return err
		}
		if call.GetType() == scheduler.Call_ACCEPT && !unsent(err) {
			return err
		}
		select {
		case <-time.After(cfg.wait(tries)):
		case <-ctx.Done():
			return err
		}
	}
}

// performed notes what the master now knows.
func (s *session) performed(op sched.Op, call *scheduler.Call) {
	s.log(op).Debug("called the master")
	switch o := op.(type) {
	case sched.Accept:
		s.take(o.OfferIDs)
	case sched.SetRoles:
		s.roles = call.GetUpdateFramework().GetFrameworkInfo().Roles
	}
}

// failed undoes what was counted on.
func (s *session) failed(ctx context.Context, op sched.Op, call *scheduler.Call) error {
	switch o := op.(type) {
	case sched.Accept:
		return s.acceptFailed(ctx, o)
	case sched.SetRoles:
		s.client.roles.restore(call.GetUpdateFramework().GetFrameworkInfo().Roles, s.roles)
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

// post makes one call, which has no answer but its status.
func (s *session) post(ctx context.Context, call *scheduler.Call) error {
	ctx, cancel := context.WithTimeout(ctx, s.client.cfg.CallTimeout)
	defer cancel()
	res, err := s.client.cfg.call(ctx, s.http, s.endpoint(), s.stream, call)
	if err != nil {
		return err
	}
	return res.Body.Close()
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
