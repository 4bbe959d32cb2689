package master

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"

	"mesos-gpu/framework/sched"
)

// defaultHeartbeat is Mesos's default, until the master announces its own.
const defaultHeartbeat = 15 * time.Second

// masterSession is one subscription to one master, from SUBSCRIBE to its end. It is never used again: what the next one
// needs, the framework's ID and the roles, is in the Client.
//
// Two goroutines use it. The one of Client.Run subscribes and handles events; sendCalls, which starts with SUBSCRIBED,
// makes the calls, and owns roles from then on.
type masterSession struct {
	// client owns this session, and replaces it after it has ended.
	client *Client
	// http sends this session's calls, on connections of its own.
	http *http.Client
	// emit passes an event to the scheduler's loop. It blocks while the loop is busy.
	emit func(sched.Event)
	// queue has the posted operations that are not sent yet.
	queue *callQueue
	// inspections has the questions to agents that are not sent yet.
	inspections inspectionQueue
	// leader is the base URL of the master. stream is the Mesos-Stream-Id that it assigned to the subscription.
	leader, stream string
	// sentRoles are the roles that SUBSCRIBE contained.
	sentRoles roleSnapshot

	// cancel ends the session with a cause. watchdog calls it if heartbeats fail to arrive.
	cancel   context.CancelCauseFunc
	watchdog *heartbeatWatchdog
	// goroutines end with the session.
	goroutines sync.WaitGroup

	// subscribed is set by the event SUBSCRIBED. frameworkID is the client's ID; the event replaces it by the
	// ID that the master assigned.
	subscribed  bool
	frameworkID string
	// roles are the framework's roles as the master last accepted them.
	roles []string

	// mu protects offers.
	mu sync.Mutex
	// offers contains offers that are neither answered nor rescinded, by ID, as the master has sent them: ACCEPT must
	// name their resources exactly.
	offers map[string]mesos.Offer
}

// newSession returns a session with a master that is not connected yet.
func newSession(c *Client, client *http.Client, leader string, emit func(sched.Event)) *masterSession {
	return &masterSession{
		client: c, http: client, emit: emit, queue: newCallQueue(callRate), inspections: newInspectionQueue(), leader: leader,
		frameworkID: c.FrameworkID(), offers: map[string]mesos.Offer{},
	}
}

func (s *masterSession) endpoint() string { return s.leader + "/api/v1/scheduler" }

// runUntilEnd subscribes and handles events until the stream ends, the master falls
// silent, a call shows that the subscription is void, or another master becomes the
// leader. It returns the reason, after all goroutines of the session have ended.
func (s *masterSession) runUntilEnd(parent context.Context, newLeader <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(parent)
	s.cancel = cancel
	defer s.goroutines.Wait()
	defer cancel(nil)
	s.watchdog = newHeartbeatWatchdog(maxMissedHeartbeats*defaultHeartbeat, cancel)
	defer s.watchdog.stop()
	s.goroutines.Go(func() {
		select {
		case <-newLeader:
			cancel(errNewLeader)
		case <-ctx.Done():
		}
	})
	events, err := s.sendSubscribe(ctx)
	if err != nil {
		return fmt.Errorf("subscribe: %w", contextCause(ctx, err))
	}
	defer events.Close() // everything that matters has been read
	defer s.closeForCalls()
	return s.readEvents(ctx, events)
}

// contextCause returns the cause of ctx's end, or err if it has not ended.
func contextCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// buildSubscribe returns the SUBSCRIBE call with the present roles.
func (s *masterSession) buildSubscribe() *scheduler.Call {
	s.sentRoles = s.client.roles.snapshot()
	s.roles = s.sentRoles.names
	call := calls.Subscribe(s.client.cfg.frameworkInfo(s.frameworkID, s.sentRoles.names))
	call.Subscribe.SuppressedRoles = s.sentRoles.suppressed
	return call
}

// sendSubscribe makes the one call that has no Mesos-Stream-Id and whose
// response is an endless stream.
func (s *masterSession) sendSubscribe(ctx context.Context) (io.ReadCloser, error) {
	res, err := s.client.cfg.postCall(ctx, s.http, s.endpoint(), "", s.buildSubscribe())
	if err != nil {
		return nil, err
	}
	if s.stream = res.Header.Get(streamHeader); s.stream == "" {
		return nil, errors.Join(fmt.Errorf("%s answers without %s: it is not a Mesos master", s.leader, streamHeader), res.Body.Close())
	}
	return res.Body, nil
}

// readEvents handles events until the stream ends.
func (s *masterSession) readEvents(ctx context.Context, events io.Reader) error {
	in := newRecordReader(events)
	for {
		var ev scheduler.Event
		switch err := in.readRecord(&ev); {
		case err == io.EOF:
			return contextCause(ctx, errors.New("it ended the subscription"))
		case err != nil:
			return contextCause(ctx, err)
		}
		s.client.cfg.observeEvent()
		s.watchdog.suspend() // slow handling must not count as silence of the master
		if ev.GetType() == scheduler.Event_SUBSCRIBED {
			if s.subscribed {
				s.watchdog.restart()
				continue // a repeated SUBSCRIBED
			}
			s.openForCalls(ctx, ev.GetSubscribed())
		}
		if err := s.handleEvent(&ev); err != nil {
			return err
		}
		s.watchdog.restart()
	}
}

// openForCalls starts sending calls: the master rejects calls before
// SUBSCRIBED.
func (s *masterSession) openForCalls(ctx context.Context, sub *scheduler.Event_Subscribed) {
	s.watchdog.setInterval(sub.GetHeartbeatIntervalSeconds())
	s.acceptSubscription(sub)
	s.goroutines.Go(func() { s.sendCalls(ctx, s.cancel) })
	s.goroutines.Go(func() { s.inspectAgents(ctx) })
}

// acceptSubscription makes s the session that PostOperation uses.
func (s *masterSession) acceptSubscription(sub *scheduler.Event_Subscribed) {
	s.subscribed = true
	s.client.cfg.observeSubscription()
	s.frameworkID = sub.GetFrameworkID().GetValue() // the goroutine that sends calls reads it, and starts later
	s.client.setSession(s)
	if now := s.client.roles.snapshot(); now.version != s.sentRoles.version {
		s.queue.enqueue(sched.SetRoles{Roles: now.names}) // they changed during SUBSCRIBE
	}
	s.client.cfg.Log.WithField("master", s.leader).WithField("framework", s.frameworkID).Info("subscribed")
	s.client.status.setSubscribed(s.leader)
}

// closeForCalls stops sending calls and emits Disconnected.
func (s *masterSession) closeForCalls() {
	s.client.clearSession()
	s.cancel(nil)
	s.goroutines.Wait()
	if s.subscribed {
		s.emit(sched.Disconnected{})
	}
}

// storeOffers stores the offers: ACCEPT needs their resources.
func (s *masterSession) storeOffers(offers []mesos.Offer) sched.OffersReceived {
	var ev sched.OffersReceived
	for i := range offers {
		ev.Offers = append(ev.Offers, s.client.convertOffer(&offers[i]))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range offers {
		s.offers[o.ID.Value] = o
	}
	return ev
}

// findOffers returns the offers that are still valid. Others were rescinded or
// belong to an earlier session.
func (s *masterSession) findOffers(ids []string) []mesos.Offer {
	s.mu.Lock()
	defer s.mu.Unlock()
	var offers []mesos.Offer
	for _, id := range ids {
		if o, ok := s.offers[id]; ok {
			offers = append(offers, o)
		}
	}
	return offers
}

// takeOffers is findOffers for offers that are answered or void: it also
// removes them.
func (s *masterSession) takeOffers(ids []string) []mesos.Offer {
	offers := s.findOffers(ids)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		delete(s.offers, id)
	}
	return offers
}
