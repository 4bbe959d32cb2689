package apiserver

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

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/internal/execwire"
)

const (
	// clientTimeout is the time without messages after which a client that sends
	// heartbeats counts as disconnected.
	clientTimeout = 4 * keepAliveInterval
	// drainTimeout limits how long the client may take to read the remaining output
	// after the command has ended.
	drainTimeout = 10 * time.Minute
	// closeTimeout limits that time if the session is ended before the command.
	closeTimeout = time.Second
)

// checkSameOrigin rejects requests from pages of other sites. RejectCrossOrigin does not
// check GET requests, but any page can read from and write to a WebSocket.
func checkSameOrigin(r *http.Request) error {
	asPost := r.WithContext(r.Context())
	asPost.Method = http.MethodPost
	if http.NewCrossOriginProtection().Check(asPost) != nil {
		return api.NewProblemf(http.StatusForbidden, "the request comes from another site's page")
	}
	return nil
}

// handshakeRecorder records an error response of package websocket, so that the caller
// can return it as a Problem.
type handshakeRecorder struct {
	http.ResponseWriter
	// status and message are the response that the package would have sent; status is 0 without one.
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

// Unwrap lets package websocket reach the underlying writer.
func (h *handshakeRecorder) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// execSession is the connection between a command and its client.
type execSession struct {
	// conn is the client's websocket. One goroutine reads it, and Streams write to it.
	conn *websocket.Conn
	// in is the command's input, nil if it has none.
	in *execInput
	// sizes has the latest size of the client's terminal that the command has not received yet.
	sizes chan api.WindowSize
	// lastMessage is the time of the last message from the client, in Unix nanoseconds.
	lastMessage atomic.Int64
	// sendsHeartbeats is set once the client has sent a heartbeat. The silence of a client that
	// sends none means nothing.
	sendsHeartbeats atomic.Bool
}

// runExecSession upgrades the connection, runs the command, and returns after the
// command and all goroutines of the session have ended. It returns an error only before the
// upgrade; later ones are sent to the client as a message.
//
// A session ends in one of three ways. If the command ends, its exit is sent after all output. If
// the client disconnects, falls silent or sends an invalid message, or the scheduler stops, ctx ends
// with the reason, and the command is canceled. Either way the connection is closed last.
func (s *apiServer) runExecSession(w http.ResponseWriter, r *http.Request, run func(context.Context, api.Terminal) (int, error), stdin bool) error {
	handshake := &handshakeRecorder{ResponseWriter: w}
	conn, err := websocket.Accept(handshake, r, nil)
	if handshake.status != 0 {
		return api.NewProblemf(handshake.status, "%s", strings.TrimSpace(handshake.message.String()))
	}
	if err != nil {
		return err
	}
	conn.SetReadLimit(execwire.ReadLimit)
	x := &execSession{conn: conn, sizes: make(chan api.WindowSize, 1)}
	ctx, leave := context.WithCancelCause(r.Context())
	defer leave(nil)
	connected := context.WithoutCancel(ctx) // the exit message is sent after ctx ends
	writing, stop := context.WithCancel(connected)
	defer stop()
	t := api.Terminal{
		Stdout: execwire.NewStream(writing, conn, execwire.StdoutChannel),
		Stderr: execwire.NewStream(writing, conn, execwire.StderrChannel),
		Resize: x.sizes,
	}
	if stdin {
		x.in = newInput(func(n int) {
			_ = execwire.WriteMessage(writing, conn, execwire.InputAckChannel, execwire.InputAck{Bytes: n})
		}) // readMessages reports a broken connection
		t.Stdin = x.in
	}
	closed := make(chan struct{})
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer close(closed)
	defer func() { _ = conn.CloseNow() }() // normally it is closed already
	helpers.Go(func() { leave(x.readMessages(connected)) })
	helpers.Go(func() { x.sendHeartbeats(connected, closed) })
	helpers.Go(func() { x.watchSilence(closed, leave) })
	defer context.AfterFunc(ctx, func() {
		x.endInput()
		time.AfterFunc(closeTimeout, stop) // breaks the connection if output is still unread
	})()
	code, err := run(ctx, t)
	x.endInput()
	s.sendExit(ctx, r, x, code, err)
	return nil
}

// endInput lets the command's read of its input return, if it has any.
func (x *execSession) endInput() {
	if x.in != nil {
		x.in.closeInput()
	}
}

// readMessages handles messages from the client until the connection ends or a message
// is invalid, and returns the reason.
func (x *execSession) readMessages(ctx context.Context) error {
	for {
		kind, data, err := x.conn.Read(ctx)
		if err != nil {
			return fmt.Errorf("the client has disconnected: %w", err)
		}
		x.lastMessage.Store(time.Now().UnixNano())
		if err := x.handleMessage(kind, data); err != nil {
			return api.NewProblemf(http.StatusBadRequest, "%v", err)
		}
	}
}

// handleMessage handles one message from the client. An empty one is a heartbeat.
func (x *execSession) handleMessage(kind websocket.MessageType, data []byte) error {
	switch {
	case kind != websocket.MessageBinary:
		return errors.New("a message is text: all are binary, with the channel as the first byte")
	case len(data) == 0:
		x.sendsHeartbeats.Store(true)
		return nil
	}
	switch channel, data := execwire.Channel(data[0]), data[1:]; channel {
	case execwire.StdinChannel:
		if x.in == nil {
			return errors.New("there is input for a command that was started without: request it with stdin=true")
		}
		return x.in.appendData(data)
	case execwire.ResizeChannel:
		return x.resizeTerminal(data)
	default:
		return fmt.Errorf("channel %d takes no input", channel)
	}
}

// resizeTerminal passes the window size on. A newer size replaces an unread one.
func (x *execSession) resizeTerminal(data []byte) error {
	var size api.WindowSize
	if err := json.Unmarshal(data, &size); err != nil {
		return fmt.Errorf("parse window size: %w", err)
	}
	if err := size.Validate(); err != nil {
		return err
	}
	select {
	case <-x.sizes:
	default:
	}
	x.sizes <- size // does not block: only this goroutine sends
	return nil
}

// sendHeartbeats keeps an idle connection open. The write blocks while the client does
// not read, for example while a user pages through the output. WebSocket's own ping
// would fail after 5 s then.
func (x *execSession) sendHeartbeats(ctx context.Context, closed <-chan struct{}) {
	for waitInterval(keepAliveInterval, closed) {
		if x.conn.Write(ctx, websocket.MessageBinary, nil) != nil {
			return
		}
	}
}

// watchSilence ends the session if the client stops sending heartbeats.
func (x *execSession) watchSilence(closed <-chan struct{}, leave context.CancelCauseFunc) {
	for waitInterval(keepAliveInterval, closed) {
		if x.sendsHeartbeats.Load() && time.Since(time.Unix(0, x.lastMessage.Load())) > clientTimeout {
			leave(fmt.Errorf("the client has sent nothing for %s", clientTimeout))
			return
		}
	}
}

// waitInterval waits for d and returns true, or returns false as soon as ended is closed.
func waitInterval(d time.Duration, ended <-chan struct{}) bool {
	select {
	case <-time.After(d):
		return true
	case <-ended:
		return false
	}
}

// sendExit sends the exit code or the error, and waits until the client has read all
// output.
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
		end = apihttp.ProblemFrom(r, err, s.log)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if execwire.WriteMessage(ctx, x.conn, execwire.ExitChannel, end) == nil && limit == drainTimeout {
		_ = x.conn.Ping(ctx) // answered after the client has read everything before it
	}
	_ = x.conn.Close(websocket.StatusNormalClosure, "") // an error means that the client has disconnected
}

// closeReason returns the Problem to send to the client if the session ends before the
// command.
func closeReason(cause error, stopping bool) error {
	if p := (*api.Problem)(nil); errors.As(cause, &p) {
		return p
	}
	if stopping {
		return api.NewProblemf(http.StatusServiceUnavailable, "the scheduler is stopping, and has ended the command")
	}
	return api.NewProblemf(http.StatusRequestTimeout, "%v", cause)
}
