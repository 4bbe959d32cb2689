// Package portrelay carries TCP connections to ports of a task over one stream, between
// the scheduler and a relay on the task's agent.
//
// The stream is multiplexed (yamux). Each connection begins with a line of addresses,
// which the relay tries in order. Its answer is an empty line, or one with an error.
package portrelay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
)

const (
	// MaxConnections limits the connections of one stream. Each buffers at most 256 KiB
	// on each side.
	MaxConnections = 128
	// dialTimeout limits the time for one address.
	dialTimeout = 10 * time.Second
	// maxLine limits a line at the start of a connection, in bytes.
	maxLine = 1 << 10
)

// ErrRefused means that the task accepts no connections at any of the addresses.
var ErrRefused = errors.New("connection refused")

func newConfig() *yamux.Config {
	c := yamux.DefaultConfig()
	c.LogOutput = io.Discard
	c.ConnectionWriteTimeout = 30 * time.Second // the stream goes through HTTP connections of the agent
	return c
}

// Serve connects to the addresses that the other side of the stream requests, until the
// stream or ctx ends. All connections have ended when it returns.
func Serve(ctx context.Context, stream io.ReadWriteCloser) error {
	session, err := yamux.Server(stream, newConfig())
	if err != nil {
		return fmt.Errorf("serve ports: %w", err)
	}
	defer session.Close()
	defer context.AfterFunc(ctx, func() { _ = session.Close() })()
	var serving sync.WaitGroup
	defer serving.Wait()
	limit := make(chan struct{}, MaxConnections)
	for {
		in, err := session.AcceptStream()
		if err != nil {
			return nil // the stream has ended
		}
		limit <- struct{}{}
		serving.Go(func() {
			defer func() { <-limit }()
			serveConnection(ctx, Conn{in})
		})
	}
}

func serveConnection(ctx context.Context, in Conn) {
	defer in.Close()
	line, err := readLine(in)
	if err != nil {
		return
	}
	out, err := dialFirst(ctx, strings.Fields(line))
	if err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		_, _ = io.WriteString(in, text[:min(len(text), maxLine-1)]+"\n")
		return
	}
	defer out.Close()
	if _, err := io.WriteString(in, "\n"); err != nil {
		return
	}
	CopyBoth(in, out)
}

// dialFirst connects to the first address that accepts a connection.
func dialFirst(ctx context.Context, addresses []string) (*net.TCPConn, error) {
	err := errors.New("no address")
	dialer := net.Dialer{Timeout: dialTimeout}
	for i, address := range addresses {
		conn, failed := dialer.DialContext(ctx, "tcp", address)
		if failed == nil {
			return conn.(*net.TCPConn), nil
		}
		if i == 0 { // the others are alternatives of the first
			err = failed
		}
	}
	return nil, err
}

// HalfCloser is a connection whose two directions end separately.
type HalfCloser interface {
	net.Conn
	CloseWrite() error
}

// CopyBoth copies data between two connections until both directions have ended, or one
// has failed. The caller closes both.
func CopyBoth(a, b HalfCloser) {
	var copying sync.WaitGroup
	for _, pair := range [][2]HalfCloser{{a, b}, {b, a}} {
		copying.Go(func() {
			_, err := io.Copy(pair[0], pair[1])
			if err == nil {
				err = pair[0].CloseWrite()
			}
			if err != nil {
				_ = a.Close()
				_ = b.Close()
			}
		})
	}
	copying.Wait()
}

// readLine reads up to the end of a line, and no further.
func readLine(r io.Reader) (string, error) {
	var line []byte
	for one := make([]byte, 1); ; {
		if _, err := io.ReadFull(r, one); err != nil {
			return "", err
		}
		if one[0] == '\n' {
			return string(line), nil
		}
		if line = append(line, one[0]); len(line) > maxLine {
			return "", errors.New("the line is too long")
		}
	}
}

// Tunnel is the scheduler's side of a stream.
type Tunnel struct{ session *yamux.Session }

// OpenTunnel returns the tunnel over a stream whose other side runs Serve. Close closes
// the stream.
func OpenTunnel(stream io.ReadWriteCloser) (*Tunnel, error) {
	session, err := yamux.Client(stream, newConfig())
	if err != nil {
		return nil, fmt.Errorf("open tunnel: %w", err)
	}
	return &Tunnel{session}, nil
}

// Close ends the tunnel and its connections.
func (t *Tunnel) Close() error { return t.session.Close() }

// Done is closed when the tunnel has ended.
func (t *Tunnel) Done() <-chan struct{} { return t.session.CloseChan() }

// Dial connects to the first of the addresses, as seen from the relay, that accepts a
// connection. It returns ErrRefused, wrapped, if none does.
func (t *Tunnel) Dial(ctx context.Context, addresses []string) (Conn, error) {
	if ctx.Err() != nil {
		return Conn{}, context.Cause(ctx)
	}
	stream, err := t.session.OpenStream()
	if err != nil {
		return Conn{}, fmt.Errorf("open connection: %w", err)
	}
	conn := Conn{stream}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	answer, err := conn.request(strings.Join(addresses, " "))
	if !stop() {
		return Conn{}, context.Cause(ctx)
	}
	if err == nil && answer != "" {
		err = fmt.Errorf("%w: %s", ErrRefused, answer)
	}
	if err != nil {
		_ = conn.Close()
		return Conn{}, err
	}
	return conn, nil
}

// Conn is a connection over a tunnel.
type Conn struct{ *yamux.Stream }

// request sends a line and returns the line of the answer.
func (c Conn) request(line string) (string, error) {
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		return "", err
	}
	return readLine(c)
}

// CloseWrite ends the data of this side. If the other side does not end within 5 minutes,
// the connection is closed.
func (c Conn) CloseWrite() error { return c.Stream.Close() }

// Close ends both directions.
func (c Conn) Close() error {
	err := c.Stream.Close()
	_ = c.SetDeadline(time.Unix(1, 0)) // ends calls of Read and Write
	return err
}
