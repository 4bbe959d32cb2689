package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxConnections bounds the socket, and maxOthers those of them that are
	// not uid 0's or the daemon's own: no user can keep the agent out.
	maxConnections = 64
	maxOthers      = 48
)

// peers is a unix socket whose connections know who is at the other end.
type peers struct {
	net.Listener
	own      int
	patience time.Duration

	mu          sync.Mutex
	all, others int
}

// Accept implements net.Listener. A connection too many is told so and
// closed.
func (p *peers) Accept() (net.Conn, error) {
	for {
		c, err := p.Listener.Accept()
		if err != nil {
			return nil, err
		}
		uid, err := peerOf(c)
		if err != nil {
			c.Close() // it has gone already
			continue
		}
		peer := &peer{Conn: c, uid: uid, may: uid == 0 || uid == p.own}
		if p.admit(peer) {
			return peer, nil
		}
		p.turnAway(c)
	}
}

func (p *peers) admit(c *peer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all >= maxConnections || !c.may && p.others >= maxOthers {
		return false
	}
	p.count(c, 1)
	c.gone = sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.count(c, -1)
	})
	return true
}

func (p *peers) count(c *peer, n int) {
	p.all += n
	if !c.may {
		p.others += n
	}
}

func (p *peers) turnAway(c net.Conn) {
	defer c.Close()
	const body = `{"error":"too many connections, try again"}` + "\n"
	if c.SetWriteDeadline(time.Now().Add(p.patience)) == nil {
		// A fresh socket's buffer takes it; who does not read it goes without.
		fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
	}
}

// peer is a connection and the uid at its other end.
type peer struct {
	net.Conn
	uid  int
	may  bool // change things
	gone func()
}

// Close implements net.Conn.
func (p *peer) Close() error {
	p.gone()
	return p.Conn.Close()
}

// peerOf asks the kernel who connected.
func peerOf(c net.Conn) (uid int, err error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return 0, errors.New("find out who connected: not a unix socket")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("find out who connected: %w", err)
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || failed != nil {
		return 0, fmt.Errorf("find out who connected: %w", errors.Join(err, failed))
	}
	return int(cred.Uid), nil
}

type peerKey struct{}

func withPeer(ctx context.Context, c net.Conn) context.Context {
	if p, ok := c.(*peer); ok {
		return context.WithValue(ctx, peerKey{}, p)
	}
	return ctx
}

// bounded is a listener with so many connections at a time; more wait.
type bounded struct {
	net.Listener
	free chan struct{}
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	b.free <- struct{}{}
	c, err := b.Listener.Accept()
	if err != nil {
		<-b.free
		return nil, err
	}
	return &slot{Conn: c, gone: sync.OnceFunc(func() { <-b.free })}, nil
}

type slot struct {
	net.Conn
	gone func()
}

// Close implements net.Conn.
func (s *slot) Close() error {
	s.gone()
	return s.Conn.Close()
}
