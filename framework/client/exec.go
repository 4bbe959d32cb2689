package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"mesos-gpu/framework/api"
)

const (
	// heartbeatInterval is the interval of empty messages that both sides send while
	// a session is idle.
	heartbeatInterval = 15 * time.Second
	// serverTimeout is how long it may say nothing before it is taken for gone.
	serverTimeout = 4 * heartbeatInterval
)

// Exec runs a command in the container of a job's running task, on this
// terminal, until it ends or ctx does; then it is ended. It returns the
// command's exit code: 128 and the signal's number where one ended it. A Read of
// Stdin that waits then is left waiting. An error that is an *api.Problem is the
// scheduler's: there is no such task, or it was lost.
func (c *Client) Exec(ctx context.Context, name string, task int, r api.ExecRequest, t api.Terminal) (int, error) {
	r.Stdin = t.Stdin != nil
	if err := r.Validate(); err != nil {
		return 0, err
	}
	x := &execSession{terminal: t, window: newInputWindow(api.ExecWindow)}
	x.noteHeard()
	path := "/v1/jobs/" + url.PathEscape(name) + "/tasks/" + strconv.Itoa(task) + "/exec?" + r.EncodeQuery().Encode()
	if err := x.openConnection(ctx, c, path); err != nil {
		return 0, err
	}
	ctx, leave := context.WithCancelCause(ctx)
	var side sync.WaitGroup
	defer side.Wait()
	defer leave(nil)
	defer func() { _ = x.conn.CloseNow() }()
	if t.Stdin != nil {
		go func() { // not waited for: a terminal's reader may stay where it is
			if err := x.sendInput(ctx); err != nil {
				leave(err)
			}
		}()
	}
	side.Go(func() { x.sendResizes(ctx) })
	side.Go(func() {
		if err := x.sendHeartbeats(ctx); err != nil {
			leave(err)
		}
	})
	code, err := x.showOutput(ctx)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = cause
	}
	if err == nil {
		_ = x.conn.Close(websocket.StatusNormalClosure, "")
	}
	return code, err
}

// execSession is a command that runs elsewhere.
type execSession struct {
	conn      *websocket.Conn
	terminal  api.Terminal
	window    *inputWindow
	lastHeard atomic.Int64 // when the scheduler last said something, in nanoseconds
	printing  atomic.Bool  // output is being written, and no message is read meanwhile
}

func (x *execSession) noteHeard() { x.lastHeard.Store(time.Now().UnixNano()) }

// openConnection asks the scheduler that leads, as other requests do.
func (x *execSession) openConnection(ctx context.Context, c *Client, path string) (err error) {
	asker := &http.Client{Transport: roundTripFunc(func(r *http.Request) (*http.Response, error) {
		return c.sendWith(r.Context(), leaderTimeout, r.Method, r.URL.RequestURI(), nil, r.Header)
	})}
	x.conn, _, err = websocket.Dial(ctx, "http://scheduler"+path, &websocket.DialOptions{HTTPClient: asker})
	if outer := (*url.Error)(nil); errors.As(err, &outer) {
		return outer.Err
	}
	if err != nil {
		return fmt.Errorf("open a session with the scheduler: %w", err)
	}
	x.conn.SetReadLimit(api.ExecReadLimit)
	return nil
}

// roundTripFunc is an http.RoundTripper.
type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// showOutput prints what comes until the command ends.
func (x *execSession) showOutput(ctx context.Context) (int, error) {
	for {
		_, data, err := x.conn.Read(ctx)
		if err != nil {
			return 0, fmt.Errorf("the connection with the scheduler is lost, and the command with it: %w", err)
		}
		x.noteHeard()
		if len(data) == 0 {
			continue
		}
		switch channel, data := api.ExecChannel(data[0]), data[1:]; channel {
		case api.StdoutChannel:
			err = x.writeOutput(x.terminal.Stdout, data)
		case api.StderrChannel:
			err = x.writeOutput(x.terminal.Stderr, data)
		case api.InputAckChannel:
			var taken api.ExecInputAck
			err = json.Unmarshal(data, &taken)
			x.window.releaseBytes(taken.Bytes)
		case api.ExitChannel:
			return parseExit(data)
		}
		if err != nil {
			return 0, err
		}
	}
}

func (x *execSession) writeOutput(to io.Writer, data []byte) error {
	x.printing.Store(true)
	defer x.printing.Store(false)
	defer x.noteHeard()
	_, err := to.Write(data)
	return err
}

// parseExit reads the last message.
func parseExit(data []byte) (int, error) {
	var end struct {
		Exit *int `json:"exit"`
		api.Problem
	}
	if err := json.Unmarshal(data, &end); err != nil {
		return 0, fmt.Errorf("parse the command's end: %w", err)
	}
	if end.Exit == nil {
		return 0, &end.Problem
	}
	return *end.Exit, nil
}

// sendInput sends standard input at the pace at which the command reads it.
func (x *execSession) sendInput(ctx context.Context) error {
	to := api.NewExecStream(ctx, x.conn, api.StdinChannel)
	buf := make([]byte, api.ExecChunk)
	for {
		n, err := x.terminal.Stdin.Read(buf)
		for rest := buf[:n]; len(rest) > 0; {
			k, err := x.window.acquireBytes(ctx, len(rest))
			if err != nil {
				return nil // the session has ended
			}
			if _, err := to.Write(rest[:k]); err != nil {
				return nil // so has it, or will: who shows the output finds out why
			}
			rest = rest[k:]
		}
		if errors.Is(err, io.EOF) {
			_, _ = to.Write(nil) // the end of input; likewise
			return nil
		}
		if err != nil {
			return fmt.Errorf("read standard input: %w", err)
		}
	}
}

func (x *execSession) sendResizes(ctx context.Context) {
	for {
		select {
		case size, ok := <-x.terminal.Resize:
			if !ok || api.WriteExecMessage(ctx, x.conn, api.ResizeChannel, size) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// sendHeartbeats sends an empty message at each interval, and checks whether the
// scheduler is: a terminal in raw mode has no other way out. Its error is that
// it is not.
func (x *execSession) sendHeartbeats(ctx context.Context) error {
	tick := time.NewTicker(heartbeatInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if !x.printing.Load() && time.Since(time.Unix(0, x.lastHeard.Load())) > serverTimeout {
			return fmt.Errorf("the scheduler has said nothing for %s: the connection is lost, and the command with it", serverTimeout)
		}
		if x.conn.Write(ctx, websocket.MessageBinary, nil) != nil {
			return nil // who shows the output finds out why
		}
	}
}

// inputWindow is how much input may be on its way.
type inputWindow struct {
	mu       sync.Mutex
	free     int
	released chan struct{} // has one when there may be more
}

func newInputWindow(size int) *inputWindow {
	return &inputWindow{free: size, released: make(chan struct{}, 1)}
}

// acquireBytes waits until some of what is wanted may be sent.
func (w *inputWindow) acquireBytes(ctx context.Context, wanted int) (int, error) {
	for {
		w.mu.Lock()
		n := min(wanted, w.free)
		w.free -= n
		w.mu.Unlock()
		if n > 0 {
			return n, nil
		}
		select {
		case <-w.released:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

func (w *inputWindow) releaseBytes(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free += n
	select {
	case w.released <- struct{}{}:
	default: // who waits has not looked since
	}
}
