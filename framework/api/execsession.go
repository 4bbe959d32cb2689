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
	// silence is how long a client that says now and then that it is there may
	// say nothing.
	silence = 4 * keepAlive
	// partingWait is how long a client may take to read the last of what a
	// command has printed, once that has ended.
	partingWait = 10 * time.Minute
	// farewellWait is how long it may take once the session is to end.
	farewellWait = time.Second
)

// ownPage refuses pages of other sites, which Guard does not where a request
// only asks: what comes over a WebSocket any page may read and write.
func ownPage(r *http.Request) error {
	asking := r.WithContext(r.Context())
	asking.Method = http.MethodPost
	if http.NewCrossOriginProtection().Check(asking) != nil {
		return Problemf(http.StatusForbidden, "the request comes from another site's page")
	}
	return nil
}

// handshake keeps a refusal of package websocket's for who can put it into a
// Problem.
type handshake struct {
	http.ResponseWriter
	status int
	why    strings.Builder
}

func (h *handshake) WriteHeader(code int) {
	if code == http.StatusSwitchingProtocols {
		h.ResponseWriter.WriteHeader(code)
		return
	}
	h.status = code
}

func (h *handshake) Write(p []byte) (int, error) { return h.why.Write(p) }

// Unwrap is for package websocket.
func (h *handshake) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// session is a command's connection with who asked for it.
type session struct {
	conn  *websocket.Conn
	in    *input // nil: it takes none
	sizes chan Size
	heard atomic.Int64 // when the client last said something, in nanoseconds
	beats atomic.Bool  // it says that it is there even where there is nothing to say
}

// converse upgrades the connection, runs the command with it, and returns when
// all that has to do with both has ended.
func (s *server) converse(w http.ResponseWriter, r *http.Request, run func(context.Context, Terminal) (int, error), stdin bool) error {
	shake := &handshake{ResponseWriter: w}
	conn, err := websocket.Accept(shake, r, nil)
	if shake.status != 0 {
		return Problemf(shake.status, "%s", strings.TrimSpace(shake.why.String()))
	}
	if err != nil {
		return err
	}
	conn.SetReadLimit(ExecLimit)
	x := &session{conn: conn, sizes: make(chan Size, 1)}
	ctx, leave := context.WithCancelCause(r.Context())
	defer leave(nil)
	lasting := context.WithoutCancel(ctx) // the connection outlives ctx by the last message
	printing, stop := context.WithCancel(lasting)
	defer stop()
	t := Terminal{Stdout: NewExecStream(printing, conn, StdoutChannel), Stderr: NewExecStream(printing, conn, StderrChannel), Resize: x.sizes}
	if stdin {
		x.in = newInput(func(n int) { _ = SendExec(printing, conn, TakenChannel, ExecTaken{n}) }) // the reader finds out too
		t.Stdin = x.in
	}
	closed := make(chan struct{})
	var side sync.WaitGroup
	defer side.Wait()
	defer close(closed)
	defer func() { _ = conn.CloseNow() }() // most often it is closed
	side.Go(func() { leave(x.read(lasting)) })
	side.Go(func() { x.beat(lasting, closed) })
	side.Go(func() { x.watch(closed, leave) })
	defer context.AfterFunc(ctx, func() {
		x.endInput()
		time.AfterFunc(farewellWait, stop) // what is not read by then breaks the connection
	})()
	code, err := run(ctx, t)
	x.endInput()
	s.part(ctx, r, x, code, err)
	return nil
}

func (x *session) endInput() {
	if x.in != nil {
		x.in.end()
	}
}

// read takes what the client says until it goes, and says why it did.
func (x *session) read(ctx context.Context) error {
	for {
		kind, data, err := x.conn.Read(ctx)
		if err != nil {
			return fmt.Errorf("the client is gone: %w", err)
		}
		x.heard.Store(time.Now().UnixNano())
		if err := x.take(kind, data); err != nil {
			return Problemf(http.StatusBadRequest, "%v", err)
		}
	}
}

func (x *session) take(kind websocket.MessageType, data []byte) error {
	switch {
	case kind != websocket.MessageBinary:
		return errors.New("a message is text: all are binary, with the channel as the first byte")
	case len(data) == 0:
		x.beats.Store(true)
		return nil
	}
	switch channel, data := Channel(data[0]), data[1:]; channel {
	case StdinChannel:
		if x.in == nil {
			return errors.New("there is input for a command that was to have none: ask with stdin=true")
		}
		return x.in.add(data)
	case ResizeChannel:
		return x.resize(data)
	default:
		return fmt.Errorf("there is nothing to be said on channel %d", channel)
	}
}

// resize passes the window's size on, the last one where there are several.
func (x *session) resize(data []byte) error {
	var size Size
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
	x.sizes <- size // nobody else sends
	return nil
}

// beat keeps an idle connection from being cut off on the way. It waits for a
// client that does not read, who may be a person before a page of the output:
// WebSocket's own ping would give it 5 s.
func (x *session) beat(ctx context.Context, closed <-chan struct{}) {
	for every(keepAlive, closed) {
		if x.conn.Write(ctx, websocket.MessageBinary, nil) != nil {
			return
		}
	}
}

// watch ends a session whose client has gone without a word.
func (x *session) watch(closed <-chan struct{}, leave context.CancelCauseFunc) {
	for every(keepAlive, closed) {
		if x.beats.Load() && time.Since(time.Unix(0, x.heard.Load())) > silence {
			leave(fmt.Errorf("the client has said nothing for %s", silence))
			return
		}
	}
}

// every waits, and reports whether nothing has ended meanwhile.
func every(d time.Duration, ended <-chan struct{}) bool {
	select {
	case <-time.After(d):
		return true
	case <-ended:
		return false
	}
}

// part tells the client how the command ended, and waits until it has read all.
func (s *server) part(ctx context.Context, r *http.Request, x *session, code int, err error) {
	var end any = struct {
		Exit int `json:"exit"`
	}{code}
	limit := partingWait
	if cause := context.Cause(ctx); cause != nil {
		ctx, limit = context.WithoutCancel(ctx), farewellWait
		err = said(cause, r.Context().Err() != nil)
	}
	if err != nil {
		end = s.problem(r, err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if SendExec(ctx, x.conn, EndChannel, end) == nil && limit == partingWait {
		_ = x.conn.Ping(ctx) // answered once all before it is read
	}
	_ = x.conn.Close(websocket.StatusNormalClosure, "") // the client that went away learns nothing more
}

// said is why a session ended before its command, for the client, should it
// still be there.
func said(cause error, stopping bool) error {
	if p := (*Problem)(nil); errors.As(cause, &p) {
		return p
	}
	if stopping {
		return Problemf(http.StatusServiceUnavailable, "the scheduler is stopping, and has ended the command")
	}
	return Problemf(http.StatusRequestTimeout, "%v", cause)
}
