package master

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/httpcli/httpsched"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler/calls"

	"mesos-gpu/framework/sched"
)

// session is one subscription, from SUBSCRIBE to its end. mesos-go's caller
// belongs to it: after a lost subscription that would not find a new leader.
type session struct {
	client *Client
	caller calls.Caller
	emit   func(sched.Event)
	queue  *queue
	leader string

	subscribed  bool
	frameworkID string

	mu     sync.Mutex
	offers map[string]mesos.Offer // not answered yet
}

func newSession(c *Client, client *http.Client, leader string, emit func(sched.Event)) *session {
	caller := httpsched.NewCaller(stream(client, leader+"/api/v1/scheduler"),
		// Without a selector any failed call would count as the loss of the
		// master, and end the subscription.
		httpsched.EndpointCandidates(func() string { return "" }),
		httpsched.MaxRedirects(0),
	)
	return &session{
		client: c, caller: caller, emit: emit, queue: newQueue(), leader: leader,
		frameworkID: c.FrameworkID(), offers: map[string]mesos.Offer{},
	}
}

// run subscribes and reads events until the stream ends, and says why it did.
func (s *session) run(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	dog := newWatchdog(missedHeartbeats*s.client.cfg.CallTimeout, cancel)
	defer dog.stop()

	res, err := s.caller.Call(ctx, calls.Subscribe(s.client.cfg.framework(s.frameworkID)))
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	var sender sync.WaitGroup
	defer func() {
		s.client.end()
		cancel(nil)
		_ = res.Close() // what matters of the stream has been read
		sender.Wait()
		if s.subscribed {
			s.emit(sched.Disconnected{})
		}
	}()
	for {
		var ev scheduler.Event
		if err := res.Decode(&ev); err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			return fmt.Errorf("read events: %w", err)
		}
		dog.heard()
		if ev.GetType() == scheduler.Event_SUBSCRIBED && !s.subscribed {
			sub := ev.GetSubscribed()
			dog.interval(sub.GetHeartbeatIntervalSeconds())
			dog.heard()
			s.start(ctx, cancel, sub.GetFrameworkID().GetValue(), &sender)
		}
		if err := s.handle(&ev); err != nil {
			return err
		}
	}
}

// start opens the session for calls: the master refuses any before
// SUBSCRIBED.
func (s *session) start(ctx context.Context, cancel context.CancelCauseFunc, id string, sender *sync.WaitGroup) {
	s.subscribed = true
	s.frameworkID = id // read by the sender, which starts below
	s.client.begin(s, id)
	s.client.cfg.Log.WithField("master", s.leader).WithField("framework", id).Info("subscribed")
	sender.Go(func() { s.send(ctx, cancel) })
}

// handle turns one event of the master into events of the scheduler.
func (s *session) handle(ev *scheduler.Event) error {
	switch ev.GetType() {
	case scheduler.Event_SUBSCRIBED:
		s.emit(sched.Subscribed{FrameworkID: ev.GetSubscribed().GetFrameworkID().GetValue()})
	case scheduler.Event_OFFERS:
		s.emit(s.offered(ev.GetOffers().GetOffers()))
	case scheduler.Event_RESCIND:
		id := ev.GetRescind().GetOfferID().Value
		s.take([]string{id})
		s.emit(sched.Rescind{OfferID: id})
	case scheduler.Event_UPDATE:
		status := ev.GetUpdate().GetStatus()
		s.emit(updateOf(&status))
	case scheduler.Event_FAILURE:
		// An executor's failure says nothing that its task's status does not.
		if f := ev.GetFailure(); f.GetAgentID() != nil && f.GetExecutorID() == nil {
			s.emit(sched.AgentLost{AgentID: f.GetAgentID().GetValue()})
		}
	case scheduler.Event_ERROR:
		return errorOf(ev.GetError().GetMessage())
	}
	return nil
}

// errorOf tells the ends of a framework from those of a subscription.
func errorOf(message string) error {
	switch lower := strings.ToLower(message); {
	case strings.Contains(lower, "has been removed"):
		return ErrRemoved
	case strings.Contains(lower, "failed over"):
		return ErrReplaced
	default:
		return errors.New("error from the master: " + message)
	}
}

// offered keeps the offers, for their resources are needed to accept them.
func (s *session) offered(offers []mesos.Offer) sched.Offers {
	var ev sched.Offers
	for i := range offers {
		ev.Offers = append(ev.Offers, s.client.offerOf(&offers[i]))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range offers {
		s.offers[o.ID.Value] = o
	}
	return ev
}

// held returns those of the offers that are still there: others were rescinded
// or belong to a session before.
func (s *session) held(ids []string) []mesos.Offer {
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

// take is held for offers that are answered or void.
func (s *session) take(ids []string) []mesos.Offer {
	offers := s.held(ids)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		delete(s.offers, id)
	}
	return offers
}
