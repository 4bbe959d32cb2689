package master

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/sirupsen/logrus"
)

// zkSessionTimeout is the session timeout of Mesos's own clients.
const zkSessionTimeout = 10 * time.Second

// zkConn is the part of a ZooKeeper connection that the detector uses.
type zkConn interface {
	ExistsW(path string) (bool, *zk.Stat, <-chan zk.Event, error)
	ChildrenW(path string) ([]string, *zk.Stat, <-chan zk.Event, error)
	Get(path string) ([]byte, *zk.Stat, error)
	Close()
}

// zkDetector watches the nodes that masters create in ZooKeeper for the
// election. A lost ZooKeeper session does not affect the masters: the last
// leader is kept until ZooKeeper names another one.
type zkDetector struct {
	// dial connects to ZooKeeper until ctx ends; tests replace it.
	dial func(ctx context.Context) (zkConn, error)
	// path is the znode in which the masters register. scheme is the scheme of their URLs.
	path   string
	scheme string
	// backoff returns the pause before the next connection.
	backoff func(tries int) time.Duration
	// log reports when the leader cannot be read.
	log logrus.FieldLogger
	// onError is called with each new reason why the leader is not known. It is called under mu.
	onError func(error)

	// mu protects the fields below.
	mu sync.Mutex
	// leaderURL is "" until the leader is known. It is kept while ZooKeeper does not answer.
	leaderURL string
	// err is why the leader is not known, or why it was last not confirmed; nil after each new leader.
	err error
	// changed is closed and replaced when leaderURL changes.
	changed chan struct{}
}

// newZKDetector returns a detector that connects when it runs.
func newZKDetector(cfg *ConnectionConfig, addr *zkAddress, onError func(error)) *zkDetector {
	dial := func(ctx context.Context) (zkConn, error) {
		conn, _, err := zk.Connect(addr.Hosts, zkSessionTimeout, zk.WithLogger(discardLogger{}))
		if err != nil {
			return nil, err
		}
		if addr.auth != "" {
			defer context.AfterFunc(ctx, conn.Close)() // ends the call if the server does not answer
			if err := conn.AddAuth("digest", []byte(addr.auth)); err != nil {
				conn.Close()
				return nil, fmt.Errorf("authenticate: %w", err)
			}
		}
		return conn, nil
	}
	return &zkDetector{
		dial: dial, path: addr.Path, scheme: cfg.urlScheme(), backoff: cfg.backoff, log: cfg.Log.WithField("path", addr.Path), onError: onError,
		err: errors.New("ZooKeeper has not answered yet"), changed: make(chan struct{}),
	}
}

// discardLogger drops the ZooKeeper client's log: relevant errors are
// returned.
type discardLogger struct{}

func (discardLogger) Printf(string, ...any) {}

// findLeader waits until ZooKeeper has named a leader.
func (d *zkDetector) findLeader(ctx context.Context) (string, <-chan struct{}, error) {
	for {
		d.mu.Lock()
		base, changed := d.leaderURL, d.changed
		d.mu.Unlock()
		if base != "" {
			return base, changed, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			d.mu.Lock()
			defer d.mu.Unlock()
			return "", nil, fmt.Errorf("find the leading master: %w", d.err)
		}
	}
}

// setLeader stores the leader and closes changed if it is another one than before.
func (d *zkDetector) setLeader(base string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leaderURL == base {
		return
	}
	d.leaderURL, d.err = base, nil
	close(d.changed)
	d.changed = make(chan struct{})
}

// setError stores the error for findLeader and logs it once.
func (d *zkDetector) setError(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil || d.err.Error() != err.Error() {
		d.log.WithError(err).Warn("no leading master in ZooKeeper")
		d.onError(err)
	}
	d.err = err
}

// run watches ZooKeeper until ctx ends, and reconnects after failures.
func (d *zkDetector) run(ctx context.Context) {
	for tries := 0; ctx.Err() == nil; tries++ {
		if d.watchConnection(ctx) {
			tries = 0
		}
		select {
		case <-time.After(d.backoff(tries)):
		case <-ctx.Done():
		}
	}
}

// watchConnection watches on one connection until it fails. It reports whether
// ZooKeeper answered at all.
func (d *zkDetector) watchConnection(ctx context.Context) (answered bool) {
	conn, err := d.dial(ctx)
	if err != nil {
		d.setError(fmt.Errorf("connect to ZooKeeper: %w", err))
		return false
	}
	stop := context.AfterFunc(ctx, conn.Close) // the connection's methods do not take contexts
	defer func() {
		if stop() {
			conn.Close()
		}
	}()
	for {
		next, err := d.readLeader(conn)
		if err != nil {
			if ctx.Err() == nil {
				d.setError(err)
			}
			return answered
		}
		answered = true
		select {
		case <-next:
		case <-ctx.Done():
			return answered
		}
	}
}

// readLeader reads the current leader. The returned channel fires when the
// nodes change.
func (d *zkDetector) readLeader(conn zkConn) (<-chan zk.Event, error) {
	nodes, _, next, err := conn.ChildrenW(d.path)
	if errors.Is(err, zk.ErrNoNode) {
		return d.awaitPath(conn)
	}
	if err != nil {
		return nil, fmt.Errorf("list %s in ZooKeeper: %w", d.path, err)
	}
	node, kind := leadingNode(nodes)
	switch kind {
	case noMaster: // the last leader is kept until another is named
		d.setError(fmt.Errorf("ZooKeeper's %s has %d nodes and none is a master's", d.path, len(nodes)))
		return next, nil
	case binaryInfo:
		d.setError(fmt.Errorf("master %s/%s registered in the binary form of Mesos before 0.24, which is not supported: name the masters by URL, or upgrade them",
			d.path, node))
		return next, nil
	}
	text, _, err := conn.Get(d.path + "/" + node)
	if errors.Is(err, zk.ErrNoNode) {
		return next, nil // it has just resigned: the channel fires
	}
	if err != nil {
		return nil, fmt.Errorf("read %s/%s from ZooKeeper: %w", d.path, node, err)
	}
	base, err := masterURL(text, d.scheme)
	if err != nil {
		d.setError(fmt.Errorf("read %s/%s from ZooKeeper: %w", d.path, node, err))
		return next, nil
	}
	d.setLeader(base)
	return next, nil
}

// awaitPath waits for the creation of the path.
func (d *zkDetector) awaitPath(conn zkConn) (<-chan zk.Event, error) {
	exists, _, next, err := conn.ExistsW(d.path)
	if err != nil {
		return nil, fmt.Errorf("look for %s in ZooKeeper: %w", d.path, err)
	}
	if exists { // it was created in between
		now := make(chan zk.Event)
		close(now)
		return now, nil
	}
	d.setError(fmt.Errorf("ZooKeeper has no %s: no master has registered there; compare with the masters' --zk", d.path))
	return next, nil
}
