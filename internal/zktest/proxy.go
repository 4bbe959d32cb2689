package zktest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy stands between clients and a server. While it is cut it forwards
// nothing and closes nothing, as a network that has failed.
type Proxy struct {
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
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: l, target: target, conns: map[net.Conn]bool{}}
	p.open = sync.NewCond(&p.mu)
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Addr is HOST:PORT.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Cut stops the forwarding, in both directions and for new connections too.
func (p *Proxy) Cut() { p.set(true) }

// Heal forwards again, what was held back first.
func (p *Proxy) Heal() { p.set(false) }

func (p *Proxy) set(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	p.open.Broadcast()
}

// Break closes all connections of now. What was on its way is lost.
func (p *Proxy) Break() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close() // it is to be broken
	}
}

// Ignore has the next connection come to nobody, as at a server that hangs; it
// closes what it returns when it has. Those after it are forwarded.
func (p *Proxy) Ignore() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deaf = make(chan struct{})
	return p.deaf
}

// ignored reports whether a connection is the one to be.
func (p *Proxy) ignored() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deaf == nil {
		return false
	}
	close(p.deaf)
	p.deaf = nil
	return true
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.open.Broadcast()
	p.mu.Unlock()
	_ = p.listener.Close()
	p.Break()
	p.running.Wait()
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(c) })
	}
}

// wait returns once the network works; false once the proxy is closed.
func (p *Proxy) wait() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.cut && !p.closed {
		p.open.Wait()
	}
	return !p.closed
}

func (p *Proxy) serve(client net.Conn) {
	defer p.drop(client)
	p.keep(client)
	if p.ignored() {
		_, _ = io.Copy(io.Discard, client) // until the client gives up
		return
	}
	if !p.wait() {
		return
	}
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer p.drop(server)
	p.keep(server)
	var copies sync.WaitGroup
	copies.Go(func() { p.forward(server, client) })
	copies.Go(func() { p.forward(client, server) })
	copies.Wait()
}

func (p *Proxy) keep(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = true
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close() // perhaps again
}

// forward ends both connections when one ends.
func (p *Proxy) forward(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && p.wait() {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
