package socket

import (
	"context"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"mesos-gpu/internal/unixsocket"
)

const (
	// maxConnections bounds the connections of a listener, and
	// maxReadOnlyConnections those that may only read, so that no user can
	// keep the agent from connecting. maxConditionStreams bounds the condition
	// streams, so that connections remain for other calls.
	maxConnections         = 64
	maxReadOnlyConnections = 48
	maxConditionStreams    = 40
)

// peerListener accepts connections and determines their permissions.
type peerListener struct {
	net.Listener
	// denialReason returns why a connection may only read; "" if it may change
	// things.
	denialReason func(net.Conn) string
	ioTimeout    time.Duration

	mu                               sync.Mutex
	connections, readOnlyConnections int
}

// Accept implements net.Listener. It answers a connection above the limit with
// an error and closes it.
func (p *peerListener) Accept() (net.Conn, error) {
	for {
		c, err := p.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer := &peerConn{Conn: c, denialReason: p.denialReason(c)}
		if p.admitPeer(peer) {
			return peer, nil
		}
		p.rejectConnection(c)
	}
}

func (p *peerListener) admitPeer(c *peerConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.connections >= maxConnections || c.denialReason != "" && p.readOnlyConnections >= maxReadOnlyConnections {
		return false
	}
	p.addConnections(c, 1)
	c.onClose = sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.addConnections(c, -1)
	})
	return true
}

func (p *peerListener) addConnections(c *peerConn, n int) {
	p.connections += n
	if c.denialReason != "" {
		p.readOnlyConnections += n
	}
}

func (p *peerListener) rejectConnection(c net.Conn) {
	defer c.Close()
	const body = `{"error":"too many connections, try again"}` + "\n"
	if c.SetWriteDeadline(time.Now().Add(p.ioTimeout)) == nil {
		// The buffer of a new socket has room for it.
		fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
	}
}

// peerConn is a connection with the reason why it may only read; "" if it may
// change things.
type peerConn struct {
	net.Conn
	denialReason string
	onClose      func()
}

// Close implements net.Conn.
func (p *peerConn) Close() error {
	p.onClose()
	return p.Conn.Close()
}

// denialReason checks the process at the other end of a unix socket. A process
// in a container may only read, whatever its uid: it could grant itself GPUs.
func (s *Server) denialReason(c net.Conn) string {
	cred, err := unixsocket.PeerCredentials(c)
	if err != nil {
		return err.Error() // the peer has already disconnected
	}
	if uid := int(cred.Uid); uid != 0 && uid != s.cfg.UID {
		return fmt.Sprintf("uid %d may only GET, uid 0 and %d may do all", uid, s.cfg.UID)
	}
	id, err := s.findContainer(int(cred.Pid))
	switch {
	case err != nil:
		return err.Error()
	case id != "":
		return fmt.Sprintf("process %d runs in container %s, and containers may only GET", cred.Pid, id)
	}
	return ""
}

// findContainer returns the outermost container that a process runs in, by any
// of its cgroups; "" for none.
func (s *Server) findContainer(pid int) (id string, err error) {
	text, err := os.ReadFile(filepath.Join(s.cfg.ProcRoot, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return "", fmt.Errorf("check whether process %d runs in a container, whose processes may only GET: %w", pid, err)
	}
	root := strings.TrimSuffix(path.Clean("/"+s.cfg.CgroupsRoot), "/") + "/"
	for line := range strings.Lines(string(text)) {
		// HIERARCHY:CONTROLLERS:PATH
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		_, at, _ := strings.Cut(rest, ":")
		below, ok := strings.CutPrefix(at, root)
		id, _, _ := strings.Cut(below, "/")
		// The Mesos agent itself is in one of these two, depending on the
		// cgroup version.
		if ok && id != "slave" && id != "agent" {
			return id, nil
		}
	}
	return "", nil
}

type peerKey struct{}

func withPeer(ctx context.Context, c net.Conn) context.Context {
	if p, ok := c.(*peerConn); ok {
		return context.WithValue(ctx, peerKey{}, p)
	}
	return ctx
}
