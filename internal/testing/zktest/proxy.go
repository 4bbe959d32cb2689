package zktest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// NetworkProxy is a proxy between clients and a server. While it is cut, it
// forwards nothing and closes no connection, like a failed network.
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

// NewProxy starts a proxy for target on its own address. It runs until the test
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

// Addr returns the proxy's HOST:PORT.
func (p *NetworkProxy) Addr() string { return p.listener.Addr().String() }

// CutNetwork stops forwarding in both directions, including new connections.
func (p *NetworkProxy) CutNetwork() { p.setCut(true) }

// HealNetwork resumes forwarding, starting with the delayed data.
func (p *NetworkProxy) HealNetwork() { p.setCut(false) }

func (p *NetworkProxy) setCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	p.open.Broadcast()
}

// BreakConnections closes all current connections. Data in transit is lost.
func (p *NetworkProxy) BreakConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close() // closing is the purpose
	}
}

// IgnoreNextConnection accepts the next connection without answering, like a
// hanging server. It closes the returned channel when that connection has
// arrived. Later connections are forwarded.
func (p *NetworkProxy) IgnoreNextConnection() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = make(chan struct{})
	return p.deaf
}

// takeIgnored reports whether this connection is the one to ignore.
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

// awaitNetwork waits until the network is not cut. It returns false if the
// proxy is closed.
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
		_, _ = io.Copy(io.Discard, client) // until the client disconnects
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
	_ = c.Close() // it may already be closed
}

// forwardBytes copies data and closes both connections when one ends.
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
