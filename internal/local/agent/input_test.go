package agent

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"
	"github.com/mesos/mesos-go/api/v1/lib/agent/calls"

	"mesos-gpu/internal/mesosapi"
	"mesos-gpu/internal/minimesos/resource"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
)

// feed is an ATTACH_CONTAINER_INPUT call that a test streams. answer receives the
// agent's response.
type feed struct {
	t      *testing.T
	body   *io.PipeWriter
	answer chan string
}

func (r *rig) feed(first *agent.Call) *feed {
	r.t.Helper()
	body, w := io.Pipe()
	req, err := http.NewRequestWithContext(r.t.Context(), "POST", "http://"+r.agent.cfg.Addr+"/api/v1", body)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", mesosapi.RecordIO)
	req.Header.Set(mesosapi.HeaderMessageContentType, mesosapi.Protobuf)
	f := &feed{r.t, w, make(chan string, 1)}
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			f.answer <- err.Error()
			return
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		_ = body.CloseWithError(io.ErrClosedPipe)
		f.answer <- fmt.Sprintf("%d %s", res.StatusCode, text)
	}()
	f.say(first)
	return f
}

// say streams a call. An agent that has responded does not read it.
func (f *feed) say(call *agent.Call) {
	message, err := call.Marshal()
	if err != nil {
		f.t.Fatal(err)
	}
	_, _ = fmt.Fprintf(f.body, "%d\n%s", len(message), message)
}

func (f *feed) text(text string) { f.say(calls.AttachContainerInputData([]byte(text))) }

func (f *feed) size(rows, columns uint32) {
	f.say(calls.AttachContainerInputTTY(&mesos.TTYInfo{WindowSize: &mesos.TTYInfo_WindowSize{Rows: rows, Columns: columns}}))
}

// talk is a session whose input a test writes while it reads the output.
type talk struct {
	*feed
	mu  sync.Mutex
	out string
	// ended receives the session's error.
	ended chan error
	heard chan struct{}
}

func (r *rig) talk(ctx context.Context, id mesos.ContainerID, command *mesos.CommandInfo, info *mesos.ContainerInfo, ready string) *talk {
	r.t.Helper()
	k := &talk{ended: make(chan error, 1), heard: make(chan struct{}, 1)}
	go func() {
		k.ended <- r.sessionOf(ctx, calls.LaunchNestedContainerSession(id, command, info), func(_ agent.ProcessIO_Data_Type, text string) {
			k.mu.Lock()
			k.out += text
			k.mu.Unlock()
			select {
			case k.heard <- struct{}{}:
			default:
			}
		})
	}()
	k.await(r.t, ready)
	k.feed = r.feed(calls.AttachContainerInput(id))
	return k
}

// await waits until the command has written text.
func (k *talk) await(t *testing.T, text string) {
	t.Helper()
	for {
		k.mu.Lock()
		out := k.out
		k.mu.Unlock()
		if strings.Contains(out, text) {
			return
		}
		select {
		case <-k.heard:
		case err := <-k.ended:
			t.Fatalf("session ended (%v) and wrote %q, want %q", err, out, text)
		case <-t.Context().Done():
			t.Fatalf("it wrote %q, want %q", out, text)
		}
	}
}

var terminal = &mesos.ContainerInfo{
	Type:    mesos.ContainerInfo_MESOS.Enum(),
	TTYInfo: &mesos.TTYInfo{WindowSize: &mesos.TTYInfo_WindowSize{Rows: 11, Columns: 22}},
}

// A session in an executor's container reads its input to the end.
func TestSessionReadsItsInput(t *testing.T) {
	kinds(t, func(t *testing.T, root bool) {
		r := newRig(t, root, nil)
		p := r.parent()
		s := below(p, "s")
		k := r.talk(t.Context(), s, shell(`echo "$MESOS_EXECUTOR_ID in $PWD"; cat; echo over >&2; exit 9`), nil, "\n")
		for _, piece := range []string{"one\n", "two\n"} {
			k.text(piece)
		}
		k.await(t, "two\n")
		k.say(calls.AttachContainerInputHeartbeat(&agent.ProcessIO_Control_Heartbeat{}))
		second := r.feed(calls.AttachContainerInput(s))
		if answer := <-second.answer; !strings.HasPrefix(answer, "409 ") {
			t.Errorf("a second feed: %s, want 409", answer)
		}
		k.text("")
		if err := <-k.ended; err != nil {
			t.Error(err)
		}
		if answer := <-k.answer; !strings.HasPrefix(answer, "200 ") {
			t.Errorf("feed: %s, want 200 once the session has ended", answer)
		}
		dir := filepath.Join(filepath.Dir(r.sandbox("ex")), filepath.Base(readlink(t, r.sandbox("ex"))))
		if want := "ex in " + dir + "\none\ntwo\nover\n"; k.out != want {
			t.Errorf("wrote %q, want %q", k.out, want)
		}
		if ws, err := r.waitNested(s); err != nil || ws.ExitStatus() != 9 {
			t.Errorf("it ended with %#x (%v), want 9", int(ws), err)
		}
	})
}

// A terminal has a name in the container, and the requested size, sends SIGWINCH when the size changes, echoes
// its input, and sends SIGINT for ^C.
func TestSessionOnATerminal(t *testing.T) {
	kinds(t, func(t *testing.T, root bool) {
		r := newRig(t, root, nil)
		n := below(r.parent(), "n")
		if err := r.nest(n, argv("sleep", "1000"), nil); err != nil {
			t.Fatal(err)
		}
		s := below(n, "s")
		const script = `test -e $(tty) && echo named; stty size; trap 'stty size; echo changed' WINCH; trap 'echo caught; exit 6' INT; : < /dev/tty && echo mine; echo ready; read line; echo "got $line"; while :; do sleep 0.1; done`
		k := r.talk(t.Context(), s, shell(script), terminal, "ready")
		k.await(t, "named\r\n")
		k.await(t, "11 22\r\n")
		k.await(t, "mine\r\n")
		k.text("words\n")
		k.await(t, "words\r\ngot words\r\n")
		k.size(33, 44)
		k.await(t, "33 44\r\nchanged")
		k.text("\x03")
		k.await(t, "caught")
		if err := <-k.ended; err != nil {
			t.Error(err)
		}
		if ws, err := r.waitNested(s); err != nil || ws.ExitStatus() != 6 {
			t.Errorf("it ended with %#x (%v), want 6", int(ws), err)
		}
	})
}

// When the client disconnects from a terminal, its command ends, even if it
// ignores signals.
func TestTerminalEndsWithConnection(t *testing.T) {
	kinds(t, func(t *testing.T, root bool) {
		r := newRig(t, root, nil)
		p := r.parent()
		ctx, hangUp := context.WithCancel(t.Context())
		defer hangUp()
		k := r.talk(ctx, below(p, "s"), shell(`trap "" HUP TERM INT; (sleep 1000 &) ; echo there; while :; do sleep 1; done`), terminal, "there")
		k.text("typed\n")
		k.await(t, "typed\r\n") // the agent reads the input
		hangUp()
		if ws, err := r.waitNested(below(p, "s")); err != nil || ws.Signal() != syscall.SIGKILL {
			t.Errorf("it ended with %#x (%v), want SIGKILL", int(ws), err)
		}
		if answer := <-k.answer; !strings.HasPrefix(answer, "200 ") {
			t.Errorf("feed: %s, want 200", answer)
		}
		<-k.ended
	})
}

// A terminal in an image belongs to the user of the image.
func TestTerminalInAnImage(t *testing.T) {
	testneeds.RequireProgram(t, "runc", "runc")
	archive := testimage.BusyboxArchive(t, "app:1", nil, nil)
	r := gpuRig(t, func(c *AgentConfig) { c.ImagesDir = filepath.Dir(archive) })
	n := below(r.parent(resource.NewScalar("gpus", 1), gpuIDs("GPU-b")), "n")
	if err := r.nest(n, shell("exec sleep 1000"), imageInfo("app:1")); err != nil {
		t.Fatal(err)
	}
	k := r.talk(t.Context(), below(n, "s"), shell("tty; stty size; "+tryGPUs+"; echo ready; exec cat"), terminal, "ready")
	k.text("words\n\x04")
	if err := <-k.ended; err != nil {
		t.Error(err)
	}
	for _, want := range []string{"/dev/pts/0\r\n", "11 22\r\n", granted, denied, "words\r\nwords\r\n"} {
		if !strings.Contains(k.out, want) {
			t.Errorf("%q is not in\n%s", want, k.out)
		}
	}
}

func TestInputErrors(t *testing.T) {
	r := newRig(t, false, nil)
	p := r.parent()
	n := below(p, "n")
	if err := r.nest(n, argv("sleep", "1000"), nil); err != nil {
		t.Fatal(err)
	}
	for what, test := range map[string]struct {
		call *agent.Call
		want string
	}{
		"no such container": {calls.AttachContainerInput(below(p, "none")), "404 "},
		"no session":        {calls.AttachContainerInput(n), "500 I/O switchboard server was disabled"},
		"no id":             {calls.AttachContainerInputData([]byte("x")), "400 "},
		"another call":      {&agent.Call{Type: agent.Call_GET_HEALTH}, "415 "},
	} {
		if answer := <-r.feed(test.call).answer; !strings.HasPrefix(answer, test.want) {
			t.Errorf("%s: %s, want %s", what, answer, test.want)
		}
	}
	if _, err := r.call(calls.AttachContainerInput(n)); err == nil || !strings.Contains(err.Error(), "expecting 'Content-Type' to be application/recordio") {
		t.Errorf("without a stream: %v", err)
	}
	k := r.talk(t.Context(), below(p, "s"), shell("echo there; exec cat"), nil, "there")
	k.size(3, 4)
	if answer := <-k.answer; !strings.HasPrefix(answer, "400 unable to set the window size") {
		t.Errorf("the size of a pipe: %s, want 400", answer)
	}
	again := r.feed(calls.AttachContainerInput(below(p, "s")))
	again.text("")
	if err := <-k.ended; err != nil {
		t.Errorf("a second feed after the first: %v", err)
	}
	nothing := func(agent.ProcessIO_Data_Type, string) {}
	other := &mesos.ContainerInfo{Type: mesos.ContainerInfo_MESOS.Enum(), Hostname: new(string)}
	wantStatus(t, "a container of its own",
		r.sessionOf(t.Context(), calls.LaunchNestedContainerSession(below(p, "o"), shell("true"), other), nothing), 400,
		"remove its ContainerInfo")
}
