package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mesos/mesos-go/api/v1/lib/executor"
	"github.com/mesos/mesos-go/api/v1/lib/executor/calls"
	"github.com/sirupsen/logrus"
)

// agentSession keeps the executor subscribed with its agent and delivers its
// status updates. It decides when the agent is lost.
type agentSession struct {
	// sender sends calls to the agent's executor API.
	sender calls.Sender
	// outbox has the updates to deliver. A SUBSCRIBE carries all that the agent
	// has not acknowledged.
	outbox *statusOutbox
	// events receives every event of the agent. Its reader must not stop before
	// the session's context ends.
	events chan<- executor.Event
	log    logrus.FieldLogger
	// reconnection decides when to subscribe again.
	reconnection reconnection
	// endpoint is the agent's address, for error messages.
	endpoint string
}

// resendInterval is the pause before a status update that the agent rejected
// is sent again.
const resendInterval = time.Second

// keepSubscribed subscribes and resubscribes. It returns nil when ctx ends,
// and an error with the duration when the agent has been unreachable for too
// long.
func (s *agentSession) keepSubscribed(ctx context.Context) error {
	s.reconnection.lost = time.Now()
	for {
		subscribed, err := s.subscribeOnce(ctx)
		if ctx.Err() != nil {
			return nil
		}
		s.log.WithError(err).Warn("disconnected from agent")
		pause, patience := s.reconnection.nextPause(time.Now(), subscribed)
		if pause <= 0 {
			return fmt.Errorf("agent at %s is gone for %s: %w", s.endpoint, patience, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// subscribeOnce subscribes and passes events to the loop until the stream
// breaks. subscribed reports whether the agent accepted the subscription.
func (s *agentSession) subscribeOnce(ctx context.Context) (subscribed bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	tasks, updates := s.outbox.unacknowledged()
	stream, err := s.sender.Send(ctx, calls.NonStreaming(calls.Subscribe(tasks, updates)))
	if stream != nil {
		defer stream.Close()
	}
	if err != nil {
		return false, fmt.Errorf("subscribe: %w", err)
	}
	if stream == nil {
		return false, errors.New("subscribe: agent opened no event stream")
	}
	defer s.outbox.markDisconnected()
	for {
		var ev executor.Event
		if err := stream.Decode(&ev); err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("agent closed the event stream")
			}
			return subscribed, fmt.Errorf("read event: %w", err)
		}
		if ev.GetType() == executor.Event_SUBSCRIBED {
			subscribed = true
			s.outbox.markConnected(updates)
		}
		select {
		case s.events <- ev:
		case <-ctx.Done():
			return subscribed, ctx.Err()
		}
	}
}

// deliverUpdates sends status updates in order while the executor is
// subscribed. A rejected update is sent again until the agent accepts it or a
// new subscription carries it.
func (s *agentSession) deliverUpdates(ctx context.Context) {
	for {
		status, err := s.outbox.waitForUpdate(ctx)
		if err != nil {
			return
		}
		response, err := s.sender.Send(ctx, calls.NonStreaming(calls.Update(status)))
		if response != nil {
			response.Close()
		}
		if err == nil {
			s.outbox.markSent(status.UUID)
			continue
		}
		s.log.WithError(err).WithField("state", status.GetState().String()).Warn("agent rejected a status update")
		select {
		case <-time.After(resendInterval):
		case <-ctx.Done():
			return
		}
	}
}
