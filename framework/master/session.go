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

// defaultHeartbeat is Mesos's, for as long as the master has not said its own.
const defaultHeartbeat = 15 * time.Second

// session is one subscription to one master, from SUBSCRIBE to its end.
type session struct {
	client *Client
	http   *http.Client
	emit   func(sched.Event)
	queue  *queue
	leader string
	stream string // Mesos-Stream-Id
	told   standing

	cancel context.CancelCauseFunc
	dog    *watchdog
	parts  sync.WaitGroup // goroutines that end with the session

	subscribed  bool
	frameworkID string
	roles       []string // as the master took them last

	mu     sync.Mutex
	offers map[string]mesos.Offer // not answered yet
}

func newSession(c *Client, client *http.Client, leader string, emit func(sched.Event)) *session {
	return &session{
		client: c, http: client, emit: emit, queue: newQueue(c.cfg.CallRate), leader: leader,
		frameworkID: c.FrameworkID(), offers: map[string]mesos.Offer{},
	}
}

func (s *session) endpoint() string { return s.leader + "/api/v1/scheduler" }

// run subscribes and reads events until the stream ends or another master
// leads, and says why it did.
func (s *session) run(parent context.Context, newLeader <-chan struct{}) error {
	ctx, cancel := context.WithCancelCause(parent)
	s.cancel = cancel
	defer s.parts.Wait()
	defer cancel(nil)
	s.dog = newWatchdog(missedHeartbeats*defaultHeartbeat, cancel)
	defer s.dog.stop()
	s.parts.Go(func() {
		select {
		case <-newLeader:
			cancel(errNewLeader)
		case <-ctx.Done():
		}
	})
	events, err := s.subscribe(ctx)
	if err != nil {
		return fmt.Errorf("subscribe: %w", because(ctx, err))
	}
	defer events.Close() // what matters of the stream has been read
	defer s.end()
	return s.listen(ctx, events)
}

// because is why ctx ended, if it did, else err.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// subscribe makes the one call that has no Mesos-Stream-Id, and an answer
// without an end.
func (s *session) subscribe(ctx context.Context) (io.ReadCloser, error) {
	s.told = s.client.roles.now()
	s.roles = s.told.names
	call := calls.Subscribe(s.client.cfg.framework(s.frameworkID, s.told.names))
	call.Subscribe.SuppressedRoles = s.told.suppressed
	res, err := s.client.cfg.call(ctx, s.http, s.endpoint(), "", call)
	if err != nil {
		return nil, err
	}
	if s.stream = res.Header.Get(streamHeader); s.stream == "" {
		return nil, errors.Join(fmt.Errorf("%s answers without %s: it is no Mesos master", s.leader, streamHeader), res.Body.Close())
	}
	return res.Body, nil
}

// listen handles events until there are no more.
func (s *session) listen(ctx context.Context, events io.Reader) error {
	in := newRecords(events)
	for {
		var ev scheduler.Event
		switch err := in.next(&ev); {
		case err == io.EOF:
			return because(ctx, errors.New("it ended the subscription"))
		case err != nil:
			return because(ctx, err)
		}
		s.client.cfg.heard()
		s.dog.hold() // what takes us long is no silence of the master's
		if ev.GetType() == scheduler.Event_SUBSCRIBED {
			if s.subscribed {
				s.dog.heard()
				continue // said twice
			}
			s.start(ctx, ev.GetSubscribed())
		}
		if err := s.handle(&ev); err != nil {
			return err
		}
		s.dog.heard()
	}
}

// start opens the session for calls: the master refuses any before
// SUBSCRIBED.
func (s *session) start(ctx context.Context, sub *scheduler.Event_Subscribed) {
	s.dog.interval(sub.GetHeartbeatIntervalSeconds())
	s.subscribed = true
	s.client.cfg.subscribed()
	s.frameworkID = sub.GetFrameworkID().GetValue() // read by the sender, which starts below
	s.client.begin(s)
	if now := s.client.roles.now(); now.version != s.told.version {
		s.queue.add(sched.SetRoles{Roles: now.names}) // changed under way
	}
	s.client.cfg.Log.WithField("master", s.leader).WithField("framework", s.frameworkID).Info("subscribed")
	s.parts.Go(func() { s.send(ctx, s.cancel) })
}

// end closes the session for calls and says so.
func (s *session) end() {
	s.client.end()
	s.cancel(nil)
	s.parts.Wait()
	if s.subscribed {
		s.emit(sched.Disconnected{})
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
