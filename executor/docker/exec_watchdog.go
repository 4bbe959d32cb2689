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

// execWatchdog ends the commands of sessions that are gone: the engine lets a command
// run on whose client has left, and an agent kills the processes of a session
// without a word. So each session's process tells the executor of its command
// over a connection, which the kernel closes with the process.
type execWatchdog struct {
	r        *runningContainer
	listener *net.UnixListener
	cancel   context.CancelFunc
	serving  sync.WaitGroup
}

// sessionNotice is what a session tells the executor of its command, before that
// begins. The executor answers with a line.
type sessionNotice struct {
	ID   string `json:"id"`   // the engine's
	Mark string `json:"mark"` // the value of sessionVariable
}

// watchdogAddress is an abstract socket: there for those in the executor's
// network and of its user, no file that a task could put another in place of,
// and gone with its process.
func watchdogAddress(container string) *net.UnixAddr {
	return &net.UnixAddr{Name: "@" + container + "/sessions", Net: "unix"}
}

const (
	// noticeTimeout is for a client that says nothing, endCommandTimeout for an
	// engine that hangs while a command is to be ended.
	noticeTimeout     = 10 * time.Second
	endCommandTimeout = 30 * time.Second
	maxNoticeBytes    = 4 << 10
	// maxWatchedSessions bounds the connections. The scheduler has as many sessions.
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

// close ends the connections; the container's end has ended the commands.
func (g *execWatchdog) close() {
	if g == nil {
		return
	}
	g.cancel()
	_ = g.listener.Close() // nothing was written
	g.serving.Wait()
}

func (g *execWatchdog) serveSessions(ctx context.Context) {
	free := make(chan struct{}, maxWatchedSessions)
	for {
		conn, err := g.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files, for example
			g.r.log.WithError(err).Warn("take a session's connection")
			if waitPollInterval(ctx) != nil {
				return
			}
			continue
		}
		select {
		case free <- struct{}{}:
		default:
			g.r.log.Warnf("refused a session: %d are open", maxWatchedSessions)
			_ = conn.Close() // nothing was written
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

// watchSession ends a command once its session's process has ended.
func (g *execWatchdog) watchSession(ctx context.Context, conn *net.UnixConn) {
	_ = conn.SetDeadline(time.Now().Add(noticeTimeout)) // a connection that is closed is read so
	if err := checkSameUser(conn); err != nil {
		g.r.log.WithError(err).Warn("refused a session")
		return
	}
	in := bufio.NewReaderSize(conn, maxNoticeBytes)
	line, err := in.ReadSlice('\n')
	var n sessionNotice
	if err != nil || json.Unmarshal(line, &n) != nil || uuid.Validate(n.Mark) != nil {
		return
	}
	if err := g.checkCommandContainer(ctx, n.ID); err != nil {
		g.r.log.WithError(err).Warn("refused a session")
		return
	}
	if _, err := conn.Write([]byte("ok\n")); err != nil {
		return
	}
	_ = conn.SetDeadline(time.Time{})
	_, _ = in.ReadByte() // it says no more
	if ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, endCommandTimeout)
	defer cancel()
	if err := g.endCommand(ctx, n); err != nil && ctx.Err() == nil {
		g.r.log.WithError(err).Warn("a session's command runs on until its task ends")
	}
}

// checkCommandContainer makes sure that a command is in the task's container.
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

// checkSameUser refuses peers of other users: not every process that shares the
// network may speak with an executor, or for one.
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
		return fmt.Errorf("learn who is connected: %w", err)
	}
	if own := os.Geteuid(); int(peer.Uid) != own && peer.Uid != 0 {
		return fmt.Errorf("process %d is user %d's, this one %d's", peer.Pid, peer.Uid, own)
	}
	return nil
}

// registerSession tells the executor of a command. The command is ended once what it
// returns is closed.
func registerSession(ctx context.Context, container string, n sessionNotice) (net.Conn, error) {
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, "unix", watchdogAddress(container).Name)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, errors.New("the task's executor does not listen for sessions: it is ending, or of an older version; start the task again")
	}
	if err != nil {
		return nil, fmt.Errorf("tell the task's executor of the command: %w", err)
	}
	conn := c.(*net.UnixConn)
	text, err := json.Marshal(n)
	if err == nil {
		err = checkSameUser(conn)
	}
	if err == nil {
		_ = conn.SetDeadline(time.Now().Add(2 * noticeTimeout)) // a connection that is closed is written so
		_, err = conn.Write(append(text, '\n'))
	}
	if err == nil {
		_, err = bufio.NewReader(conn).ReadString('\n')
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("tell the task's executor of the command: %w: its log says why", err)
	}
	return conn, conn.SetDeadline(time.Time{})
}

// endCommand ends a command and what it started. It may be just about to begin, or
// have ended.
func (g *execWatchdog) endCommand(ctx context.Context, n sessionNotice) error {
	for tries := 0; ; tries++ {
		e, err := g.r.engine.ContainerExecInspect(ctx, n.ID)
		switch {
		case err != nil:
			return fmt.Errorf("inspect a session's command: %w", err)
		case e.Pid == 0 && tries < maxStartPolls: // not begun, as far as the engine knows
			if err := waitPollInterval(ctx); err != nil {
				return err
			}
			continue
		case e.Pid == 0:
			return nil
		}
		err = g.killCommand(ctx, n)
		if !e.Running { // what it left behind mattered, and most leave nothing
			return nil
		}
		return err
	}
}

// maxStartPolls bounds the wait for a command to begin whose session has ended.
const maxStartPolls = 100

func waitPollInterval(ctx context.Context) error {
	select {
	case <-time.After(execPollInterval):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
