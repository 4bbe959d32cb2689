package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxConnections bounds a listener, and maxOthers those of them that may
	// only ask: no user can keep the agent out. maxStreams bounds the streams
	// of conditions among all: the others stay free for calls that end.
	maxConnections = 64
	maxOthers      = 48
	maxStreams     = 40
)

// peers is a listener whose connections know what they may.
type peers struct {
	net.Listener
	// refusal is why a connection may change nothing; "" where it may.
	refusal  func(net.Conn) string
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
		peer := &peer{Conn: c, refusal: p.refusal(c)}
		if p.admit(peer) {
			return peer, nil
		}
		p.turnAway(c)
	}
}

func (p *peers) admit(c *peer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all >= maxConnections || c.refusal != "" && p.others >= maxOthers {
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
	if c.refusal != "" {
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

// peer is a connection that knows why it may only ask; "" where it may all.
type peer struct {
	net.Conn
	refusal string
	gone    func()
}

// Close implements net.Conn.
func (p *peer) Close() error {
	p.gone()
	return p.Conn.Close()
}

// refusal looks at who is at the other end of a unix socket's connection. One
// in a container may only ask, whatever its uid: it would grant itself GPUs.
func (s *Server) refusal(c net.Conn) string {
	cred, err := peerOf(c)
	if err != nil {
		return err.Error() // it has gone already
	}
	if uid := int(cred.Uid); uid != 0 && uid != s.cfg.UID {
		return fmt.Sprintf("uid %d may only GET, uid 0 and %d may do all", uid, s.cfg.UID)
	}
	id, err := s.containerOf(int(cred.Pid))
	switch {
	case err != nil:
		return err.Error()
	case id != "":
		return fmt.Sprintf("process %d runs in container %s, and containers may only GET", cred.Pid, id)
	}
	return ""
}

// containerOf is the outermost container that a process runs in, by any of its
// cgroups; "" for none.
func (s *Server) containerOf(pid int) (id string, err error) {
	text, err := os.ReadFile(filepath.Join(s.cfg.ProcRoot, strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return "", fmt.Errorf("find out whether process %d runs in a container, whose processes may only GET: %w", pid, err)
	}
	root := strings.TrimSuffix(path.Clean("/"+s.cfg.CgroupsRoot), "/") + "/"
	for line := range strings.Lines(string(text)) {
		// HIERARCHY:CONTROLLERS:PATH
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		_, at, _ := strings.Cut(rest, ":")
		below, ok := strings.CutPrefix(at, root)
		id, _, _ := strings.Cut(below, "/")
		// Mesos's own agent is in one of these two, by version of cgroups.
		if ok && id != "slave" && id != "agent" {
			return id, nil
		}
	}
	return "", nil
}

// peerOf asks the kernel who connected.
func peerOf(c net.Conn) (cred *unix.Ucred, err error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.New("find out who connected: not a unix socket")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("find out who connected: %w", err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || failed != nil {
		return nil, fmt.Errorf("find out who connected: %w", errors.Join(err, failed))
	}
	return cred, nil
}

type peerKey struct{}

func withPeer(ctx context.Context, c net.Conn) context.Context {
	if p, ok := c.(*peer); ok {
		return context.WithValue(ctx, peerKey{}, p)
	}
	return ctx
}
