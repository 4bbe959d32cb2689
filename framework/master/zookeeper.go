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

// zkSession is the session timeout that Mesos's own clients ask for.
const zkSession = 10 * time.Second

// tree is what of ZooKeeper the detector uses.
type tree interface {
	ExistsW(path string) (bool, *zk.Stat, <-chan zk.Event, error)
	ChildrenW(path string) ([]string, *zk.Stat, <-chan zk.Event, error)
	Get(path string) ([]byte, *zk.Stat, error)
	Close()
}

// following watches the nodes that masters keep in ZooKeeper while they
// stand for election. A lost session says nothing about the masters: the last
// leader stays until ZooKeeper names another.
type following struct {
	dial   func() (tree, error)
	path   string
	scheme string // of masters' URLs
	wait   func(tries int) time.Duration
	log    logrus.FieldLogger

	mu      sync.Mutex
	base    string        // "" until one is known
	err     error         // why none is
	changed chan struct{} // closed and replaced when base changes
}

func follow(cfg *Config, addr *zkAddress) *following {
	dial := func() (tree, error) {
		conn, _, err := zk.Connect(addr.Hosts, zkSession, zk.WithLogger(quiet{}))
		if err != nil {
			return nil, err
		}
		if addr.auth != "" {
			if err := conn.AddAuth("digest", []byte(addr.auth)); err != nil {
				conn.Close()
				return nil, fmt.Errorf("authenticate: %w", err)
			}
		}
		return conn, nil
	}
	return &following{
		dial: dial, path: addr.Path, scheme: cfg.scheme(), wait: cfg.wait, log: cfg.Log.WithField("path", addr.Path),
		err: errors.New("ZooKeeper has not answered yet"), changed: make(chan struct{}),
	}
}

// quiet drops the client's talk: what matters comes back as an error.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// leader waits until ZooKeeper has named one.
func (f *following) leader(ctx context.Context) (string, <-chan struct{}, error) {
	for {
		f.mu.Lock()
		base, changed := f.base, f.changed
		f.mu.Unlock()
		if base != "" {
			return base, changed, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			f.mu.Lock()
			defer f.mu.Unlock()
			return "", nil, fmt.Errorf("find the leading master: %w", f.err)
		}
	}
}

func (f *following) set(base string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.base == base {
		return
	}
	f.base, f.err = base, nil
	close(f.changed)
	f.changed = make(chan struct{})
}

// fail keeps the reason for those who wait, and says it once.
func (f *following) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil || f.err.Error() != err.Error() {
		f.log.WithError(err).Warn("no leading master in ZooKeeper")
	}
	f.err = err
}

// run watches until ctx ends; it connects again where that has failed.
func (f *following) run(ctx context.Context) {
	for tries := 0; ctx.Err() == nil; tries++ {
		if f.watch(ctx) {
			tries = 0
		}
		select {
		case <-time.After(f.wait(tries)):
		case <-ctx.Done():
		}
	}
}

// watch follows one connection until it errs, and reports whether ZooKeeper
// ever answered.
func (f *following) watch(ctx context.Context) (answered bool) {
	conn, err := f.dial()
	if err != nil {
		f.fail(fmt.Errorf("connect to ZooKeeper: %w", err))
		return false
	}
	stop := context.AfterFunc(ctx, conn.Close) // no call of it takes a context
	defer func() {
		if stop() {
			conn.Close()
		}
	}()
	for {
		next, err := f.look(conn)
		if err != nil {
			if ctx.Err() == nil {
				f.fail(err)
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

// look reads who leads now. The channel tells when to look again.
func (f *following) look(conn tree) (<-chan zk.Event, error) {
	nodes, _, next, err := conn.ChildrenW(f.path)
	if errors.Is(err, zk.ErrNoNode) {
		return f.await(conn)
	}
	if err != nil {
		return nil, fmt.Errorf("list %s in ZooKeeper: %w", f.path, err)
	}
	node, kind := first(nodes)
	switch kind {
	case noMaster: // the last leader leads until another is named
		f.fail(fmt.Errorf("ZooKeeper's %s has %d nodes and none is a master's", f.path, len(nodes)))
		return next, nil
	case binaryInfo:
		f.fail(fmt.Errorf("master %s/%s registered in the binary form of Mesos before 0.24, which is not read: name the masters by URL, or upgrade them", f.path, node))
		return next, nil
	}
	text, _, err := conn.Get(f.path + "/" + node)
	if errors.Is(err, zk.ErrNoNode) {
		return next, nil // it has just resigned: next tells
	}
	if err != nil {
		return nil, fmt.Errorf("read %s/%s from ZooKeeper: %w", f.path, node, err)
	}
	base, err := baseOf(text, f.scheme)
	if err != nil {
		f.fail(fmt.Errorf("read %s/%s from ZooKeeper: %w", f.path, node, err))
		return next, nil
	}
	f.set(base)
	return next, nil
}

// await waits for the path itself.
func (f *following) await(conn tree) (<-chan zk.Event, error) {
	there, _, next, err := conn.ExistsW(f.path)
	if err != nil {
		return nil, fmt.Errorf("look for %s in ZooKeeper: %w", f.path, err)
	}
	if there { // since a moment ago
		now := make(chan zk.Event)
		close(now)
		return now, nil
	}
	f.fail(fmt.Errorf("ZooKeeper has no %s: no master has registered there; compare with the masters' --zk", f.path))
	return next, nil
}
