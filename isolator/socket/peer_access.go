package socket

import (
	"cmp"
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
	// identifyPeer determines the permissions of a connection.
	identifyPeer func(net.Conn) peerIdentity
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
		peer := &peerConn{Conn: c, peerIdentity: p.identifyPeer(c)}
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

// peerIdentity is the process at the other end of a connection.
type peerIdentity struct {
	// denialReason is why it may only read; "" if it may change things.
	denialReason string
	// container is the outermost container in whose cgroup it runs; "" for none.
	container string
	// claimDenial is why it may not claim devices for its container, or for any
	// if it is in none; "" if it may.
	claimDenial string
}

// peerConn is a connection with the identity of its peer.
type peerConn struct {
	net.Conn
	peerIdentity
	onClose func()
}

// Close implements net.Conn.
func (p *peerConn) Close() error {
	p.onClose()
	return p.Conn.Close()
}

// identifyPeer checks the process at the other end of a unix socket. A process
// in a container may only read, whatever its uid: it could grant itself GPUs.
func (s *Server) identifyPeer(c net.Conn) peerIdentity {
	cred, err := unixsocket.PeerCredentials(c)
	if err != nil {
		return peerIdentity{denialReason: err.Error(), claimDenial: err.Error()} // the peer has already disconnected
	}
	id, err := FindContainer(s.cfg.ProcRoot, s.cfg.CgroupsRoot, int(cred.Pid))
	peer := peerIdentity{container: id}
	uid := int(cred.Uid)
	switch {
	case err != nil:
		peer.denialReason = fmt.Sprintf("check whether process %d runs in a container, whose processes may only GET: %v", cred.Pid, err)
		peer.claimDenial = peer.denialReason
	case id != "":
		peer.denialReason = fmt.Sprintf("process %d runs in container %s, and containers may only GET", cred.Pid, id)
	}
	if uid != 0 && uid != s.cfg.UID {
		peer.denialReason = fmt.Sprintf("uid %d may only GET, uid 0 and %d may do all", uid, s.cfg.UID)
	}
	return peer
}

// FindContainer returns the outermost container that a process runs in, by any
// of its cgroups; "" for none. procRoot is the path of procfs, cgroupsRoot the
// agent's --cgroups_root, where empty means "mesos".
func FindContainer(procRoot, cgroupsRoot string, pid int) (id string, err error) {
	text, err := os.ReadFile(filepath.Join(procRoot, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return "", err
	}
	root := strings.TrimSuffix(path.Clean("/"+cmp.Or(cgroupsRoot, "mesos")), "/") + "/"
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
