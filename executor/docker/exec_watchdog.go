package docker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// execWatchdog ends the commands of sessions whose process has ended. The
// engine keeps a command running after its client has disconnected, and an
// agent kills a session's processes without notice. So each session's process
// registers its command with the executor over a connection, which the kernel
// closes with the process.
type execWatchdog struct {
	r *runningContainer
	// listener accepts one connection for each session.
	listener *net.UnixListener
	// cancel ends the goroutines of serving: one for the listener and one for
	// each session.
	cancel  context.CancelFunc
	serving sync.WaitGroup
}

// sessionNotice registers the command of a session, before the command starts.
// The executor answers with one line.
type sessionNotice struct {
	ID   string `json:"id"`   // the engine's
	Mark string `json:"mark"` // the value of sessionVariable
}

// watchdogAddress is an abstract socket. Only processes in the executor's
// network namespace can reach it, a task cannot replace it by a file, and it
// disappears with its process.
func watchdogAddress(container string) *net.UnixAddr {
	return &net.UnixAddr{Name: "@" + container + "/sessions", Net: "unix"}
}

const (
	// noticeTimeout bounds the wait for a client's notice. endCommandTimeout
	// bounds the calls that end a command.
	noticeTimeout     = 10 * time.Second
	endCommandTimeout = 30 * time.Second
	maxNoticeBytes    = 4 << 10
	// maxWatchedSessions bounds the connections. The scheduler has the same
	// limit for sessions.
	maxWatchedSessions = 128
)

func newExecWatchdog(r *runningContainer) (*execWatchdog, error) {
	listener, err := net.ListenUnix("unix", watchdogAddress(r.name))
	if err != nil {
		return nil, fmt.Errorf("listen for sessions: %w", err)
	}
	g := &execWatchdog{r: r, listener: listener}
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	g.serving.Go(func() { g.serveSessions(ctx) })
	return g, nil
}

// close closes the connections. The commands have ended with the container.
func (g *execWatchdog) close() {
	if g == nil {
		return
	}
	g.cancel()
	_ = g.listener.Close() // there is nothing to flush
	g.serving.Wait()
}

func (g *execWatchdog) serveSessions(ctx context.Context) {
	free := make(chan struct{}, maxWatchedSessions)
	for {
		conn, err := g.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // for example too many open files
			g.r.log.WithError(err).Warn("cannot accept a session's connection")
			if waitPollInterval(ctx) != nil {
				return
			}
			continue
		}
		select {
		case free <- struct{}{}:
		default:
			g.r.log.Warnf("rejected a session: %d are open", maxWatchedSessions)
			_ = conn.Close() // there is nothing to flush
			continue
		}
		g.serving.Go(func() {
			defer func() { <-free }()
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			g.watchSession(ctx, conn)
		})
	}
}

// watchSession ends the command after its session's process has ended.
func (g *execWatchdog) watchSession(ctx context.Context, conn *net.UnixConn) {
	_ = conn.SetDeadline(time.Now().Add(noticeTimeout)) // a closed connection fails at the read
	if err := checkSameUser(conn); err != nil {
		g.r.log.WithError(err).Warn("rejected a session")
		return
	}
	in := bufio.NewReaderSize(conn, maxNoticeBytes)
	line, err := in.ReadSlice('\n')
	var n sessionNotice
	if err != nil || json.Unmarshal(line, &n) != nil || uuid.Validate(n.Mark) != nil {
		return
	}
	if err := g.checkCommandContainer(ctx, n.ID); err != nil {
		g.r.log.WithError(err).Warn("rejected a session")
		return
	}
	if _, err := conn.Write([]byte("ok\n")); err != nil {
		return
	}
	_ = conn.SetDeadline(time.Time{})
	_, _ = in.ReadByte() // the client sends nothing else: this returns when it disconnects
	if ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, endCommandTimeout)
	defer cancel()
	if err := g.endCommand(ctx, n); err != nil && ctx.Err() == nil {
		g.r.log.WithError(err).Warn("cannot end a session's command: it runs until its task ends")
	}
}

// checkCommandContainer checks that a command runs in the task's container.
func (g *execWatchdog) checkCommandContainer(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
	defer cancel()
	e, err := g.r.engine.ContainerExecInspect(ctx, id)
	if err != nil {
		return fmt.Errorf("inspect a session's command: %w", err)
	}
	if e.ContainerID != g.r.id {
		return fmt.Errorf("a session's command is in container %.12s, this task's is %.12s", e.ContainerID, g.r.id)
	}
	return nil
}

// checkSameUser rejects peers of other users: not every process in the network
// namespace may register with an executor, or act as one.
func checkSameUser(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	if e := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil {
		return e
	}
	if err != nil {
		return fmt.Errorf("read the peer's credentials: %w", err)
	}
	if own := os.Geteuid(); int(peer.Uid) != own && peer.Uid != 0 {
		return fmt.Errorf("process %d is user %d's, this one %d's", peer.Pid, peer.Uid, own)
	}
	return nil
}

// registerSession registers a command with the executor. The executor ends the
// command when the returned connection is closed.
func registerSession(ctx context.Context, container string, n sessionNotice) (net.Conn, error) {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unix", watchdogAddress(container).Name)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, errors.New("the task's executor does not listen for sessions: it is ending, or its version is too old; restart the task")
	}
	if err != nil {
		return nil, fmt.Errorf("register the command with the task's executor: %w", err)
	}
	conn := c.(*net.UnixConn)
	text, err := json.Marshal(n)
	if err == nil {
		err = checkSameUser(conn)
	}
	if err == nil {
		_ = conn.SetDeadline(time.Now().Add(2 * noticeTimeout)) // a closed connection fails at the write
		_, err = conn.Write(append(text, '\n'))
	}
	if err == nil {
		_, err = bufio.NewReader(conn).ReadString('\n')
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("register the command with the task's executor: %w: see its log", err)
	}
	return conn, conn.SetDeadline(time.Time{})
}

// endCommand ends a command and the processes that it started. The command may
// have ended already, or not have started yet.
func (g *execWatchdog) endCommand(ctx context.Context, n sessionNotice) error {
	for tries := 0; ; tries++ {
		e, err := g.r.engine.ContainerExecInspect(ctx, n.ID)
		switch {
		case err != nil:
			return fmt.Errorf("inspect a session's command: %w", err)
		case e.Pid == 0 && tries < maxStartPolls: // the engine has not started it yet
			if err := waitPollInterval(ctx); err != nil {
				return err
			}
			continue
		case e.Pid == 0:
			return nil
		}
		err = g.killCommand(ctx, n)
		if !e.Running { // errors matter only for a command that still runs
			return nil
		}
		return err
	}
}

// maxStartPolls bounds the wait for the start of a command whose session has
// ended.
const maxStartPolls = 100

func waitPollInterval(ctx context.Context) error {
	select {
	case <-time.After(execPollInterval):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
