package master

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
)

// execAgent is an agent with one executor and one nested container. The test's session function answers commands.
type execAgent struct {
	*httptest.Server
	t *testing.T
	// session writes the output of a launched command. input has the messages of its input and is closed after the
	// last one.
	session func(w io.Writer, input <-chan *agent.ProcessIO)
	// refuse maps types of calls to the status that they are answered with.
	refuse map[agent.Call_Type]int
	status *int32
	input  chan *agent.ProcessIO

	mu       sync.Mutex
	launched *agent.Call_LaunchNestedContainerSession
	calls    []string
	left     chan struct{} // closed when the connection of the first session is closed
	leave    func()        // closes left
}

func newExecAgent(t *testing.T, session func(w io.Writer, input <-chan *agent.ProcessIO)) *execAgent {
	a := &execAgent{t: t, session: session, status: new(int32), refuse: map[agent.Call_Type]int{}, left: make(chan struct{})}
	a.leave = sync.OnceFunc(func() { close(a.left) })
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Server.Close)
	return a
}

func (a *execAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Content-Type") == recordIOType {
		a.readInput(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	var call agent.Call
	if err != nil || call.Unmarshal(body) != nil {
		http.Error(w, "no call", http.StatusBadRequest)
		return
	}
	if code := a.recordCall(call.Type, &call); code != 0 {
		http.Error(w, "refused", code)
		return
	}
	switch call.Type {
	case agent.Call_GET_CONTAINERS:
		a.answer(w, &agent.Response{Type: agent.Response_GET_CONTAINERS, GetContainers: &agent.Response_GetContainers{Containers: containersFor("other")}})
	case agent.Call_WAIT_NESTED_CONTAINER:
		a.answer(w, &agent.Response{Type: agent.Response_WAIT_NESTED_CONTAINER, WaitNestedContainer: &agent.Response_WaitNestedContainer{ExitStatus: a.status}})
	case agent.Call_LAUNCH_NESTED_CONTAINER_SESSION:
		defer a.leave()
		flush := http.NewResponseController(w)
		input := a.sessionInput(r.Context())
		_ = flush.Flush()
		a.session(flushed{w, flush}, input)
		if r.Context().Err() == nil {
			return
		}
	}
}

// recordCall records a call and returns the status to refuse it with, or 0.
func (a *execAgent) recordCall(kind agent.Call_Type, call *agent.Call) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, kind.String())
	if call.LaunchNestedContainerSession != nil {
		a.launched = call.LaunchNestedContainerSession
	}
	return a.refuse[kind]
}

func (a *execAgent) wasCalled(kind agent.Call_Type) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Contains(strings.Join(a.calls, " ")+" ", kind.String()+" ")
}

func (a *execAgent) answer(w http.ResponseWriter, m *agent.Response) {
	body, err := m.Marshal()
	if err != nil {
		a.t.Error(err)
	}
	_, _ = w.Write(body)
}

// sessionInput returns the input of a new session. It ends with the session's
// connection too: a client may leave before it has attached its input.
func (a *execAgent) sessionInput(connection context.Context) <-chan *agent.ProcessIO {
	attached, input := make(chan *agent.ProcessIO, 100), make(chan *agent.ProcessIO)
	a.mu.Lock()
	a.input = attached
	a.mu.Unlock()
	go func() {
		defer close(input)
		for {
			select {
			case m, ok := <-attached:
				if !ok {
					return
				}
				select {
				case input <- m:
				case <-connection.Done():
					return
				}
			case <-connection.Done():
				return
			}
		}
	}()
	return input
}

// readInput answers ATTACH_CONTAINER_INPUT.
func (a *execAgent) readInput(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).EnableFullDuplex()
	w.Header().Set("Connection", "close")
	if code := a.recordCall(agent.Call_ATTACH_CONTAINER_INPUT, &agent.Call{}); code != 0 {
		http.Error(w, "refused", code)
		return
	}
	a.mu.Lock()
	input := a.input
	a.mu.Unlock()
	defer close(input)
	for in := newRecordReader(r.Body); ; {
		var call agent.Call
		if err := in.readRecord(&call); err != nil {
			return
		}
		if m := call.AttachContainerInput.ProcessIO; m != nil {
			input <- m
		}
	}
}

type flushed struct {
	io.Writer
	flush *http.ResponseController
}

func (f flushed) Write(b []byte) (int, error) {
	n, err := f.Writer.Write(b)
	if err == nil {
		err = f.flush.Flush()
	}
	return n, err
}

// containersFor returns the containers of the executor "task" and of another executor.
func containersFor(other string) []agent.Response_GetContainers_Container {
	container := func(executor string, ids ...string) agent.Response_GetContainers_Container {
		var id *mesos.ContainerID
		for _, value := range ids {
			id = &mesos.ContainerID{Value: value, Parent: id}
		}
		if id.Parent != nil { // in the form that Mesos uses
			return agent.Response_GetContainers_Container{ContainerID: mesos.ContainerID{Value: id.Value}, ContainerStatus: &mesos.ContainerStatus{ContainerID: id}}
		}
		return agent.Response_GetContainers_Container{
			FrameworkID: &mesos.FrameworkID{Value: "f"}, ExecutorID: &mesos.ExecutorID{Value: executor}, ContainerID: *id,
		}
	}
	return []agent.Response_GetContainers_Container{
		container(other, "c0"), container(other, "c0", "n0"), container("task", "c1", "n1", "check"), container("task", "c1", "n1"), container("task", "c1"),
	}
}

func writeOutput(w io.Writer, kind agent.ProcessIO_Data_Type, text string) {
	_ = writeRecord(w, &agent.ProcessIO{Type: agent.ProcessIO_DATA, Data: &agent.ProcessIO_Data{Type: kind, Data: []byte(text)}})
}

const stdout, stderr = agent.ProcessIO_Data_STDOUT, agent.ProcessIO_Data_STDERR

func (a *execAgent) exec(ctx context.Context, cmd ExecCommand, s ExecStreams) (int, error) {
	a.t.Helper()
	c, err := New(ConnectionConfig{Master: "http://127.0.0.1:1", ExecutorPath: "/opt/mesos-gpu", Log: newDiscardLogger(), FrameworkID: "f"})
	if err != nil {
		a.t.Fatal(err)
	}
	cmd.AgentURL = a.URL
	if cmd.ExecutorID == "" {
		cmd.ExecutorID = "task"
	}
	if cmd.Argv == nil {
		cmd.Argv = []string{"prog", "arg"}
	}
	return c.Exec(ctx, cmd, s)
}

func TestExecCommand(t *testing.T) {
	for _, test := range []struct {
		what    string
		command ExecCommand
		stdin   io.Reader
		status  int32
		code    int
		parent  string
		argv    string
		tty     string
	}{
		{"in an agent's container", ExecCommand{}, nil, 0, 0, "n1", "prog arg", ""},
		{"its status", ExecCommand{}, nil, 7 << 8, 7, "n1", "prog arg", ""},
		{"a signal", ExecCommand{}, nil, 9, 137, "n1", "prog arg", ""},
		{"on a terminal", ExecCommand{TTY: true, Rows: 3, Cols: 4}, nil, 0, 0, "n1", "prog arg", "3x4 TERM=xterm"},
		{"in the engine's", ExecCommand{Engine: true}, nil, 0, 0, "c1", "/opt/mesos-gpu executor exec -- prog arg", ""},
		{"the relay", ExecCommand{Relay: true}, strings.NewReader(""), 0, 0, "c1", "/opt/mesos-gpu executor relay", ""},
		{"there with all", ExecCommand{Engine: true, TTY: true}, strings.NewReader(""), 0, 0, "c1",
			"/opt/mesos-gpu executor exec --tty --stdin -- prog arg", "0x0 TERM=xterm"},
	} {
		a := newExecAgent(t, func(w io.Writer, _ <-chan *agent.ProcessIO) {
			writeOutput(w, stdout, "out")
			_ = writeRecord(w, &agent.ProcessIO{Type: agent.ProcessIO_CONTROL, Control: &agent.ProcessIO_Control{
				Type:      agent.ProcessIO_Control_HEARTBEAT,
				Heartbeat: &agent.ProcessIO_Control_Heartbeat{Interval: &mesos.DurationInfo{Nanoseconds: 1e10}},
			}})
			writeOutput(w, stderr, "bad")
		})
		a.status = &test.status
		var out, bad strings.Builder
		code, err := a.exec(t.Context(), test.command, ExecStreams{Stdin: test.stdin, Stdout: &out, Stderr: &bad})
		if err != nil || code != test.code || out.String() != "out" || bad.String() != "bad" {
			t.Errorf("%s: status %d, %v, %q and %q; want %d, out and bad", test.what, code, err, out.String(), bad.String(), test.code)
		}
		l := a.launched
		tty := ""
		if i := l.GetContainer().GetTTYInfo(); i != nil {
			v := l.Command.Environment.Variables[0]
			tty = fmt.Sprintf("%dx%d %s=%s", i.WindowSize.GetRows(), i.WindowSize.GetColumns(), v.Name, v.GetValue())
		}
		if l.ContainerID.Parent.Value != test.parent || strings.Join(l.Command.Arguments, " ") != test.argv ||
			l.Command.GetShell() || l.Command.GetValue() != l.Command.Arguments[0] || tty != test.tty {
			t.Errorf("%s: launched %v, terminal %q; want below %s %q, terminal %q", test.what, l, tty, test.parent, test.argv, test.tty)
		}
		if !a.wasCalled(agent.Call_REMOVE_NESTED_CONTAINER) || a.wasCalled(agent.Call_KILL_NESTED_CONTAINER) {
			t.Errorf("%s: calls %v, want the container removed and nothing killed", test.what, a.calls)
		}
	}
}

// The command's input arrives in order, with its end and with window sizes.
func TestExecInput(t *testing.T) {
	a := newExecAgent(t, func(w io.Writer, input <-chan *agent.ProcessIO) {
		for m := range input {
			switch {
			case m.Control.GetTTYInfo() != nil:
				writeOutput(w, stdout, fmt.Sprintf("[%dx%d]", m.Control.TTYInfo.WindowSize.Rows, m.Control.TTYInfo.WindowSize.Columns))
			case m.Data != nil && len(m.Data.Data) == 0:
				writeOutput(w, stderr, "end")
			case m.Data != nil:
				writeOutput(w, stdout, string(m.Data.Data))
				if strings.Contains(string(m.Data.Data), endOfTransmission) {
					return
				}
			}
		}
	})
	var out, bad strings.Builder
	text := strings.Repeat("0123456789", maxInputChunk/5)
	if _, err := a.exec(t.Context(), ExecCommand{}, ExecStreams{
		Stdin:  strings.NewReader(text),
		Stdout: &out,
		Stderr: &bad,
	}); err != nil || out.String() != text || bad.String() != "end" {
		t.Errorf("%v: it read %d bytes and %q, want %d and the end", err, out.Len(), bad.String(), len(text))
	}
	out.Reset()
	b := newExecAgent(t, func(w io.Writer, input <-chan *agent.ProcessIO) {
		writeOutput(w, stdout, "$")
		a.session(w, input)
	})
	resize := make(chan TerminalSize)
	in, typed := io.Pipe()
	go func() {
		resize <- TerminalSize{5, 6}
		_, _ = typed.Write([]byte("words"))
		_ = typed.Close()
	}()
	if _, err := b.exec(t.Context(), ExecCommand{TTY: true, Rows: 3, Cols: 4}, ExecStreams{Stdin: in, Stdout: &out, Resize: resize}); err != nil ||
		out.String() != "$[3x4][5x6]words"+endOfTransmission {
		t.Errorf("%v: the terminal showed %q", err, out.String())
	}
	bad.Reset()
	c := newExecAgent(t, a.session)
	if _, err := c.exec(t.Context(), ExecCommand{}, ExecStreams{Stdout: &out, Stderr: &bad}); err != nil || bad.String() != "end" {
		t.Errorf("%v: without input it read %q, want the end", err, bad.String())
	}
}

// Sizes of the terminal wait until the command runs: Mesos's launcher ends with
// 128+SIGWINCH if the size changes before.
func TestExecResizesWaitForCommand(t *testing.T) {
	for name, tt := range map[string]struct {
		typed, prints bool
		wait          time.Duration
	}{
		"output":        {prints: true},
		"silence":       {wait: resizeDelay},
		"echo of input": {typed: true, prints: true, wait: resizeDelay},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				resize := make(chan TerminalSize)
				in, keys := io.Pipe()
				input, stop, begun := make(chan []byte), make(chan struct{}), time.Now()
				go readInput(in, input, stop)
				r := &remoteCommand{command: ExecCommand{TTY: true}, streams: ExecStreams{Stdin: in, Resize: resize}, input: input, firstOutput: make(chan struct{})}
				body, w := io.Pipe()
				go func() { _ = w.CloseWithError(r.writeInputRecords(w, stop)) }()
				go func() { resize <- TerminalSize{5, 6} }()
				if tt.typed {
					go func() { _, _ = keys.Write([]byte("ls")) }()
				}
				for records := newRecordReader(body); ; {
					var call agent.Call
					if err := records.readRecord(&call); err != nil {
						t.Fatal(err)
					}
					if call.AttachContainerInput.ProcessIO.GetControl().GetTTYInfo() != nil {
						break
					}
					if typed := call.AttachContainerInput.ProcessIO.GetData() != nil; typed == tt.typed && tt.prints {
						synctest.Wait()
						close(r.firstOutput)
					}
				}
				if took := time.Since(begun); took != tt.wait {
					t.Errorf("the size is sent after %s, want %s", took, tt.wait)
				}
				close(stop)
				_ = keys.Close()
				_ = body.Close()
			})
		})
	}
}

// A command whose launcher a size of the terminal has ended is launched once more.
func TestExecLaunchesAgainAfterResize(t *testing.T) {
	for name, tt := range map[string]struct {
		output string
		tty    bool
		status int32 // SIGWINCH if 0
		code   int
		want   string
	}{
		"before the command": {tty: true, want: "[3x4]done"},
		"in a PID namespace": {tty: true, status: 2828, want: "[3x4]done"},
		"after the fork":     {tty: true, status: 28256, want: "[3x4]done"},
		"after output":       {tty: true, output: "x", code: 156, want: "x"},
		"without a terminal": {code: 156},
	} {
		t.Run(name, func(t *testing.T) {
			first := true
			var a *execAgent
			a = newExecAgent(t, func(w io.Writer, input <-chan *agent.ProcessIO) {
				if first {
					first, *a.status = false, cmp.Or(tt.status, int32(syscall.SIGWINCH))
					if tt.output != "" {
						writeOutput(w, stdout, tt.output)
					}
					return
				}
				*a.status = 0
				writeOutput(w, stdout, "[")
				size := (<-input).Control.TTYInfo.WindowSize
				writeOutput(w, stdout, fmt.Sprintf("%dx%d]done", size.Rows, size.Columns))
			})
			in, keys := io.Pipe()
			t.Cleanup(func() { _ = keys.Close() })
			var out strings.Builder
			code, err := a.exec(t.Context(), ExecCommand{TTY: tt.tty, Rows: 3, Cols: 4}, ExecStreams{Stdin: in, Stdout: &out})
			if err != nil || code != tt.code || out.String() != tt.want {
				t.Errorf("status %d, %v, %q; want %d and %q", code, err, out.String(), tt.code, tt.want)
			}
		})
	}
}

// endlessReader returns a session that ends only when its connection is closed.
func endlessReader(first string) func(io.Writer, <-chan *agent.ProcessIO) {
	return func(w io.Writer, _ <-chan *agent.ProcessIO) {
		writeOutput(w, stdout, first)
		for _, err := io.WriteString(w, ""); err == nil; _, err = io.WriteString(w, "") {
			if writeRecord(w, &agent.ProcessIO{Type: agent.ProcessIO_CONTROL}) != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// brokenPipe is a writer that always fails.
type brokenPipe struct{}

var errGone = errors.New("the reader has gone")

func (brokenPipe) Write([]byte) (int, error) { return 0, errGone }

// After any failure the command ends: its connection is closed, and it is killed.
func TestExecFaults(t *testing.T) {
	left := func(a *execAgent) func(*testing.T) {
		return func(t *testing.T) {
			<-a.left
			if !a.wasCalled(agent.Call_KILL_NESTED_CONTAINER) {
				t.Errorf("calls %v, want the command killed", a.calls)
			}
		}
	}
	t.Run("the client leaves", func(t *testing.T) {
		a := newExecAgent(t, endlessReader("there"))
		ctx, leave := context.WithCancelCause(t.Context())
		why := errors.New("the client left")
		_, err := a.exec(ctx, ExecCommand{}, ExecStreams{Stdout: writeFunc(func() { leave(why) })})
		if !errors.Is(err, why) {
			t.Errorf("%v, want %v", err, why)
		}
		left(a)(t)
	})
	t.Run("no reader", func(t *testing.T) {
		a := newExecAgent(t, endlessReader("there"))
		if _, err := a.exec(t.Context(), ExecCommand{}, ExecStreams{Stdout: brokenPipe{}}); !errors.Is(err, errGone) {
			t.Errorf("%v, want %v", err, errGone)
		}
		left(a)(t)
	})
	t.Run("the agent goes midway", func(t *testing.T) {
		var a *execAgent
		a = newExecAgent(t, func(w io.Writer, _ <-chan *agent.ProcessIO) {
			writeOutput(w, stdout, "there")
			a.CloseClientConnections()
			panic(http.ErrAbortHandler)
		})
		if _, err := a.exec(t.Context(), ExecCommand{}, ExecStreams{Stdout: io.Discard}); err == nil || !strings.Contains(err.Error(), "connection lost") {
			t.Errorf("%v, want that the connection is lost", err)
		}
		left(a)(t)
	})
	t.Run("the agent falls silent", func(t *testing.T) {
		a := newExecAgent(t, func(w io.Writer, input <-chan *agent.ProcessIO) {
			_ = writeRecord(w, &agent.ProcessIO{Type: agent.ProcessIO_CONTROL, Control: &agent.ProcessIO_Control{
				Type:      agent.ProcessIO_Control_HEARTBEAT,
				Heartbeat: &agent.ProcessIO_Control_Heartbeat{Interval: &mesos.DurationInfo{Nanoseconds: 1e6}},
			}})
			for range input { // until the client closes the input
			}
		})
		in, _ := io.Pipe()
		if _, err := a.exec(t.Context(), ExecCommand{}, ExecStreams{Stdin: in, Stdout: io.Discard}); err == nil ||
			!strings.Contains(err.Error(), "missed 5 heartbeats") {
			t.Errorf("%v, want that it has missed heartbeats", err)
		}
		left(a)(t)
	})
	for what, test := range map[string]struct {
		command ExecCommand
		refuse  agent.Call_Type
		code    int
		want    string
		none    bool
	}{
		"the session is refused":    {ExecCommand{}, agent.Call_LAUNCH_NESTED_CONTAINER_SESSION, 400, "does not run the command: 400 Bad Request: refused", false},
		"the input is refused":      {ExecCommand{}, agent.Call_ATTACH_CONTAINER_INPUT, 403, "feed command on agent", false},
		"the agent lists nothing":   {ExecCommand{}, agent.Call_GET_CONTAINERS, 503, "list containers: 503", false},
		"the status is not known":   {ExecCommand{}, agent.Call_WAIT_NESTED_CONTAINER, 404, "the task ended before the exit code of the command was read", false},
		"there is no such executor": {ExecCommand{ExecutorID: "gone"}, agent.Call_UNKNOWN, 0, "no container on its agent", true},
	} {
		t.Run(what, func(t *testing.T) {
			a := newExecAgent(t, endlessReader("there"))
			if test.refuse == agent.Call_WAIT_NESTED_CONTAINER {
				a.session = func(io.Writer, <-chan *agent.ProcessIO) {}
			}
			a.refuse[test.refuse] = test.code
			_, err := a.exec(t.Context(), test.command, ExecStreams{Stdout: io.Discard})
			if err == nil || !strings.Contains(err.Error(), test.want) || errors.Is(err, ErrNoContainer) != test.none {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// writeFunc is a writer that calls a function.
type writeFunc func()

func (w writeFunc) Write(b []byte) (int, error) {
	w()
	return len(b), nil
}
