package apiserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"
)

// fakeConn is a connection from an address.
type fakeConn struct {
	net.Conn
	address string
	closed  bool
}

func (c *fakeConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.address))
}
func (c *fakeConn) Close() error { c.closed = true; return nil }

// connectionQueue is a listener whose connections a test makes.
type connectionQueue struct {
	net.Listener
	conns chan net.Conn
}

func (q *connectionQueue) Accept() (net.Conn, error) { return <-q.conns, nil }

// connect returns a new connection from an address, and whether the listener accepts it.
func connect(t *testing.T, l *LimitedListener, q *connectionQueue, address string) (c *fakeConn, accepted net.Conn) {
	t.Helper()
	c = &fakeConn{address: address}
	sentinel := &fakeConn{address: "192.0.2.99:1"}
	q.conns <- c
	q.conns <- sentinel // accepted next if c is not
	got, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if got.(*limitedConn).Conn != net.Conn(c) {
		_ = got.Close()
		return c, nil
	}
	<-q.conns
	return c, got
}

func limitForTest(total, perAddress int) (*LimitedListener, *connectionQueue) {
	q := &connectionQueue{conns: make(chan net.Conn, 2)}
	return LimitConnections(q, ConnectionLimits{Total: total, PerAddress: perAddress}), q
}

// TestIdleConnectionsGiveWay checks that a new connection replaces the one of its address that has
// waited longest for a request, and is closed if all of them serve requests.
func TestIdleConnectionsGiveWay(t *testing.T) {
	l, q := limitForTest(100, 2)
	first, a := connect(t, l, q, "10.0.0.1:1")
	second, b := connect(t, l, q, "10.0.0.1:2")
	l.TrackState(a, http.StateActive)
	third, c := connect(t, l, q, "10.0.0.1:3")
	if first.closed || !second.closed || c == nil {
		t.Fatalf("closed: first %t, second %t; third accepted: %t", first.closed, second.closed, c != nil)
	}
	if err := b.Close(); err != nil || l.count != 2 { // by the server, which notices that it is closed
		t.Errorf("%d connections are counted, %v", l.count, err)
	}
	l.TrackState(c, http.StateActive)
	if fourth, d := connect(t, l, q, "10.0.0.1:4"); d != nil || !fourth.closed || first.closed || third.closed {
		t.Error("a connection above the limit was accepted, or another one was closed for it")
	}
	if _, other := connect(t, l, q, "10.0.0.2:1"); other == nil {
		t.Error("another address is rejected")
	}
	_ = a.Close()
	_ = a.Close()
	if _, d := connect(t, l, q, "10.0.0.1:5"); d == nil || l.count != 3 {
		t.Errorf("after a connection was closed: %d connections, accepted: %t", l.count, d != nil)
	}
}

// TestCrowdedListenerMakesRoom checks that, at the limit of all, a new address gets the place of
// the address with the most connections, and that this address gets no more.
func TestCrowdedListenerMakesRoom(t *testing.T) {
	l, q := limitForTest(5, 4)
	var many []*fakeConn
	for i := range 4 {
		c, _ := connect(t, l, q, fmt.Sprintf("[2001:db8::%d]:1", i+1)) // one network
		many = append(many, c)
	}
	lone, _ := connect(t, l, q, "10.0.0.1:1")
	if _, c := connect(t, l, q, "10.0.0.2:1"); c == nil || lone.closed || !many[0].closed {
		t.Error("the address with the most connections keeps its longest idle one")
	}
	if _, c := connect(t, l, q, "[2001:db8::9]:1"); c == nil || lone.closed || !many[1].closed {
		t.Error("the crowded network took a place of others")
	}
	if l.count != 5 {
		t.Errorf("%d connections, want 5", l.count)
	}
}

// TestBusyAddressDoesNotProtectIdleConnections checks that, at the limit of all, a new address gets
// the place of an idle connection although the address with the most connections has none.
func TestBusyAddressDoesNotProtectIdleConnections(t *testing.T) {
	l, q := limitForTest(4, 3)
	for i := range 3 {
		_, c := connect(t, l, q, fmt.Sprintf("10.0.0.1:%d", i+1))
		l.TrackState(c, http.StateActive)
	}
	_, idle := connect(t, l, q, "10.0.0.2:1")
	newcomer := &limitedConn{Conn: &fakeConn{}, table: l.connectionTable, address: netip.MustParseAddr("10.0.0.3")}
	if evicted, ok := l.add(newcomer); !ok || net.Conn(evicted) != idle {
		t.Error("a new address is rejected while another one has an idle connection")
	}
	if l.count != 4 {
		t.Errorf("%d connections, want 4", l.count)
	}
}

// TestIdleConnectionsLockNoClientOut checks, over TCP, that a client gets an answer while
// another one has opened more connections than the limit, each after a request or before one.
func TestIdleConnectionsLockNoClientOut(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := LimitConnections(tcp, ConnectionLimits{Total: 20, PerAddress: 10})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }), discardLogger(), l.TrackState)
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	ask := func() (net.Conn, string) {
		c, err := net.Dial("tcp", tcp.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return c, err.Error()
		}
		text, _ := io.ReadAll(res.Body)
		return c, string(text)
	}
	for range 30 {
		silent, err := net.Dial("tcp", tcp.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		idle, text := ask()
		defer idle.Close()
		if text != "ok" {
			t.Fatalf("got %q", text)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count > 10 {
		t.Errorf("%d connections are open, want at most 10", l.count)
	}
}
