package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
)

const (
	// clientTimeout is how long a client that says now and then that it is there may
	// say nothing.
	clientTimeout = 4 * keepAliveInterval
	// drainTimeout is how long a client may take to read the last of what a
	// command has printed, once that has ended.
	drainTimeout = 10 * time.Minute
	// closeTimeout is how long it may take once the session is to end.
	closeTimeout = time.Second
)

// checkSameOrigin refuses pages of other sites, which Guard does not where a request
// only asks: what comes over a WebSocket any page may read and write.
func checkSameOrigin(r *http.Request) error {
	asking := r.WithContext(r.Context())
	asking.Method = http.MethodPost
	if http.NewCrossOriginProtection().Check(asking) != nil {
		return NewProblemf(http.StatusForbidden, "the request comes from another site's page")
	}
	return nil
}

// handshakeRecorder keeps a refusal of package websocket's for who can put it into a
// Problem.
type handshakeRecorder struct {
	http.ResponseWriter
	status  int
	message strings.Builder
}

func (h *handshakeRecorder) WriteHeader(code int) {
	if code == http.StatusSwitchingProtocols {
		h.ResponseWriter.WriteHeader(code)
		return
	}
	h.status = code
}

func (h *handshakeRecorder) Write(p []byte) (int, error) { return h.message.Write(p) }

// Unwrap is for package websocket.
func (h *handshakeRecorder) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// execSession is a command's connection with who asked for it.
type execSession struct {
	conn            *websocket.Conn
	in              *execInput // nil: it takes none
	sizes           chan WindowSize
	lastHeard       atomic.Int64 // when the client last said something, in nanoseconds
	sendsHeartbeats atomic.Bool  // it says that it is there even where there is nothing to say
}

// runExecSession upgrades the connection, runs the command with it, and returns when
// all that has to do with both has ended.
func (s *apiServer) runExecSession(w http.ResponseWriter, r *http.Request, run func(context.Context, Terminal) (int, error), stdin bool) error {
	shake := &handshakeRecorder{ResponseWriter: w}
	conn, err := websocket.Accept(shake, r, nil)
	if shake.status != 0 {
		return NewProblemf(shake.status, "%s", strings.TrimSpace(shake.message.String()))
	}
	if err != nil {
		return err
	}
	conn.SetReadLimit(ExecReadLimit)
	x := &execSession{conn: conn, sizes: make(chan WindowSize, 1)}
	ctx, leave := context.WithCancelCause(r.Context())
	defer leave(nil)
	lasting := context.WithoutCancel(ctx) // the connection outlives ctx by the last message
	printing, stop := context.WithCancel(lasting)
	defer stop()
	t := Terminal{Stdout: NewExecStream(printing, conn, StdoutChannel), Stderr: NewExecStream(printing, conn, StderrChannel), Resize: x.sizes}
	if stdin {
		x.in = newInput(func(n int) { _ = WriteExecMessage(printing, conn, InputAckChannel, ExecInputAck{n}) }) // the reader finds out too
		t.Stdin = x.in
	}
	closed := make(chan struct{})
	var side sync.WaitGroup
	defer side.Wait()
	defer close(closed)
	defer func() { _ = conn.CloseNow() }() // most often it is closed
	side.Go(func() { leave(x.readMessages(lasting)) })
	side.Go(func() { x.sendHeartbeats(lasting, closed) })
	side.Go(func() { x.watchSilence(closed, leave) })
	defer context.AfterFunc(ctx, func() {
		x.endInput()
		time.AfterFunc(closeTimeout, stop) // what is not read by then breaks the connection
	})()
	code, err := run(ctx, t)
	x.endInput()
	s.sendExit(ctx, r, x, code, err)
	return nil
}

func (x *execSession) endInput() {
	if x.in != nil {
		x.in.closeInput()
	}
}

// readMessages takes what the client says until it goes, and says why it did.
func (x *execSession) readMessages(ctx context.Context) error {
	for {
		kind, data, err := x.conn.Read(ctx)
		if err != nil {
			return fmt.Errorf("the client is gone: %w", err)
		}
		x.lastHeard.Store(time.Now().UnixNano())
		if err := x.handleMessage(kind, data); err != nil {
			return NewProblemf(http.StatusBadRequest, "%v", err)
		}
	}
}

func (x *execSession) handleMessage(kind websocket.MessageType, data []byte) error {
	switch {
	case kind != websocket.MessageBinary:
		return errors.New("a message is text: all are binary, with the channel as the first byte")
	case len(data) == 0:
		x.sendsHeartbeats.Store(true)
		return nil
	}
	switch channel, data := ExecChannel(data[0]), data[1:]; channel {
	case StdinChannel:
		if x.in == nil {
			return errors.New("there is input for a command that was to have none: ask with stdin=true")
		}
		return x.in.appendData(data)
	case ResizeChannel:
		return x.resizeTerminal(data)
	default:
		return fmt.Errorf("there is nothing to be said on channel %d", channel)
	}
}

// resizeTerminal passes the window's size on, the last one where there are several.
func (x *execSession) resizeTerminal(data []byte) error {
	var size WindowSize
	if err := json.Unmarshal(data, &size); err != nil {
		return fmt.Errorf("a window's size: %w", err)
	}
	if err := size.validate(); err != nil {
		return err
	}
	select {
	case <-x.sizes:
	default:
	}
	x.sizes <- size // this goroutine alone sends
	return nil
}

// sendHeartbeats keeps an idle connection from being cut off on the way. It waits for a
// client that does not read, who may be a person before a page of the output:
// WebSocket's own ping would give it 5 s.
func (x *execSession) sendHeartbeats(ctx context.Context, closed <-chan struct{}) {
	for waitInterval(keepAliveInterval, closed) {
		if x.conn.Write(ctx, websocket.MessageBinary, nil) != nil {
			return
		}
	}
}

// watchSilence ends a session whose client has gone without a word.
func (x *execSession) watchSilence(closed <-chan struct{}, leave context.CancelCauseFunc) {
	for waitInterval(keepAliveInterval, closed) {
		if x.sendsHeartbeats.Load() && time.Since(time.Unix(0, x.lastHeard.Load())) > clientTimeout {
			leave(fmt.Errorf("the client has said nothing for %s", clientTimeout))
			return
		}
	}
}

// waitInterval waits, and reports whether nothing has ended meanwhile.
func waitInterval(d time.Duration, ended <-chan struct{}) bool {
	select {
	case <-time.After(d):
		return true
	case <-ended:
		return false
	}
}

// sendExit sends the client how the command ended, and waits until the client has
// read all output.
func (s *apiServer) sendExit(ctx context.Context, r *http.Request, x *execSession, code int, err error) {
	var end any = struct {
		Exit int `json:"exit"`
	}{code}
	limit := drainTimeout
	if cause := context.Cause(ctx); cause != nil {
		ctx, limit = context.WithoutCancel(ctx), closeTimeout
		err = closeReason(cause, r.Context().Err() != nil)
	}
	if err != nil {
		end = s.problemFrom(r, err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if WriteExecMessage(ctx, x.conn, ExitChannel, end) == nil && limit == drainTimeout {
		_ = x.conn.Ping(ctx) // answered once all before it is read
	}
	_ = x.conn.Close(websocket.StatusNormalClosure, "") // the client that went away learns nothing more
}

// closeReason is why a session ended before its command, for the client, should it
// still be there.
func closeReason(cause error, stopping bool) error {
	if p := (*Problem)(nil); errors.As(cause, &p) {
		return p
	}
	if stopping {
		return NewProblemf(http.StatusServiceUnavailable, "the scheduler is stopping, and has ended the command")
	}
	return NewProblemf(http.StatusRequestTimeout, "%v", cause)
}
