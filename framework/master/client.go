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
	// ErrRemoved means that the master has given the framework up: its
	// failover timeout passed, or somebody tore it down. Its id is of no use
	// any more and its tasks are gone.
	ErrRemoved = errors.New("the master removed this framework: its failover timeout passed while no scheduler was connected, or it was torn down; a scheduler with a new journal registers anew")
	// ErrReplaced means that another scheduler has subscribed with this
	// framework's id. This one stops, or the two would take turns for ever.
	ErrReplaced = errors.New("another scheduler took over this framework: stop one of the two")
	// ErrNotConnected means that there is no subscription now.
	ErrNotConnected = errors.New("not subscribed to a master")
)

// Client keeps one subscription to the leading master.
type Client struct {
	cfg Config

	mu          sync.Mutex
	session     *session // nil while there is no subscription
	frameworkID string
	leaderURL   string

	inventoryMu sync.Mutex
	inventories map[string]gpu.Host // by attribute text

	files *http.Client // to agents, which are many and asked often
}

// New makes a Client; Run connects it.
func New(cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.setDefaults()
	return &Client{cfg: cfg, frameworkID: cfg.FrameworkID, inventories: map[string]gpu.Host{}, files: cfg.client()}, nil
}

// FrameworkID is the id the master gave, or "".
func (c *Client) FrameworkID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frameworkID
}

// Run subscribes, and again when the subscription is lost, until ctx ends; it
// then returns nil. It gives events to emit, from one goroutine at a time.
// Returns ErrRemoved or ErrReplaced where to go on would be wrong.
func (c *Client) Run(ctx context.Context, emit func(sched.Event)) error {
	var mu sync.Mutex
	serial := func(ev sched.Event) {
		mu.Lock()
		defer mu.Unlock()
		emit(ev)
	}
	said := ""
	for tries := 0; ; tries++ {
		subscribed, err := c.subscribe(ctx, c.cfg.Masters[tries%len(c.cfg.Masters)], serial)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrRemoved), errors.Is(err, ErrReplaced):
			return err
		case subscribed:
			tries, said = 0, ""
		}
		wait := c.cfg.wait(tries)
		if text := err.Error(); text != said {
			c.cfg.Log.WithFields(logrus.Fields{"error": text, "retry": wait.Round(time.Millisecond)}).Warn("no subscription to a master")
			said = text
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

// subscribe finds the leader and lives one session.
func (c *Client) subscribe(ctx context.Context, candidate string, emit func(sched.Event)) (subscribed bool, err error) {
	client := c.cfg.client()
	defer client.CloseIdleConnections()
	leader, err := c.cfg.leader(ctx, client, candidate)
	if err != nil {
		return false, err
	}
	c.mu.Lock()
	c.leaderURL = leader
	c.mu.Unlock()
	s := newSession(c, client, leader, emit)
	err = s.run(ctx)
	return s.subscribed, fmt.Errorf("master %s: %w", leader, err)
}

// begin makes s the session that Post uses.
func (c *Client) begin(s *session, frameworkID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session, c.frameworkID = s, frameworkID
}

func (c *Client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = nil
}

func (c *Client) current() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// Post sends an operation after those posted before it. It does not wait.
// Without a subscription it does nothing: what must not be forgotten is asked
// about after the next one.
func (c *Client) Post(op sched.Op) {
	if s := c.current(); s != nil {
		s.queue.add(op)
	}
}

// leaderHint is the leading master as last seen, or one of those configured.
func (c *Client) leaderHint(ctx context.Context, client *http.Client) (string, error) {
	c.mu.Lock()
	url := c.leaderURL
	c.mu.Unlock()
	if url != "" {
		return url, nil
	}
	return c.cfg.leader(ctx, client, c.cfg.Masters[0])
}
