package client

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/apiserver"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/internal/execwire"
	"mesos-gpu/framework/request"
	"mesos-gpu/internal/testing/backendtest"
	"mesos-gpu/job"
)

// execBackend is a scheduler with one job of one task. Exec runs a function of the test.
type execBackend struct {
	backendtest.Reads // the test calls only the methods below
	backendtest.Commands
	run func(context.Context, api.ExecRequest, api.Terminal) (int, error)
}

func (r execBackend) AsOf() time.Time { return time.Time{} }

func (r execBackend) GetJob(context.Context, string) (api.JobView, error) {
	return api.NewJobView(&job.Job{Spec: &job.Spec{Name: "train", Tasks: 1}, Tasks: []job.Task{{ID: "train.0.1.x", Job: "train", State: job.Running}}}, ""), nil
}

func (r execBackend) TrackConnection(string) func() { return func() {} }

func (r execBackend) Exec(ctx context.Context, _ string, _ int, e api.ExecRequest, t api.Terminal) (int, error) {
	return r.run(ctx, e, t)
}

func (r execBackend) handler() http.Handler { return serveBackend(r) }

func serveBackend(b interface {
	backendtest.Reads
	backendtest.Commands
}) http.Handler {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return apiserver.NewHandler(func() apiserver.Backend { return backendtest.NewLeader(b) }, log)
}

func connectTo(t *testing.T, address string, options ...Option) *Client {
	t.Helper()
	c, err := New(address, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestExec checks over TLS and with a token that a slow command gets all of its input, and
// that each output stream is returned separately.
func TestExec(t *testing.T) {
	r := execBackend{run: func(_ context.Context, _ api.ExecRequest, term api.Terminal) (int, error) {
		n, err := io.Copy(term.Stdout, iotest.HalfReader(term.Stdin))
		fmt.Fprint(term.Stderr, n, <-term.Resize)
		return 3, err
	}}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if got := q.Header.Get("Authorization"); got != "Bearer secret" {
			t.Errorf("Authorization: %q", got)
		}
		r.handler().ServeHTTP(w, q)
	}))
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	in := bytes.Repeat([]byte("0123456789abcdef"), 5*execwire.InputWindow/16)
	sizes := make(chan api.WindowSize, 1)
	sizes <- api.WindowSize{Rows: 3, Cols: 4}
	var out, errs bytes.Buffer
	code, err := connectTo(t, s.URL, WithTrustedCA(ca), WithToken("secret")).Exec(t.Context(), "train", 0, api.ExecRequest{Argv: []string{"cat"}},
		api.Terminal{Stdin: bytes.NewReader(in), Stdout: &out, Stderr: &errs, Resize: sizes})
	if code != 3 || err != nil || !bytes.Equal(out.Bytes(), in) || errs.String() != fmt.Sprint(len(in), api.WindowSize{Rows: 3, Cols: 4}) {
		t.Errorf("exit %d, %v: %d of %d bytes, and %q", code, err, out.Len(), len(in), &errs)
	}
}

// TestExecRejected checks that the scheduler's reason is returned, before or at the end of the
// session, and not an error about unsent input.
func TestExecRejected(t *testing.T) {
	r := execBackend{run: func(context.Context, api.ExecRequest, api.Terminal) (int, error) {
		return 0, api.NewProblemf(http.StatusConflict, "its agent is away")
	}}
	s := httptest.NewServer(r.handler())
	defer s.Close()
	c := connectTo(t, s.URL)
	for _, tt := range []struct {
		task   int
		argv   []string
		status int
		want   string
	}{
		{1, []string{"ls"}, 404, "has no task"},
		{0, []string{"ls"}, 409, "its agent is away"},
		{0, nil, 0, "a program is required"},
		{0, []string{strings.Repeat("x", api.MaxArgv)}, 0, "at most 65536 are taken"},
	} {
		_, err := c.Exec(t.Context(), "train", tt.task, api.ExecRequest{Argv: tt.argv}, api.Terminal{Stdout: io.Discard, Stderr: io.Discard})
		var p *api.Problem
		if errors.As(err, &p) != (tt.status != 0) || p != nil && p.Status != tt.status || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("task %d: %v, want %d %s", tt.task, err, tt.status, tt.want)
		}
	}
	long := strings.Repeat("%", api.MaxArgv-1) // three bytes each in the URL
	if _, err := c.Exec(t.Context(), "train", 0, api.ExecRequest{Argv: []string{long}}, api.Terminal{}); err == nil ||
		!strings.Contains(err.Error(), "its agent is away") {
		t.Errorf("the longest command: %v", err)
	}
}

// TestExecFollowsLeader checks that Exec follows redirects to the leader.
func TestExecFollowsLeader(t *testing.T) {
	leader := httptest.NewServer(execBackend{run: func(context.Context, api.ExecRequest, api.Terminal) (int, error) { return 5, nil }}.handler())
	defer leader.Close()
	standby := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		apihttp.WriteProblem(w, r, api.RedirectToLeader(leader.URL), nil)
	}))
	defer standby.Close()
	code, err := connectTo(t, standby.URL).Exec(t.Context(), "train", 0, api.ExecRequest{Argv: []string{"ls"}}, api.Terminal{})
	if code != 5 || err != nil {
		t.Errorf("exit %d, %v", code, err)
	}
}

// TestExecIsNotRepeated checks that Exec is not retried if the response is lost, because the
// command may have started.
func TestExecIsNotRepeated(t *testing.T) {
	var asked atomic.Int32
	lost := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		panic(http.ErrAbortHandler)
	}))
	defer lost.Close()
	_, err := connectTo(t, lost.URL+","+lost.URL).Exec(t.Context(), "train", 0, api.ExecRequest{Argv: []string{"ls"}}, api.Terminal{})
	if n := asked.Load(); err == nil || n != 1 {
		t.Errorf("asked %d times, %v", n, err)
	}
}

// TestExecEnds checks that session and command end when the context ends, the output cannot be
// written, the input cannot be read, or the scheduler disconnects.
func TestExecEnds(t *testing.T) {
	goes := errors.New("broken")
	for name, tt := range map[string]struct {
		end  func(context.CancelCauseFunc, net.Conn) // called once the command runs
		in   io.Reader
		out  io.Writer
		want string
	}{
		"an interrupt": {end: func(cancel context.CancelCauseFunc, _ net.Conn) { cancel(goes) }, want: "broken"},
		"the scheduler": {end: func(_ context.CancelCauseFunc, conn net.Conn) { conn.Close() },
			want: "the connection with the scheduler is lost, and the command with it"},
		"the output": {out: failingWriter{goes}, want: "broken"},
		"the input":  {in: iotest.ErrReader(goes), want: "read standard input: broken"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			ended, conns := make(chan struct{}), make(chan net.Conn, 1)
			s := httptest.NewUnstartedServer(execBackend{run: func(running context.Context, _ api.ExecRequest, term api.Terminal) (int, error) {
				defer close(ended)
				fmt.Fprint(term.Stdout, "begun")
				<-running.Done()
				return 0, running.Err()
			}}.handler())
			s.Config.ConnState = func(c net.Conn, state http.ConnState) {
				if state == http.StateHijacked {
					conns <- c
				}
			}
			s.Start()
			defer s.Close()
			term := api.Terminal{Stdin: tt.in, Stdout: tt.out, Stderr: io.Discard}
			if tt.out == nil {
				term.Stdout = writeNotifier(func() {
					if tt.end != nil {
						tt.end(cancel, <-conns)
					}
				})
			}
			_, err := connectTo(t, s.URL).Exec(ctx, "train", 0, api.ExecRequest{Argv: []string{"sleep"}}, term)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
			<-ended
		})
	}
}

type failingWriter struct{ err error }

func (f failingWriter) Write([]byte) (int, error) { return 0, f.err }

// writeNotifier calls a function at each write.
type writeNotifier func()

func (f writeNotifier) Write(p []byte) (int, error) { f(); return len(p), nil }

// singleConn is a listener with one connection.
type singleConn chan net.Conn

func (l singleConn) Accept() (net.Conn, error) {
	if conn, ok := <-l; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (l singleConn) Close() error   { close(l); return nil }
func (l singleConn) Addr() net.Addr { return &net.TCPAddr{} }

// TestExecDetectsSilentScheduler checks that the connection counts as lost after a time without
// messages, but not while the client itself is blocked in writing output.
func TestExecDetectsSilentScheduler(t *testing.T) {
	for name, slow := range map[string]time.Duration{"at once": 0, "once a page of the output was looked at": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				listener := make(singleConn, 1)
				listener <- theirs
				silent := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					conn, err := websocket.Accept(w, r, nil)
					if err != nil {
						t.Error(err)
						return
					}
					_ = conn.Write(r.Context(), websocket.MessageBinary, []byte("\x01begun"))
					for err == nil {
						_, _, err = conn.Read(r.Context())
					}
				})}
				go silent.Serve(listener)
				defer silent.Close()
				c := connectTo(t, "127.0.0.1:1")
				c.http.Transport = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return ours, nil }}
				began := time.Now()
				out := writeNotifier(func() { time.Sleep(slow) })
				_, err := c.Exec(t.Context(), "train", 0, api.ExecRequest{Argv: []string{"sleep"}}, api.Terminal{Stdout: out})
				if took := time.Since(began) - slow; err == nil || !strings.Contains(err.Error(), "has sent nothing for 1m0s") ||
					took < serverTimeout || took > serverTimeout+2*heartbeatInterval {
					t.Errorf("%v after %s", err, took)
				}
			})
		})
	}
}

// endedTask is a scheduler whose only task ends with its command, before the agent was asked for the command's exit code.
type endedTask struct {
	execBackend
	ended *atomic.Bool
}

func (r endedTask) GetJob(context.Context, string) (api.JobView, error) {
	code := 6
	t := job.Task{ID: "train.0.1.x", Job: "train", State: job.Running}
	if r.ended.Load() {
		t.State, t.ExitCode = job.Failed, &code
	}
	return api.NewJobView(&job.Job{Spec: &job.Spec{Name: "train", Tasks: 1, TTY: true}, Tasks: []job.Task{t}}, ""), nil
}

func (r endedTask) WatchEvents(context.Context, request.EventQuery) (<-chan request.EventBatch, error) {
	batches := make(chan request.EventBatch, 1)
	batches <- request.EventBatch{Events: []api.TaskEvent{{Time: time.Now(), Job: "train", Task: "train.0.1.x", State: job.Failed}}}
	close(batches)
	return batches, nil
}

// KnowsEvent has the stream itself begin with the states.
func (endedTask) KnowsEvent(string) bool { return true }

// TestAttachReturnsExitCodeOfTask checks that attach returns the task's exit code if that of its command is lost with the
// container, and that exec, whose command has another exit code, reports the loss.
func TestAttachReturnsExitCodeOfTask(t *testing.T) {
	r := endedTask{ended: &atomic.Bool{}}
	r.run = func(context.Context, api.ExecRequest, api.Terminal) (int, error) {
		r.ended.Store(true)
		return 0, api.NewProblemf(http.StatusConflict, "the task ended").WithCode(api.CodeExitUnknown, "")
	}
	s := httptest.NewServer(serveBackend(r))
	defer s.Close()
	c := connectTo(t, s.URL)
	if code, err := c.Attach(t.Context(), "train", 0, api.WindowSize{}, api.Terminal{Stdout: io.Discard, Stderr: io.Discard}); code != 6 || err != nil {
		t.Errorf("attach: exit %d, %v, want 6", code, err)
	}
	r.ended.Store(false)
	_, err := c.Exec(t.Context(), "train", 0, api.ExecRequest{Argv: []string{"ls"}}, api.Terminal{Stdout: io.Discard, Stderr: io.Discard})
	if p := (*api.Problem)(nil); !errors.As(err, &p) || p.Code != api.CodeExitUnknown {
		t.Errorf("exec: %v, want code %s", err, api.CodeExitUnknown)
	}
}
