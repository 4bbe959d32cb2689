// Package zkconn maintains one session with ZooKeeper and tracks how long the caller
// can rely on it: a session that may have expired counts as lost, even if no server has
// reported that. It does not interpret what is stored.
package zkconn

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/sirupsen/logrus"
)

// DefaultTimeout is how long ZooKeeper keeps a silent session. It is the default of
// Mesos.
const DefaultTimeout = 10 * time.Second

// connectTimeoutDivisor gives a server at least timeout/connectTimeoutDivisor to answer
// a reconnect. The library would wait far longer than the session lasts; with this
// limit the next server may still answer in time.
const connectTimeoutDivisor = 3

// ErrLost means that the session has ended or may have ended: it was closed, or it had
// no contact with ZooKeeper for too long.
var ErrLost = errors.New("the session with ZooKeeper is lost")

// Session is a session with ZooKeeper. Its methods are safe for concurrent use.
type Session struct {
	// Conn is for calls inside Retry. It must not be used after the session is lost.
	Conn *zk.Conn
	// ACL applies to every znode that is created.
	ACL []zk.ACL

	// log reports lost and new connections.
	log logrus.FieldLogger
	// onConnection is called with nil for each new connection, and with the error if
	// connecting fails. It is called under mu.
	onConnection func(error)
	// dialTCP opens connections; tests replace it.
	dialTCP func(network, address string, timeout time.Duration) (net.Conn, error)
	// lost is closed when the session ends: by Close, or because ZooKeeper has ended it.
	lost chan struct{}
	// done waits for the session's goroutines.
	done sync.WaitGroup

	// mu protects the fields below.
	mu sync.Mutex
	// ended is set by Close and by the loss of the session.
	ended              bool
	lastReply          time.Time     // when ZooKeeper last sent anything
	timeout            time.Duration // as granted by the server
	connected          chan struct{} // closed while a connection has a session
	hadSession         bool          // a session has been established before
	noConnectionLogged bool          // the current lack of a connection has been logged
	lastConn           net.Conn      // the latest connection
}

// Dial connects and waits for a session until ctx ends. The server may grant another
// timeout than the requested one.
func Dial(ctx context.Context, t TargetFolder, timeout time.Duration, log logrus.FieldLogger) (*Session, error) {
	return DialObserved(ctx, t, timeout, log, func(error) {})
}

// DialObserved is Dial with a callback for each change of the connection: nil for a new
// connection, or the reason why no connection exists. The callback must not block or call the session.
func DialObserved(ctx context.Context, t TargetFolder, timeout time.Duration, log logrus.FieldLogger, onConnection func(error)) (*Session, error) {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	s := newSession(t, timeout, log)
	s.onConnection = onConnection
	if err := s.connectSession(ctx, t); err != nil {
		return nil, err
	}
	return s, nil
}

func newSession(t TargetFolder, timeout time.Duration, log logrus.FieldLogger) *Session {
	return &Session{
		ACL: zk.WorldACL(zk.PermAll), onConnection: func(error) {}, log: log.WithField("zookeeper", t.String()), dialTCP: net.DialTimeout,
		lost: make(chan struct{}), connected: make(chan struct{}), lastReply: time.Now(), timeout: timeout,
	}
}

// connectSession connects, waits for a session and authenticates.
func (s *Session) connectSession(ctx context.Context, t TargetFolder) error {
	var auth, user string
	if t.AuthFile != "" {
		var err error
		if auth, err = ReadAuthFile(t.AuthFile, s.log); err != nil {
			return err
		}
		var password string
		user, password, _ = strings.Cut(auth, ":")
		s.ACL = zk.DigestACL(zk.PermAll, user, password)
	}
	conn, events, err := zk.Connect(t.Hosts, s.timeout, zk.WithDialer(s.dialServer), zk.WithEventCallback(s.handleEvent),
		zk.WithLogger(debugLogger{s.log}), zk.WithLogInfo(false))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", t, err)
	}
	s.mu.Lock()
	s.Conn = conn
	s.mu.Unlock()
	s.done.Go(func() {
		for range events { // the callback has already handled them
		}
	})
	if err := s.awaitConnection(ctx); err != nil {
		s.Close()
		return fmt.Errorf("connect to %s: %w", t, err)
	}
	s.done.Go(s.watchSilence)
	if auth != "" {
		defer context.AfterFunc(ctx, s.endSession)() // ends the call if the server does not answer
		if err := s.Retry(ctx, func() error { return conn.AddAuth("digest", []byte(auth)) }); err != nil {
			s.Close()
			return fmt.Errorf("authenticate with %s as %s: %w", t, user, err)
		}
	}
	return nil
}

// debugLogger writes the library's messages to the log at debug level.
type debugLogger struct{ log logrus.FieldLogger }

func (l debugLogger) Printf(format string, args ...any) { l.log.Debugf(format, args...) }

// Close ends the session, which makes ZooKeeper delete its ephemeral znodes.
func (s *Session) Close() {
	s.endSession()
	s.done.Wait()
}

func (s *Session) endSession() {
	s.mu.Lock()
	again, conn := s.ended, s.Conn
	s.ended = true
	s.mu.Unlock()
	if again {
		return
	}
	close(s.lost)
	if conn != nil {
		conn.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastConn != nil {
		_ = s.lastConn.Close() // unblocks the library if it awaits an answer
	}
}

// Lost returns a channel that is closed when the session is lost.
func (s *Session) Lost() <-chan struct{} { return s.lost }

// AwaitLoss returns ErrLost when the session is lost, nil when ctx ends before.
func (s *Session) AwaitLoss(ctx context.Context) error {
	select {
	case <-s.lost:
		return ErrLost
	case <-ctx.Done():
		return nil
	}
}

// IsHeld reports whether the session certainly has not expired.
func (s *Session) IsHeld() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ended && time.Now().Before(s.reliableUntil())
}

// reliableUntil returns the earliest time at which ZooKeeper may expire the session. The
// server counts from our last message, which is older than its last reply; a tenth of
// the timeout covers the difference.
func (s *Session) reliableUntil() time.Time { return s.lastReply.Add(s.timeout * 9 / 10) }

// watchSilence ends the session when ZooKeeper has been silent for too long.
func (s *Session) watchSilence() {
	for {
		s.mu.Lock()
		left := time.Until(s.reliableUntil())
		s.mu.Unlock()
		if left <= 0 {
			s.endSession()
			return
		}
		select {
		case <-time.After(left):
		case <-s.lost:
			return
		}
	}
}

// handleEvent is the library's callback. The calls are sequential and must not block.
func (s *Session) handleEvent(ev zk.Event) {
	if ev.Type != zk.EventSession {
		return
	}
	switch ev.State {
	case zk.StateExpired, zk.StateAuthFailed:
		go s.endSession() // not here: it closes the connection that calls this function
	case zk.StateHasSession:
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.noConnectionLogged {
			s.log.Info("connected to ZooKeeper")
		}
		s.onConnection(nil)
		s.hadSession, s.noConnectionLogged = true, false
		if !isClosed(s.connected) {
			close(s.connected)
		}
	case zk.StateDisconnected:
		s.mu.Lock()
		defer s.mu.Unlock()
		if isClosed(s.connected) {
			s.connected = make(chan struct{})
		}
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// awaitConnection waits until a connection has a session.
func (s *Session) awaitConnection(ctx context.Context) error {
	s.mu.Lock()
	connected := s.connected
	s.mu.Unlock()
	select {
	case <-connected:
		return nil
	case <-s.lost:
		return ErrLost
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Retry calls f, and calls it again after a lost connection, until f returns another
// result, the session is lost (ErrLost) or ctx ends. It does not call f once ctx has
// ended, so that a loop of calls ends with ctx. A call in progress ends only with its
// answer or the connection. A call that failed because of the connection may still
// have been carried out.
func (s *Session) Retry(ctx context.Context, f func() error) error {
	for {
		if isClosed(s.lost) {
			return ErrLost
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		err := f()
		if !IsOutcomeUnknown(err) {
			return err
		}
		if err := s.awaitConnection(ctx); err != nil {
			return err
		}
	}
}

// MakeFolder creates the znode and its parents.
func (s *Session) MakeFolder(ctx context.Context, folder string) error {
	at := ""
	for name := range strings.SplitSeq(strings.Trim(path.Clean(folder), "/"), "/") {
		at += "/" + name
		err := s.Retry(ctx, func() error { _, err := s.Conn.Create(at, nil, 0, s.ACL); return err })
		if err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return fmt.Errorf("create %s: %w", at, err)
		}
	}
	return nil
}

// IsOutcomeUnknown reports whether a call with this error may have been carried out.
func IsOutcomeUnknown(err error) bool {
	reasons := []error{zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrClosing, zk.ErrSessionMoved, zk.ErrSessionExpired}
	return slices.ContainsFunc(reasons, func(e error) bool { return errors.Is(err, e) })
}

// dialServer opens connections that record when ZooKeeper replies and which timeout it
// grants: the library exposes neither.
func (s *Session) dialServer(network, address string, timeout time.Duration) (net.Conn, error) {
	c, err := s.dialTCP(network, address, timeout)
	if err != nil {
		s.logNoConnection(err)
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		_ = c.Close() // no other code can close it
		return nil, ErrLost
	}
	s.lastConn = c
	return &observedConn{Conn: c, session: s}, nil
}

// logNoConnection logs the reason once until there is a connection again.
func (s *Session) logNoConnection(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.noConnectionLogged {
		return
	}
	s.noConnectionLogged = true
	s.log.WithError(err).Warn("no connection to ZooKeeper")
	s.onConnection(err)
}

type observedConn struct {
	net.Conn
	session         *Session
	connectResponse []byte // the first bytes of the answer to the connect request
}

// timeoutOffset is the offset of the timeout, in milliseconds, in connectResponse: after
// the length and the protocol version.
const timeoutOffset = 8

// SetReadDeadline shortens the time that the library waits for the answer to a connect
// request, which is the first thing that it reads.
func (c *observedConn) SetReadDeadline(at time.Time) error {
	return c.Conn.SetReadDeadline(c.boundDeadline(at))
}

func (c *observedConn) boundDeadline(at time.Time) time.Time {
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	if len(c.connectResponse) > 0 || at.IsZero() {
		return at
	}
	patience := max(c.session.timeout, DefaultTimeout) // a new session is written to disk first
	if c.session.hadSession {
		// While much time is left, waiting for a slow server is better than reconnecting.
		patience = max(c.session.timeout/connectTimeoutDivisor, time.Until(c.session.reliableUntil())/2)
	}
	if limit := time.Now().Add(patience); at.After(limit) {
		return limit
	}
	return at
}

// Write wraps errors with zk.ErrConnectionClosed. The library returns write errors
// unwrapped, so that IsOutcomeUnknown would not recognize them.
func (c *observedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil {
		err = fmt.Errorf("%w: %w", zk.ErrConnectionClosed, err)
	}
	return n, err
}

func (c *observedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 {
		if len(c.connectResponse) == 0 {
			c.session.logNoConnection(fmt.Errorf("ask %s for the session: %w", c.RemoteAddr(), err))
		}
		return n, err
	}
	c.session.mu.Lock()
	defer c.session.mu.Unlock()
	c.session.lastReply = time.Now()
	if len(c.connectResponse) < timeoutOffset+4 {
		c.connectResponse = append(c.connectResponse, p[:n]...)
		if len(c.connectResponse) >= timeoutOffset+4 {
			if ms := binary.BigEndian.Uint32(c.connectResponse[timeoutOffset:]); ms > 0 {
				c.session.timeout = time.Duration(ms) * time.Millisecond
			}
		}
	}
	return n, err
}
