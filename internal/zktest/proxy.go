package zktest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// NetworkProxy stands between clients and a server. While it is cut it forwards
// nothing and closes nothing, as a network that has failed.
type NetworkProxy struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	open     *sync.Cond // cut has become false, or closed true
	cut      bool
	closed   bool
	conns    map[net.Conn]bool
	deaf     chan struct{} // not nil: to the next connection
	running  sync.WaitGroup
}

// NewProxy forwards to target, from an address of its own, until the test
// ends.
func NewProxy(t testing.TB, target string) *NetworkProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &NetworkProxy{listener: l, target: target, conns: map[net.Conn]bool{}}
	p.open = sync.NewCond(&p.mu)
	p.running.Go(p.acceptConnections)
	t.Cleanup(p.close)
	return p
}

// Addr is HOST:PORT.
func (p *NetworkProxy) Addr() string { return p.listener.Addr().String() }

// CutNetwork stops the forwarding, in both directions and for new connections too.
func (p *NetworkProxy) CutNetwork() { p.setCut(true) }

// HealNetwork forwards again, what was held back first.
func (p *NetworkProxy) HealNetwork() { p.setCut(false) }

func (p *NetworkProxy) setCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	p.open.Broadcast()
}

// BreakConnections closes all connections of now. What was on its way is lost.
func (p *NetworkProxy) BreakConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close() // it is to be broken
	}
}

// IgnoreNextConnection leaves the next connection unanswered, as a server that
// hangs does, and closes the returned channel when that connection has arrived.
// Later connections are forwarded.
func (p *NetworkProxy) IgnoreNextConnection() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = make(chan struct{})
	return p.deaf
}

// takeIgnored reports whether a connection is the one to be.
func (p *NetworkProxy) takeIgnored() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deaf == nil {
		return false
	}
	close(p.deaf)
	p.deaf = nil
	return true
}

func (p *NetworkProxy) close() {
	p.mu.Lock()
	p.closed = true
	p.open.Broadcast()
	p.mu.Unlock()
	_ = p.listener.Close()
	p.BreakConnections()
	p.running.Wait()
}

func (p *NetworkProxy) acceptConnections() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serveConnection(c) })
	}
}

// awaitNetwork returns once the network works; false once the proxy is closed.
func (p *NetworkProxy) awaitNetwork() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.cut && !p.closed {
		p.open.Wait()
	}
	return !p.closed
}

func (p *NetworkProxy) serveConnection(client net.Conn) {
	defer p.dropConnection(client)
	p.trackConnection(client)
	if p.takeIgnored() {
		_, _ = io.Copy(io.Discard, client) // until the client gives up
		return
	}
	if !p.awaitNetwork() {
		return
	}
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer p.dropConnection(server)
	p.trackConnection(server)
	var copies sync.WaitGroup
	copies.Go(func() { p.forwardBytes(server, client) })
	copies.Go(func() { p.forwardBytes(client, server) })
	copies.Wait()
}

func (p *NetworkProxy) trackConnection(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = true
}

func (p *NetworkProxy) dropConnection(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close() // perhaps again
}

// forwardBytes ends both connections when one ends.
func (p *NetworkProxy) forwardBytes(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && p.awaitNetwork() {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
