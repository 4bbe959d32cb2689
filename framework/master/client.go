package master

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
)

var (
	// ErrRemoved means that the master has removed the framework: its failover
	// timeout expired or it was torn down. Its id cannot be used again and its
	// tasks are gone.
	ErrRemoved = errors.New("the master removed this framework: its failover timeout passed while no scheduler was connected, " +
		"or it was torn down; a scheduler with a new journal registers a new framework")
	// ErrReplaced means that another scheduler has subscribed with this
	// framework's id. This one must stop, or the two would replace each other
	// forever.
	ErrReplaced = errors.New("another scheduler took over this framework: stop one of the two")
	// ErrNotConnected means that there is no subscription at the moment.
	ErrNotConnected = errors.New("not subscribed to a master")
)

// Client maintains one subscription to the leading master. Run runs one session after the other; other goroutines post
// operations to the current session and make operator calls, which need no session.
type Client struct {
	// cfg is the argument of New, completed and validated. It does not change.
	cfg ConnectionConfig
	// detector finds the leading master.
	detector leaderDetector
	// roles is the state of the framework's roles. It outlives sessions.
	roles *roleState
	// listTrigger requests agent lists from WatchAgents.
	listTrigger *agentListTrigger
	// status publishes the state of the connection.
	status *statusPublisher

	// mu protects the following fields.
	mu sync.Mutex
	// session is the current session; nil without a subscription.
	session *masterSession
	// frameworkID is the ID that the master assigned; "" before the first subscription.
	frameworkID string
	// leaderURL is the URL of the leader of the last session, also after its end; "" before the first.
	leaderURL string
	// answered is the index of the configured master that last named the leader to an operator call.
	answered int

	// newWeights has the argument of the last SetWeights until MaintainWeights takes it.
	newWeights chan map[string]float64

	// inventories are decoded inventories by the text of the attribute, since offers repeat it. inventoryMu protects it.
	inventoryMu sync.Mutex
	inventories map[string]gpu.Host

	// operatorClient is for operator calls to masters and to agents, which are many.
	operatorClient *http.Client
}

// New returns a Client. Run connects it.
func New(cfg ConnectionConfig) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.setDefaults()
	if err := cfg.resolveAddresses(); err != nil {
		return nil, err
	}
	c := &Client{
		cfg: cfg, frameworkID: cfg.FrameworkID, roles: newRoleState(cfg.Roles), listTrigger: newAgentListTrigger(),
		status: &statusPublisher{publish: cfg.OnStatus}, inventories: map[string]gpu.Host{}, operatorClient: cfg.newHTTPClient(),
		newWeights: make(chan map[string]float64, 1),
	}
	if cfg.masters.zk != nil {
		c.detector = newZKDetector(&c.cfg, cfg.masters.zk, c.status.setNoLeader)
	} else {
		c.detector = &redirectDetector{cfg: &c.cfg, urls: cfg.masters.urls, client: cfg.newHTTPClient()}
	}
	return c, nil
}

// FrameworkID returns the id that the master assigned, or "".
func (c *Client) FrameworkID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frameworkID
}

// Run subscribes, and subscribes again whenever the subscription is lost,
// until ctx ends; it then returns nil. It calls emit with each event, never
// concurrently. It returns ErrRemoved or ErrReplaced if it must not subscribe
// again.
func (c *Client) Run(ctx context.Context, emit func(sched.Event)) error {
	ctx, cancel := context.WithCancel(ctx)
	var detecting sync.WaitGroup
	defer detecting.Wait()
	defer cancel()
	detecting.Go(func() { c.detector.run(ctx) })
	var mu sync.Mutex
	serial := func(ev sched.Event) {
		mu.Lock()
		defer mu.Unlock()
		emit(ev)
	}
	logged := "" // the last error that was logged: it is not repeated with each attempt
	for tries := 0; ; tries++ {
		began := time.Now()
		newLeader, err := c.runSession(ctx, serial)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrRemoved) && c.cfg.ReregisterRemoved:
			c.cfg.Log.WithField("framework", c.FrameworkID()).Warn("the master removed the framework: registering under a new id")
			c.forgetFrameworkID()
		case errors.Is(err, ErrRemoved), errors.Is(err, ErrReplaced):
			return err
		}
		c.status.setDisconnected(err)
		if time.Since(began) > c.cfg.backoffMax {
			tries, logged = 0, "" // the subscription lasted long enough to reset the backoff
		}
		wait := c.cfg.backoff(tries)
		if text := err.Error(); text != logged {
			c.cfg.Log.WithFields(logrus.Fields{"error": text, "retry": wait.Round(time.Millisecond)}).Warn("no subscription to a master")
			logged = text
		}
		select {
		case <-time.After(wait):
		case <-newLeader:
			tries, logged = -1, "" // the new leader has not been tried yet
		case <-ctx.Done():
			return nil
		}
	}
}

// runSession finds the leader and runs one session on new connections, because
// the old ones may be dead. The returned channel is closed when another master
// becomes the leader.
func (c *Client) runSession(ctx context.Context, emit func(sched.Event)) (<-chan struct{}, error) {
	leader, newLeader, err := c.detector.findLeader(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.leaderURL = leader
	c.mu.Unlock()
	client := c.cfg.newHTTPClient()
	defer client.CloseIdleConnections()
	err = newSession(c, client, leader, emit).runUntilEnd(ctx, newLeader)
	return newLeader, fmt.Errorf("master %s: %w", leader, err)
}

// setSession makes s the session that PostOperation uses.
func (c *Client) setSession(s *masterSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session, c.frameworkID = s, s.frameworkID
}

// LeaderURL returns the base URL of the leading master; "" without a subscription.
func (c *Client) LeaderURL() string {
	if s := c.currentSession(); s != nil {
		return s.leader
	}
	return ""
}

// clearSession ends the use of the session by PostOperation.
func (c *Client) clearSession() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = nil
}

// forgetFrameworkID removes the framework id, so that the next SUBSCRIBE
// registers a new framework.
func (c *Client) forgetFrameworkID() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frameworkID = ""
}

// currentSession returns the session, nil without a subscription.
func (c *Client) currentSession() *masterSession {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// PostOperation queues an operation and does not wait. If calls exceed
// callRate, those that launch, kill and acknowledge tasks are sent first.
// Without a subscription it stores only the change of roles, which the next
// SUBSCRIBE carries: everything else is reconciled after the next SUBSCRIBED.
func (c *Client) PostOperation(op sched.Operation) {
	c.roles.applyOperation(op)
	s := c.currentSession()
	switch question, isQuestion := op.(sched.InspectAgent); {
	case s == nil:
	case isQuestion:
		s.inspections.enqueue(question)
	default:
		s.queue.enqueue(op)
	}
}

// leaderTimeout bounds how long an operator call waits for an election.
const leaderTimeout = 5 * time.Second

// FollowLeader follows the leading master until ctx ends, for a client that
// makes only operator calls. Run does this itself.
func (c *Client) FollowLeader(ctx context.Context) { c.detector.run(ctx) }

// CurrentLeader returns the URL of the last known leader. If no leader is known, it requests the leader from the configured masters or
// waits for ZooKeeper's, up to leaderTimeout.
func (c *Client) CurrentLeader(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, leaderTimeout)
	defer cancel()
	c.mu.Lock()
	url := c.leaderURL
	c.mu.Unlock()
	if url != "" {
		return url, nil
	}
	if c.cfg.masters.zk == nil {
		return c.requestLeaderFromAny(ctx)
	}
	url, _, err := c.detector.findLeader(ctx)
	return url, err
}

// requestLeaderFromAny requests the leader from the configured masters in turn, first from the one that answered last. Each
// has an equal share of leaderTimeout. The error has the reason of each master.
func (c *Client) requestLeaderFromAny(ctx context.Context) (string, error) {
	urls := c.cfg.masters.urls
	c.mu.Lock()
	first := c.answered
	c.mu.Unlock()
	var errs []error
	for i := range urls {
		n := (first + i) % len(urls)
		share, cancel := context.WithTimeout(ctx, leaderTimeout/time.Duration(len(urls)))
		leader, err := c.cfg.requestLeader(share, c.operatorClient, urls[n])
		cancel()
		if err == nil {
			c.mu.Lock()
			c.answered = n
			c.mu.Unlock()
			return leader, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}
