package master

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
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
	left     chan struct{} // closed when the connection of the session is closed
}

func newExecAgent(t *testing.T, session func(w io.Writer, input <-chan *agent.ProcessIO)) *execAgent {
	a := &execAgent{t: t, session: session, status: new(int32), refuse: map[agent.Call_Type]int{}, input: make(chan *agent.ProcessIO, 100), left: make(chan struct{})}
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
		defer close(a.left)
		flush := http.NewResponseController(w)
		_ = flush.Flush()
		a.session(flushed{w, flush}, a.input)
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

// readInput answers ATTACH_CONTAINER_INPUT.
func (a *execAgent) readInput(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).EnableFullDuplex()
	w.Header().Set("Connection", "close")
	if code := a.recordCall(agent.Call_ATTACH_CONTAINER_INPUT, &agent.Call{}); code != 0 {
		http.Error(w, "refused", code)
		return
	}
	defer close(a.input)
	for in := newRecordReader(r.Body); ; {
		var call agent.Call
		if err := in.readRecord(&call); err != nil {
			return
		}
		if m := call.AttachContainerInput.ProcessIO; m != nil {
			a.input <- m
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
		{"there with all", ExecCommand{Engine: true, TTY: true}, strings.NewReader(""), 0, 0, "c1", "/opt/mesos-gpu executor exec --tty --stdin -- prog arg", "0x0 TERM=xterm"},
	} {
		a := newExecAgent(t, func(w io.Writer, _ <-chan *agent.ProcessIO) {
			writeOutput(w, stdout, "out")
			_ = writeRecord(w, &agent.ProcessIO{Type: agent.ProcessIO_CONTROL, Control: &agent.ProcessIO_Control{Type: agent.ProcessIO_Control_HEARTBEAT, Heartbeat: &agent.ProcessIO_Control_Heartbeat{Interval: &mesos.DurationInfo{Nanoseconds: 1e10}}}})
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
		if l.ContainerID.Parent.Value != test.parent || strings.Join(l.Command.Arguments, " ") != test.argv || l.Command.GetShell() || l.Command.GetValue() != l.Command.Arguments[0] || tty != test.tty {
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
	if _, err := a.exec(t.Context(), ExecCommand{}, ExecStreams{Stdin: strings.NewReader(text), Stdout: &out, Stderr: &bad}); err != nil || out.String() != text || bad.String() != "end" {
		t.Errorf("%v: it read %d bytes and %q, want %d and the end", err, out.Len(), bad.String(), len(text))
	}
	out.Reset()
	b := newExecAgent(t, a.session)
	resize := make(chan TerminalSize)
	in, typed := io.Pipe()
	go func() {
		resize <- TerminalSize{5, 6}
		_, _ = typed.Write([]byte("words"))
		_ = typed.Close()
	}()
	if _, err := b.exec(t.Context(), ExecCommand{TTY: true, Rows: 3, Cols: 4}, ExecStreams{Stdin: in, Stdout: &out, Resize: resize}); err != nil || out.String() != "[3x4][5x6]words"+endOfTransmission {
		t.Errorf("%v: the terminal showed %q", err, out.String())
	}
	bad.Reset()
	c := newExecAgent(t, a.session)
	if _, err := c.exec(t.Context(), ExecCommand{}, ExecStreams{Stdout: &out, Stderr: &bad}); err != nil || bad.String() != "end" {
		t.Errorf("%v: without input it read %q, want the end", err, bad.String())
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
	t.Run("nobody reads", func(t *testing.T) {
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
			_ = writeRecord(w, &agent.ProcessIO{Type: agent.ProcessIO_CONTROL, Control: &agent.ProcessIO_Control{Type: agent.ProcessIO_Control_HEARTBEAT, Heartbeat: &agent.ProcessIO_Control_Heartbeat{Interval: &mesos.DurationInfo{Nanoseconds: 1e6}}}})
			for range input { // until the client closes the input
			}
		})
		in, _ := io.Pipe()
		if _, err := a.exec(t.Context(), ExecCommand{}, ExecStreams{Stdin: in, Stdout: io.Discard}); err == nil || !strings.Contains(err.Error(), "missed 5 heartbeats") {
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
		"the status is not known":   {ExecCommand{}, agent.Call_WAIT_NESTED_CONTAINER, 404, "read how the command ended: 404", false},
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
