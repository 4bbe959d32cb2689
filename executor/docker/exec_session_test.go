package docker

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/google/uuid"

	"mesos-gpu/executor/task"
	"mesos-gpu/internal/testing/testimage"
)

// busy starts a task for sessions. Its executor uses the given procfs.
func busy(t *testing.T, proc string) (h host, work task.TaskSpec, r *runningContainer) {
	t.Helper()
	h = newHost(t)
	h.procDir = proc
	image := testimage.LoadImage(t, h.engine, testimage.BusyboxArchive(t, "mesos-gpu-session", nil, []string{"OF_IMAGE=yes"}))
	work = shell(image, "exec sleep 1000")
	work.GPUs, work.Minors = 1, []int{2}
	return h, work, h.start(t, work).(*runningContainer)
}

// session runs a command to its end.
func (h host) session(ctx context.Context, t *testing.T, work task.TaskSpec, stdin io.Reader, argv ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, bad strings.Builder
	code, err := ExecSession{Container: work.Container.Value, Argv: argv, Stdin: stdin, Stdout: &out, Stderr: &bad}.Run(ctx, h.engine)
	if err != nil {
		t.Fatalf("%q: %v", argv, err)
	}
	return code, out.String(), bad.String()
}

func TestExecSession(t *testing.T) {
	h, work, r := busy(t, "/proc")
	for _, test := range []struct {
		what, stdin    string
		argv           []string
		code           int
		stdout, stderr string
	}{
		{"streams and status", "", []string{"sh", "-c", "echo out; echo bad >&2; exit 7"}, 7, "out\n", "bad\n"},
		{"input to its end", "one\ntwo\n", []string{"cat"}, 0, "one\ntwo\n", ""},
		{"the task's environment and devices", "", []string{"sh", "-c", "echo $OF_IMAGE $MESOS_GPU_JOB; ls /dev | grep nvidia"},
			0, "yes job\nnvidia2\nnvidiactl\n", ""},
		{"a signal", "", []string{"sh", "-c", "kill -TERM $$"}, 143, "", ""},
	} {
		var stdin io.Reader
		if test.stdin != "" {
			stdin = strings.NewReader(test.stdin)
		}
		code, stdout, stderr := h.session(t.Context(), t, work, stdin, test.argv...)
		if code != test.code || stdout != test.stdout || stderr != test.stderr {
			t.Errorf("%s: status %d, %q and %q; want %d, %q and %q", test.what, code, stdout, stderr, test.code, test.stdout, test.stderr)
		}
	}
	if code, out, _ := h.session(t.Context(), t, work, nil, "no-such-program"); code != 126 && code != 127 || !strings.Contains(out, "no-such-program") {
		t.Errorf("no such program: status %d, %q; want 126 or 127 and its name", code, out)
	}
	if err := r.Signal(t.Context(), 9); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := (ExecSession{
		Container: work.Container.Value,
		Argv:      []string{"true"},
	}).Run(t.Context(), h.engine); err == nil || !strings.Contains(err.Error(), containerName(work)) {
		t.Errorf("for a task that has ended: %v", err)
	}
}

// The terminal gets the requested sizes.
func TestExecSessionTerminal(t *testing.T) {
	h, work, _ := busy(t, "/proc")
	sizes := make(chan TerminalSize)
	in, typed := io.Pipe()
	shown := newScreen()
	ended := make(chan int, 1)
	go func() {
		const script = `trap 'exit 3' INT; echo ready; while :; do stty size; sleep 0.1; done`
		s := ExecSession{Container: work.Container.Value, Argv: []string{"sh", "-c", script}, TTY: true, Sizes: sizes, Stdin: in, Stdout: shown}
		code, err := s.Run(t.Context(), h.engine)
		if err != nil {
			t.Error(err)
		}
		ended <- code
	}()
	shown.await(t, "ready")
	for _, size := range []TerminalSize{{33, 44}, {55, 66}} {
		sizes <- size
		shown.await(t, fmt.Sprintf("%d %d\r\n", size.Rows, size.Cols))
	}
	if _, err := typed.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	if code := <-ended; code != 3 {
		t.Errorf("status %d after ^C, want 3", code)
	}
}

// When a session ends, its command and all its descendants are killed, whether or not the
// executor sees the engine's processes.
func TestCommandEndsWithItsSession(t *testing.T) {
	for _, test := range []struct{ where, proc string }{{"from outside", "/proc"}, {"from within", t.TempDir()}} {
		t.Run(test.where, func(t *testing.T) {
			h, work, r := busy(t, test.proc)
			ctx, leave := context.WithCancel(t.Context())
			shown, ended := newScreen(), make(chan struct{})
			go func() {
				defer close(ended)
				const script = `trap '' HUP TERM INT; setsid sleep 2000 & sleep 3000 & echo ready; while :; do sleep 1; done`
				_, _ = ExecSession{Container: work.Container.Value, Argv: []string{"sh", "-c", script}, Stdout: shown, Stderr: io.Discard}.Run(ctx, h.engine)
			}()
			shown.await(t, "ready")
			leave()
			<-ended
			h.aloneIn(t, r)
		})
	}
}

// aloneIn waits until only the task's own process is left in its container. The engine
// has no event for the end of a process.
func (h host) aloneIn(t *testing.T, r *runningContainer) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		top, err := h.engine.ContainerTop(t.Context(), r.id, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(top.Processes) == 1 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the container's processes are %q, want one", top.Processes)
		}
	}
}

// terminalRecorder records a session's output, for which a test can wait.
type terminalRecorder struct {
	mu      sync.Mutex
	text    string
	changed chan struct{}
}

func newScreen() *terminalRecorder { return &terminalRecorder{changed: make(chan struct{}, 1)} }

func (s *terminalRecorder) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text += string(b)
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (s *terminalRecorder) await(t *testing.T, text string) {
	t.Helper()
	for late := time.After(time.Minute); ; {
		s.mu.Lock()
		shown := s.text
		s.mu.Unlock()
		if strings.Contains(shown, text) {
			return
		}
		select {
		case <-s.changed:
		case <-late:
			t.Fatalf("it shows %q, want %q", shown, text)
		}
	}
}

// An executor kills session commands only in its own task's container.
func TestSessionOfOtherContainerIsRejected(t *testing.T) {
	h, work, r := busy(t, "/proc")
	other := shell(work.Image, "exec sleep 1000")
	h.inSandbox(t, t.TempDir()).start(t, other)
	made, err := h.engine.ContainerExecCreate(t.Context(), r.id, container.ExecOptions{Cmd: []string{"true"}})
	if err != nil {
		t.Fatal(err)
	}
	for what, n := range map[string]sessionNotice{
		"another container's": {made.ID, uuid.NewString()},
		"unknown command":     {"none", uuid.NewString()},
		"a mark of its own":   {made.ID, "*"},
	} {
		conn, err := registerSession(t.Context(), containerName(other), n)
		if err == nil || !strings.Contains(err.Error(), "register the command with the task's executor") {
			t.Errorf("%s: it is registered (%v)", what, err)
		}
		if conn != nil {
			conn.Close()
		}
	}
}
