package apiserver

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/internal/unixsocket"
)

// sendBuffer is how much the kernel stores for a client that reads slowly, in bytes, per
// connection. By default it is up to 4 MiB: a client that reads nothing would have the scheduler
// encode so much, again each time that it reconnects.
const sendBuffer = 128 << 10

// ConnectionLimits bounds the connections of clients.
type ConnectionLimits struct {
	// Total is the largest number of open connections, PerAddress that of one client
	// address. Addresses of one IPv6 /64 network count as one.
	Total, PerAddress int
	// Usage receives the numbers; nil discards them.
	Usage LimitObserver
}

// LimitedListener limits the open connections of a listener. At a limit a new connection takes
// the place of one that waits for a request: of the same address if that one is at its limit,
// otherwise of the address with the most of them. Without such a connection the new one is
// closed. A client therefore cannot keep others out with connections that it does not use.
type LimitedListener struct {
	net.Listener
	*connectionTable
}

// connectionTable counts the open connections of one or several listeners.
type connectionTable struct {
	limits ConnectionLimits

	// mu protects the fields below.
	mu sync.Mutex
	// open are the open connections by address, without those that were evicted. count is their number.
	open  map[netip.Addr]map[*limitedConn]bool
	count int
}

// limitedConn is a connection that a LimitedListener counts until it is closed.
type limitedConn struct {
	net.Conn
	table   *connectionTable
	address netip.Addr
	// peer is the process that connected through a unix socket; nil for other connections.
	peer *unix.Ucred
	// waitingSince is when the connection began to wait for a request; zero while it serves one.
	// The table's mu protects it.
	waitingSince time.Time
}

// LimitConnections returns a listener that accepts connections of l within the limits. The
// server must report states of connections to TrackState.
func LimitConnections(l net.Listener, limits ConnectionLimits) *LimitedListener {
	if limits.Usage == nil {
		limits.Usage = ignoreUsage{}
	}
	limits.Usage.SetAPILimit(connectionsResource, limits.Total)
	return &LimitedListener{l, &connectionTable{limits: limits, open: map[netip.Addr]map[*limitedConn]bool{}}}
}

// Share returns a listener of other's connections that has the limits in common with l. The
// limit of an address applies to each user of a unix socket.
func (l *LimitedListener) Share(other net.Listener) *LimitedListener {
	return &LimitedListener{other, l.connectionTable}
}

// Accept implements net.Listener.
func (l *LimitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetWriteBuffer(sendBuffer) // fails only if the client has disconnected
		}
		one := &limitedConn{Conn: c, table: l.connectionTable, address: apihttp.ClientNetwork(c.RemoteAddr().String()), waitingSince: time.Now()}
		if _, ok := c.(*net.UnixConn); ok {
			if one.peer, err = unixsocket.PeerCredentials(c); err != nil { // the client has disconnected
				_ = c.Close()
				continue
			}
			one.address = addressOfUser(one.peer.Uid)
		}
		evicted, ok := l.add(one)
		if evicted != nil {
			_ = evicted.Conn.Close() // its own Close would count it twice
		}
		if ok {
			return one, nil
		}
		_ = c.Close()
	}
}

// add counts a connection, and returns the one that must be closed for it. ok is false if there
// is no place.
func (l *connectionTable) add(c *limitedConn) (evicted *limitedConn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	scope := ""
	switch {
	case len(l.open[c.address]) >= l.limits.PerAddress:
		evicted, _ = l.longestWaiting(c.address)
		scope = clientScope
	case l.count >= l.limits.Total:
		evicted = l.mostDispensable(c.address)
		scope = totalScope
	}
	if scope != "" {
		l.limits.Usage.CountAPIRejection(connectionsResource, scope)
		if evicted == nil {
			return nil, false
		}
		l.remove(evicted)
	}
	if l.open[c.address] == nil {
		l.open[c.address] = map[*limitedConn]bool{}
	}
	l.open[c.address][c] = true
	l.count++
	l.limits.Usage.SetAPIUse(connectionsResource, l.count)
	return evicted, true
}

// longestWaiting returns the connection of an address that has waited longest for a request, nil
// if all serve requests, and how many wait. The caller holds the lock.
func (l *connectionTable) longestWaiting(address netip.Addr) (found *limitedConn, waiting int) {
	for c := range l.open[address] {
		if c.waitingSince.IsZero() {
			continue
		}
		waiting++
		if found == nil || c.waitingSince.Before(found.waitingSince) {
			found = c
		}
	}
	return found, waiting
}

// mostDispensable returns the longest waiting connection of the address with the most waiting
// connections, of the newcomer's own address if no other has more. It is nil if all connections
// serve requests.
func (l *connectionTable) mostDispensable(newcomer netip.Addr) *limitedConn {
	found, most := l.longestWaiting(newcomer)
	for address := range l.open {
		if c, waiting := l.longestWaiting(address); waiting > most {
			found, most = c, waiting
		}
	}
	return found
}

// remove stops counting a connection, if it is counted. The caller holds the lock.
func (l *connectionTable) remove(c *limitedConn) {
	if !l.open[c.address][c] {
		return
	}
	delete(l.open[c.address], c)
	if len(l.open[c.address]) == 0 {
		delete(l.open, c.address)
	}
	l.count--
	l.limits.Usage.SetAPIUse(connectionsResource, l.count)
}

// Close closes the connection and frees its place.
func (c *limitedConn) Close() error {
	err := c.Conn.Close() // first: a new connection must not find the descriptor in use
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.table.remove(c)
	return err
}

// TrackState records whether a connection waits for a request. It is http.Server.ConnState.
func (l *connectionTable) TrackState(c net.Conn, state http.ConnState) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	one, ok := c.(*limitedConn)
	if !ok {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch state {
	case http.StateNew, http.StateIdle:
		one.waitingSince = time.Now()
	case http.StateHijacked, http.StateActive:
		one.waitingSince = time.Time{}
	}
}
