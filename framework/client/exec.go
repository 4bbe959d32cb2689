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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/execwire"
)

const (
	// heartbeatInterval is the interval of empty messages that both sides send while
	// a session is idle.
	heartbeatInterval = 15 * time.Second
	// serverTimeout is the time without messages after which the connection counts as
	// lost.
	serverTimeout = 4 * heartbeatInterval
)

// Exec runs a command in the container of a job's running task, with t as its terminal,
// until the command or ctx ends; the end of ctx ends the command. It returns the exit
// code, which is 128 plus the signal number after a signal. A blocked Read of Stdin may
// outlive Exec. A *Problem is an error of the scheduler, such as an unknown task.
func (c *Client) Exec(ctx context.Context, name string, task int, r api.ExecRequest, t api.Terminal) (int, error) {
	r.Stdin = t.Stdin != nil
	if err := r.Validate(); err != nil {
		return 0, err
	}
	return c.runSession(ctx, taskPath(name, task)+"/exec?"+r.EncodeQuery().Encode(), t)
}

// Attach connects t to a job's running task that takes a client: one with TTY runs its
// command on t, one with Stdin reads t.Stdin. size is the terminal's size; zero means
// unknown. It returns the exit code of the command with TTY, and otherwise 0 after all of
// the input has been read. The task ends if the connection is lost before. Like Exec, it
// does not wait for a blocked Read of Stdin.
func (c *Client) Attach(ctx context.Context, name string, task int, size api.WindowSize, t api.Terminal) (int, error) {
	if err := size.Validate(); err != nil {
		return 0, err
	}
	if t.Stdin == nil {
		t.Stdin = strings.NewReader("")
	}
	q := url.Values{"rows": {strconv.Itoa(size.Rows)}, "cols": {strconv.Itoa(size.Cols)}}
	code, err := c.runSession(ctx, taskPath(name, task)+"/attach?"+q.Encode(), t)
	if p := (*api.Problem)(nil); errors.As(err, &p) && p.Code == api.CodeExitUnknown {
		// The task ends with its command, so that both have one exit code.
		return c.awaitExitCode(ctx, name, err)
	}
	return code, err
}

// endReportTimeout limits how long the end of a job may take to reach the scheduler after its container was removed.
const endReportTimeout = 10 * time.Second

// awaitExitCode returns the exit code of a job of one task that ends. It returns unknown if the job has not ended within
// endReportTimeout, or has no exit code.
func (c *Client) awaitExitCode(ctx context.Context, name string, unknown error) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, endReportTimeout)
	defer cancel()
	view, err := c.WaitForJob(ctx, name)
	if err != nil || view.ExitCode == nil {
		return 0, unknown
	}
	return *view.ExitCode, nil
}

// taskPath returns the path of a task of a job, by its index.
func taskPath(name string, task int) string {
	return "/v1/jobs/" + url.PathEscape(name) + "/tasks/" + strconv.Itoa(task)
}

// runSession runs the session of a command, which the path of its request describes.
func (c *Client) runSession(ctx context.Context, path string, t api.Terminal) (int, error) {
	x := &execSession{terminal: t, window: newInputWindow(execwire.InputWindow)}
	x.noteMessage()
	if err := x.openConnection(ctx, c, path); err != nil {
		return 0, err
	}
	ctx, leave := context.WithCancelCause(ctx)
	var helpers sync.WaitGroup
	defer helpers.Wait()
	defer leave(nil)
	defer func() { _ = x.conn.CloseNow() }()
	if t.Stdin != nil {
		go func() { // Exec does not wait for it, because a Read from a terminal may block forever
			if err := x.sendInput(ctx); err != nil {
				leave(err)
			}
		}()
	}
	helpers.Go(func() { x.sendResizes(ctx) })
	helpers.Go(func() {
		if err := x.sendHeartbeats(ctx); err != nil {
			leave(err)
		}
	})
	code, err := x.readOutput(ctx)
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = cause
	}
	if err == nil {
		_ = x.conn.Close(websocket.StatusNormalClosure, "")
	}
	return code, err
}

// execSession is the client's side of a remote command.
type execSession struct {
	// conn is the websocket to the scheduler.
	conn *websocket.Conn
	// terminal is where the command's output goes, and its size and input come from.
	terminal api.Terminal
	// window limits the input that the scheduler has not passed on yet.
	window *inputWindow
	// lastMessage is the time of the last message from the scheduler, in Unix nanoseconds.
	lastMessage atomic.Int64
	// writing is set while output is written. No messages are read meanwhile, so that silence means nothing.
	writing atomic.Bool
}

// noteMessage records that the scheduler is alive now.
func (x *execSession) noteMessage() { x.lastMessage.Store(time.Now().UnixNano()) }

// openConnection opens the WebSocket to the leader, with retries and redirects as for
// other requests.
func (x *execSession) openConnection(ctx context.Context, c *Client, path string) (err error) {
	client := &http.Client{Transport: roundTripFunc(func(r *http.Request) (*http.Response, error) {
		return c.sendWith(r.Context(), c.timeouts.Leader, r.Method, r.URL.RequestURI(), nil, r.Header)
	})}
	x.conn, _, err = websocket.Dial(ctx, "http://scheduler"+path, &websocket.DialOptions{HTTPClient: client})
	if outer := (*url.Error)(nil); errors.As(err, &outer) {
		return outer.Err
	}
	if err != nil {
		return fmt.Errorf("open a session with the scheduler: %w", err)
	}
	x.conn.SetReadLimit(execwire.ReadLimit)
	return nil
}

// roundTripFunc adapts a function to http.RoundTripper.
type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// readOutput handles the scheduler's messages until the command ends, and returns its exit code. It writes output to the
// terminal and passes acknowledgements of input on.
func (x *execSession) readOutput(ctx context.Context) (int, error) {
	for {
		_, data, err := x.conn.Read(ctx)
		if err != nil {
			return 0, fmt.Errorf("the connection with the scheduler is lost, and the command with it: %w", err)
		}
		x.noteMessage()
		if len(data) == 0 {
			continue
		}
		switch channel, data := execwire.Channel(data[0]), data[1:]; channel {
		case execwire.StdoutChannel:
			err = x.writeOutput(x.terminal.Stdout, data)
		case execwire.StderrChannel:
			err = x.writeOutput(x.terminal.Stderr, data)
		case execwire.InputAckChannel:
			var taken execwire.InputAck
			err = json.Unmarshal(data, &taken)
			x.window.releaseBytes(taken.Bytes)
		case execwire.ExitChannel:
			return parseExit(data)
		}
		if err != nil {
			return 0, err
		}
	}
}

// writeOutput writes to the terminal, which may take long, for example while a user pages through the output.
func (x *execSession) writeOutput(to io.Writer, data []byte) error {
	x.writing.Store(true)
	defer x.writing.Store(false)
	defer x.noteMessage()
	_, err := to.Write(data)
	return err
}

// parseExit decodes the message on ExitChannel.
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

// sendInput sends standard input as fast as the command reads it.
func (x *execSession) sendInput(ctx context.Context) error {
	to := execwire.NewStream(ctx, x.conn, execwire.StdinChannel)
	buf := make([]byte, execwire.MaxChunk)
	for {
		n, err := x.terminal.Stdin.Read(buf)
		for rest := buf[:n]; len(rest) > 0; {
			k, err := x.window.acquireBytes(ctx, len(rest))
			if err != nil {
				return nil // the session has ended
			}
			if _, err := to.Write(rest[:k]); err != nil {
				return nil // the session has ended or will end; readOutput returns the reason
			}
			rest = rest[k:]
		}
		if errors.Is(err, io.EOF) {
			_, _ = to.Write(nil) // marks the end of input; readOutput reports a broken connection
			return nil
		}
		if err != nil {
			return fmt.Errorf("read standard input: %w", err)
		}
	}
}

// sendResizes sends the sizes of the terminal until there are no more, or the session ends.
func (x *execSession) sendResizes(ctx context.Context) {
	for {
		select {
		case size, ok := <-x.terminal.Resize:
			if !ok || execwire.WriteMessage(ctx, x.conn, execwire.ResizeChannel, size) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// sendHeartbeats sends an empty message at each interval. It returns an error if the
// scheduler has sent nothing for serverTimeout: a user whose terminal is in raw mode could
// not end the session otherwise.
func (x *execSession) sendHeartbeats(ctx context.Context) error {
	tick := time.NewTicker(heartbeatInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if !x.writing.Load() && time.Since(time.Unix(0, x.lastMessage.Load())) > serverTimeout {
			return fmt.Errorf("the scheduler has sent nothing for %s: the connection is lost, and the command with it", serverTimeout)
		}
		if x.conn.Write(ctx, websocket.MessageBinary, nil) != nil {
			return nil // readOutput returns the reason
		}
	}
}

// inputWindow limits the input that is sent and not yet acknowledged.
type inputWindow struct {
	// mu protects free.
	mu sync.Mutex
	// free is how many bytes may still be sent. Sending reduces it, an acknowledgement increases it.
	free int
	// released has an element after bytes were released.
	released chan struct{}
}

func newInputWindow(size int) *inputWindow {
	return &inputWindow{free: size, released: make(chan struct{}, 1)}
}

// acquireBytes blocks until some bytes may be sent, and returns how many, at most wanted.
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

// releaseBytes permits n more bytes to be sent.
func (w *inputWindow) releaseBytes(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free += n
	select {
	case w.released <- struct{}{}:
	default: // a signal is pending already
	}
}
