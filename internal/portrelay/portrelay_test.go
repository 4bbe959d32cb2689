package portrelay

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// startRelay returns the tunnel to a relay.
func startRelay(t *testing.T) *Tunnel {
	t.Helper()
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- Serve(t.Context(), far) }()
	tunnel, err := OpenTunnel(near)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = tunnel.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return tunnel
}

// listen serves each connection with a function, and returns the address.
func listen(t *testing.T, serve func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn.(*net.TCPConn))
			}()
		}
	}()
	return l.Addr().String()
}

// closedAddress returns an address that accepts no connections.
func closedAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestRelay checks that many connections at once carry their own data, and that each
// direction ends separately.
func TestRelay(t *testing.T) {
	tunnel, closed := startRelay(t), closedAddress(t)
	address := listen(t, func(conn *net.TCPConn) {
		data, err := io.ReadAll(conn) // up to the end of the client's data
		if err == nil {
			_, _ = conn.Write([]byte(strings.ToUpper(string(data))))
		}
	})
	var conns []Conn
	for range MaxConnections {
		conn, err := tunnel.Dial(t.Context(), []string{closed, address})
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for i, conn := range conns {
		if _, err := io.WriteString(conn, strings.Repeat("a", i)); err != nil || conn.CloseWrite() != nil {
			t.Fatal(err)
		}
	}
	for i, conn := range conns {
		if data, err := io.ReadAll(conn); err != nil || string(data) != strings.Repeat("A", i) {
			t.Errorf("connection %d: %q, %v", i, data, err)
		}
		_ = conn.Close()
	}
}

// TestRelayRefuses checks the errors for addresses that accept no connection.
func TestRelayRefuses(t *testing.T) {
	tunnel, closed := startRelay(t), closedAddress(t)
	for _, tt := range []struct {
		addresses []string
		want      string
	}{
		{[]string{closed, "127.0.0.1:x"}, closed + ": connect: connection refused"},
		{nil, "no address"},
		{[]string{"127.0.0.1:99999"}, "invalid port"},
	} {
		if _, err := tunnel.Dial(t.Context(), tt.addresses); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.addresses, err, tt.want)
		}
	}
	if _, err := tunnel.Dial(t.Context(), []string{strings.Repeat("x", 2*maxLine)}); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("a long line: %v", err)
	}
}

// TestRelayEnds checks that the end of a client, of a request and of the tunnel reach the
// other side.
func TestRelayEnds(t *testing.T) {
	tunnel := startRelay(t)
	left := make(chan error)
	address := listen(t, func(conn *net.TCPConn) {
		_, err := io.Copy(io.Discard, conn)
		left <- err
	})
	first, err := tunnel.Dial(t.Context(), []string{address})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tunnel.Dial(t.Context(), []string{address}); err != nil {
		t.Fatal(err)
	}
	read := make(chan error)
	go func() {
		_, err := first.Read(make([]byte, 1))
		read <- err
	}()
	_ = first.Close()
	if err := <-left; err != nil {
		t.Errorf("the server read %v, want the end of the data", err)
	}
	if err := <-read; err == nil {
		t.Error("a closed connection can be read")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tunnel.Dial(ended, []string{address}); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that has ended: %v", err)
	}
	_ = tunnel.Close()
	<-left
	<-tunnel.Done()
	if _, err := tunnel.Dial(t.Context(), []string{address}); err == nil || errors.Is(err, ErrRefused) {
		t.Errorf("over a closed tunnel: %v", err)
	}
}
