package apiserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	gocmp "github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/access"
	"mesos-gpu/framework/api"
	"mesos-gpu/framework/internal/apihttp"
	"mesos-gpu/framework/internal/execwire"
	"mesos-gpu/job"
)

// pipeNet is a listener with in-memory connections, so that the fake clock of a test
// accounts for all blocked goroutines.
type pipeNet chan net.Conn

func (p pipeNet) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}
func (p pipeNet) Close() error   { close(p); return nil }
func (p pipeNet) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080} }

func (p pipeNet) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		p <- theirs
		return ours, nil
	}}}
}

// execClient is the client's side of a session.
type execClient struct {
	t testing.TB
	*websocket.Conn
}

const echo = "http://scheduler/v1/jobs/train/tasks/0/exec?argv=echo"

// startExecSession serves a job in the test's synctest bubble and calls f with a function
// that opens sessions. It returns after the server has ended.
func startExecSession(
	t *testing.T, run func(context.Context, api.ExecRequest, api.Terminal) (int, error),
	f func(t *testing.T, open func(query string) execClient, stop func()),
) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		listener, served := make(pipeNet), make(chan error, 1)
		h := NewHandler(func() Backend { return newLeaderBackend(&fakeBackend{state: job.Running, exec: run}) }, discardLogger())
		go func() { served <- Serve(ctx, listener, h, discardLogger()) }()
		client := listener.client()
		f(t, func(query string) execClient {
			conn, _, err := websocket.Dial(t.Context(), echo+query, &websocket.DialOptions{HTTPClient: client})
			if err != nil {
				t.Fatal(err)
			}
			conn.SetReadLimit(execwire.ReadLimit)
			return execClient{t, conn}
		}, stop)
		stop()
		client.CloseIdleConnections()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func (c execClient) send(to execwire.Channel, text string) {
	c.t.Helper()
	if err := c.Write(c.t.Context(), websocket.MessageBinary, append([]byte{byte(to)}, text...)); err != nil {
		c.t.Fatal(err)
	}
}

// next returns the next message that is not empty.
func (c execClient) next() (data []byte) {
	c.t.Helper()
	for len(data) == 0 {
		var err error
		if _, data, err = c.Read(c.t.Context()); err != nil {
			c.t.Fatal(err)
		}
	}
	return data
}

// expect compares the channel and the text of the next message.
func (c execClient) expect(want string) {
	c.t.Helper()
	data := c.next()
	if got := fmt.Sprintf("%d %s", data[0], data[1:]); got != want {
		c.t.Errorf("got %q, want %q", got, want)
	}
}

// expectClosed waits until the connection is closed.
func (c execClient) expectClosed() {
	c.t.Helper()
	if _, data, err := c.Read(c.t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		c.t.Errorf("got %q, %v, want the connection's end", data, err)
	}
}

// TestExecSession checks that input reaches the command, that output arrives on its
// channels, and that the exit code comes last.
func TestExecSession(t *testing.T) {
	var got api.ExecRequest
	run := func(_ context.Context, r api.ExecRequest, term api.Terminal) (int, error) {
		got = r
		size := <-term.Resize
		text, err := io.ReadAll(term.Stdin)
		fmt.Fprintf(term.Stdout, "%s %v", text, err)
		fmt.Fprint(term.Stderr, size)
		return 7, nil
	}
	startExecSession(t, run, func(t *testing.T, open func(string) execClient, _ func()) {
		c := open("&argv=-n&argv=&tty=true&stdin=1&rows=24&cols=80")
		c.send(execwire.ResizeChannel, `{"rows":5,"cols":6}`)
		c.send(execwire.StdinChannel, "ab")
		c.send(execwire.StdinChannel, "c")
		c.send(execwire.StdinChannel, "")
		c.expect("1 abc <nil>")
		c.expect("2 {5 6}")
		c.expect(`3 {"exit":7}`)
		c.expectClosed()
		if diff := gocmp.Diff(api.ExecRequest{Argv: []string{"echo", "-n", ""}, TTY: true, Stdin: true, Rows: 24, Cols: 80}, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestExecWithoutStdin checks that a client which sends unexpected input is disconnected.
func TestExecWithoutStdin(t *testing.T) {
	run := func(ctx context.Context, _ api.ExecRequest, term api.Terminal) (int, error) {
		fmt.Fprint(term.Stdout, term.Stdin)
		<-ctx.Done()
		return 0, ctx.Err()
	}
	startExecSession(t, run, func(t *testing.T, open func(string) execClient, _ func()) {
		c := open("")
		c.expect("1 <nil>")
		c.send(execwire.StdinChannel, "x")
		c.expect(`3 {"title":"Bad Request","status":400,"detail":"there is input for a command that was started without: request it with stdin=true","code":"invalid_request"}`)
		c.expectClosed()
	})
}

// TestExecReportsProblem checks that an error after the start is the last message.
func TestExecReportsProblem(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{api.NewProblemf(http.StatusConflict, "the task has ended"), `3 {"title":"Conflict","status":409,"detail":"the task has ended","code":"conflict"}`},
		{fmt.Errorf("ask the agent: %w", api.NewUnavailable("it is away")),
			`3 {"title":"Service Unavailable","status":503,"detail":"it is away","undone":true,"code":"unavailable"}`},
		{errors.New("the agent has no container"), `3 {"title":"Internal Server Error","status":500,"detail":"the agent has no container","code":"internal"}`},
	} {
		run := func(context.Context, api.ExecRequest, api.Terminal) (int, error) { return 0, tt.err }
		startExecSession(t, run, func(_ *testing.T, open func(string) execClient, _ func()) {
			c := open("")
			c.expect(tt.want)
			c.expectClosed()
		})
	}
}

// TestExecRejectsMalformedMessages checks that such a message ends session and command.
func TestExecRejectsMalformedMessages(t *testing.T) {
	for message, want := range map[string]string{
		"\x04{}x":                       "parse window size",
		"\x04" + `{"rows":65536}`:       "are no window: each is 0 to 65535",
		"\x01x":                         "channel 1 takes no input",
		"\x09":                          "channel 9 takes no input",
		"text":                          "a message is text",
		"\x00" + strings.Repeat("x", 9): "",
	} {
		run := func(ctx context.Context, _ api.ExecRequest, term api.Terminal) (int, error) {
			if want == "" {
				n, err := io.ReadAtLeast(term.Stdin, make([]byte, 9), 9)
				return n, err
			}
			<-ctx.Done()
			return 0, ctx.Err()
		}
		startExecSession(t, run, func(t *testing.T, open func(string) execClient, _ func()) {
			c, kind := open("&stdin=true"), websocket.MessageBinary
			if message == "text" {
				kind = websocket.MessageText
			}
			if err := c.Write(t.Context(), kind, []byte(message)); err != nil {
				t.Fatal(err)
			}
			data := c.next()
			if execwire.Channel(data[0]) != execwire.ExitChannel || !strings.Contains(string(data), want) {
				t.Errorf("%q: %s, want %q", message, data, want)
			}
			if want == "" && string(data[1:]) != `{"exit":9}` {
				t.Errorf("a valid message ended the session: %s", data)
			}
			c.expectClosed()
		})
	}
}

// TestExecEndsWhenClientDisconnects checks that the command ends, however the client
// disconnects and whatever the command does.
func TestExecEndsWhenClientDisconnects(t *testing.T) {
	for name, does := range map[string]func(context.Context, api.Terminal){
		"waits":  func(ctx context.Context, _ api.Terminal) { <-ctx.Done() },
		"reads":  func(_ context.Context, term api.Terminal) { _, _ = io.Copy(io.Discard, term.Stdin) },
		"prints": func(_ context.Context, term api.Terminal) { _, _ = io.Copy(term.Stdout, endlessReader{}) },
	} {
		for _, politely := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, politely %t", name, politely), func(t *testing.T) {
				var cause error
				run := func(ctx context.Context, _ api.ExecRequest, term api.Terminal) (int, error) {
					does(ctx, term)
					<-ctx.Done()
					cause = context.Cause(ctx)
					return 0, ctx.Err()
				}
				startExecSession(t, run, func(t *testing.T, open func(string) execClient, _ func()) {
					c := open("&stdin=true")
					if synctest.Wait(); politely {
						_ = c.Close(websocket.StatusNormalClosure, "")
					} else {
						_ = c.CloseNow()
					}
					synctest.Wait()
					if cause == nil || !strings.Contains(cause.Error(), "the client has disconnected") {
						t.Errorf("the command did not end: %v", cause)
					}
				})
			})
		}
	}
}

// endlessReader is endless output.
type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) { return len(p), nil }

// TestExecWaitsForSlowReader checks that a command blocks while its output is not read,
// and that all output arrives, even hours later.
func TestExecWaitsForSlowReader(t *testing.T) {
	const size = 8 << 20
	written := 0
	run := func(_ context.Context, _ api.ExecRequest, term api.Terminal) (int, error) {
		for chunk := make([]byte, 100_000); written < size; {
			n, err := term.Stdout.Write(chunk[:min(len(chunk), size-written)])
			if written += n; err != nil {
				return 0, err
			}
		}
		return 0, nil
	}
	startExecSession(t, run, func(t *testing.T, open func(string) execClient, _ func()) {
		c := open("")
		time.Sleep(time.Hour)
		if synctest.Wait(); written > 100_000 {
			t.Errorf("%d bytes were sent although the client does not read", written)
		}
		got := 0
		for {
			data := c.next()
			if execwire.Channel(data[0]) == execwire.ExitChannel {
				break
			}
			got += len(data) - 1
		}
		if got != size {
			t.Errorf("read %d of %d bytes", got, size)
		}
		c.expectClosed()
	})
}

// TestExecInputIsBounded checks that unread input is buffered up to a limit without
// blocking other messages, and that reading frees space for more.
func TestExecInputIsBounded(t *testing.T) {
	var read chan int // created in the bubble, like the next one
	var sizes chan api.WindowSize
	run := func(ctx context.Context, _ api.ExecRequest, term api.Terminal) (int, error) {
		go func() { sizes <- <-term.Resize }()
		for n := range read {
			if _, err := io.ReadFull(term.Stdin, make([]byte, n)); err != nil {
				return 0, err
			}
		}
		<-ctx.Done()
		return 0, ctx.Err()
	}
	startExecSession(t, run, func(t *testing.T, open func(string) execClient, _ func()) {
		read, sizes = make(chan int), make(chan api.WindowSize, 1)
		c := open("&stdin=true")
		part := strings.Repeat("x", execwire.InputWindow/8)
		for range 8 {
			c.send(execwire.StdinChannel, part)
		}
		c.send(execwire.ResizeChannel, `{"rows":1,"cols":2}`)
		if got := <-sizes; got != (api.WindowSize{Rows: 1, Cols: 2}) {
			t.Errorf("got %v behind much input", got)
		}
		read <- execwire.InputWindow / 4
		c.expect(fmt.Sprintf(`5 {"bytes":%d}`, execwire.InputWindow/4))
		c.send(execwire.StdinChannel, part)
		c.send(execwire.StdinChannel, part)
		close(read)
		c.send(execwire.StdinChannel, "y")
		c.expect(fmt.Sprintf(`3 {"title":"Bad Request","status":400,"detail":"%d bytes of input are not acknowledged, at most %d are permitted","code":"invalid_request"}`,
			execwire.InputWindow+1, execwire.InputWindow))
		c.expectClosed()
	})
}

// TestIdleExecSessionIsKeptAlive checks that an idle session lasts for hours by heartbeats,
// and ends if the client stops sending them.
func TestIdleExecSessionIsKeptAlive(t *testing.T) {
	for name, tt := range map[string]struct {
		beats int
		ends  bool
	}{"never says a word": {0, false}, "says that it is there, and goes": {2, true}} {
		t.Run(name, func(t *testing.T) {
			var ended chan time.Time // created in the bubble
			run := func(ctx context.Context, _ api.ExecRequest, _ api.Terminal) (int, error) {
				<-ctx.Done()
				ended <- time.Now()
				return 0, ctx.Err()
			}
			startExecSession(t, run, func(t *testing.T, open func(string) execClient, _ func()) {
				ended = make(chan time.Time, 1)
				c := open("")
				for range tt.beats {
					time.Sleep(keepAliveInterval)
					if err := c.Write(t.Context(), websocket.MessageBinary, nil); err != nil {
						t.Fatal(err)
					}
				}
				last := time.Now()
				for heard := 0; !tt.ends && time.Since(last) < 4*time.Hour; heard++ {
					if _, data, err := c.Read(t.Context()); err != nil || len(data) > 0 || time.Since(last) != time.Duration(heard+1)*keepAliveInterval {
						t.Fatalf("after %s: %q, %v", time.Since(last), data, err)
					}
				}
				if len(ended) > 0 {
					t.Error("the session ended without a reason")
				}
				if !tt.ends {
					_ = c.Close(websocket.StatusNormalClosure, "")
				}
				if took := (<-ended).Sub(last); tt.ends && (took <= clientTimeout || took > clientTimeout+keepAliveInterval) {
					t.Errorf("the session ended %s after the client's last message", took)
				}
				_ = c.CloseNow()
			})
		})
	}
}

// TestExecSessionsEndOnShutdown checks that sessions end with a message about the shutdown.
func TestExecSessionsEndOnShutdown(t *testing.T) {
	ended := false
	run := func(ctx context.Context, _ api.ExecRequest, _ api.Terminal) (int, error) {
		<-ctx.Done()
		time.Sleep(time.Second) // time for cleanup
		ended = true
		return 0, ctx.Err()
	}
	startExecSession(t, run, func(t *testing.T, open func(string) execClient, stop func()) {
		c := open("")
		stop()
		c.expect(`3 {"title":"Service Unavailable","status":503,"detail":"the scheduler is stopping, and has ended the command","code":"unavailable"}`)
		c.expectClosed()
	})
	if !ended {
		t.Error("the server has ended before the command")
	}
}

// TestUnreadExecSessionEndsOnShutdown checks the same if the client does not read.
func TestUnreadExecSessionEndsOnShutdown(t *testing.T) {
	ended := false
	run := func(ctx context.Context, _ api.ExecRequest, term api.Terminal) (int, error) {
		_, err := io.Copy(term.Stdout, endlessReader{})
		ended = true
		return 0, err
	}
	startExecSession(t, run, func(t *testing.T, open func(string) execClient, stop func()) {
		c := open("")
		synctest.Wait()
		stop()
		time.Sleep(closeTimeout)
		if synctest.Wait(); !ended {
			t.Error("the command waits for who does not read")
		}
		_ = c.CloseNow()
	})
}

// TestExecPreconditions checks that errors which are known before the upgrade are
// returned as Problems, and that no command runs.
func TestExecPreconditions(t *testing.T) {
	long := "?argv=" + strings.Repeat("x", api.MaxArgv)
	for name, tt := range map[string]struct {
		path     string // relative to /v1/jobs/train/tasks/
		state    job.State
		err      error
		header   []string
		options  []HandlerOption
		status   int
		contains string
	}{
		"no upgrade":         {path: "0/exec?argv=ls", header: []string{}, status: 426, contains: "WebSocket"},
		"an old WebSocket":   {path: "0/exec?argv=ls", header: append([]string{"Sec-Websocket-Version", "8"}, upgrade[:4]...), status: 400, contains: "version"},
		"no command":         {path: "0/exec", status: 400, contains: "a program is required"},
		"an empty one":       {path: "0/exec?argv=&argv=x", status: 400, contains: "a program is required"},
		"a long one":         {path: "0/exec" + long, status: 400, contains: "65537 bytes, at most 65536"},
		"a strange size":     {path: "0/exec?argv=ls&rows=70000", status: 400, contains: "are no window"},
		"no size":            {path: "0/exec?argv=ls&rows=many", status: 400, contains: "is not a number"},
		"perhaps a terminal": {path: "0/exec?argv=ls&tty=perhaps", status: 400, contains: "neither true nor false"},
		"no task":            {path: "1/exec?argv=ls", status: 404, contains: `job train has no task \"1\": it has 1, counted from 0`},
		"no number":          {path: "x/exec?argv=ls", status: 404, contains: "counted from 0"},
		"no job":             {path: "0/exec?argv=ls", err: api.UnknownJob("train"), status: 404, contains: "there is no job"},
		"it waits":           {path: "0/exec?argv=ls", state: job.Waiting, status: 409, contains: "task train.0 is WAITING"},
		"it has ended":       {path: "0/exec?argv=ls", state: job.Finished, status: 409, contains: "task train.0 is FINISHED"},
		"turned off":         {path: "0/exec?argv=ls", options: []HandlerOption{WithoutExec()}, status: 403, contains: "--exec=false"},
		"another site's page": {path: "0/exec?argv=ls", header: append([]string{"Sec-Fetch-Site", "cross-site"}, upgrade...),
			status: 403, contains: "another site"},
		"another site.s page": {path: "0/exec?argv=ls", header: append([]string{"Sec-Fetch-Site", "same-site"}, upgrade...), status: 403, contains: "another site"},
		"another site's origin": {path: "0/exec?argv=ls", header: append([]string{"Origin", "http://evil.example"}, upgrade...),
			status: 403, contains: "another site"},
		"no origin at all": {path: "0/exec?argv=ls", header: append([]string{"Origin", "null"}, upgrade...), status: 403, contains: "another site"},
		"one that lies": {path: "0/exec?argv=ls",
			header: append([]string{"Sec-Fetch-Site", "same-origin", "Origin", "http://evil.example"}, upgrade...), status: 403,
			contains: "evil.example"},
		"another name for us": {path: "0/exec?argv=ls", header: append([]string{"Host", "evil.example"}, upgrade...),
			status: 403, contains: "not a name of this scheduler"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeBackend{state: job.Running, err: tt.err, exec: func(context.Context, api.ExecRequest, api.Terminal) (int, error) {
				t.Error("the command was executed")
				return 0, nil
			}}
			if tt.state != "" {
				f.state = tt.state
			}
			if tt.header == nil {
				tt.header = upgrade
			}
			r := httptest.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1/v1/jobs/train/tasks/"+tt.path, nil)
			for i := 0; i < len(tt.header); i += 2 {
				if r.Header.Set(tt.header[i], tt.header[i+1]); tt.header[i] == "Host" {
					r.Host = tt.header[i+1]
				}
			}
			w := hijackableRecorder{httptest.NewRecorder()}
			RestrictHosts(NewHandler(func() Backend { return newLeaderBackend(f) }, discardLogger(), tt.options...), discardLogger()).ServeHTTP(w, r)
			var p api.Problem
			err := json.Unmarshal(w.Body.Bytes(), &p)
			if kind := w.Header().Get("Content-Type"); err != nil || w.Code != tt.status || p.Status != tt.status ||
				kind != apihttp.ProblemMediaType || !strings.Contains(w.Body.String(), tt.contains) {
				t.Errorf("got %d %s %s, want %d with %s", w.Code, kind, w.Body, tt.status, tt.contains)
			}
		})
	}
}

// TestExecSameOrigin checks that a request from the same origin is accepted.
func TestExecSameOrigin(t *testing.T) {
	url := serveBackend(t, &fakeBackend{state: job.Running}).URL
	for _, header := range [][]string{nil, {"Origin", url}, {"Origin", url, "Sec-Fetch-Site", "same-origin"}} {
		openExec(t, url, header...)
	}
}

// openExec opens a session with a raw request, so that it can set any header.
func openExec(t *testing.T, url string, header ...string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := httptest.NewRequest("GET", url+"/v1/jobs/train/tasks/0/exec?argv=ls", nil)
	for i, all := 0, append(header, upgrade...); i < len(all); i += 2 {
		r.Header.Set(all[i], all[i+1])
	}
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil || res.StatusCode != 101 {
		t.Errorf("%v: %+v, %v", header, res, err)
	}
}

// TestStandbyRedirectsExec checks the redirect to the leader, if there is one.
func TestStandbyRedirectsExec(t *testing.T) {
	for _, tt := range []struct {
		err      error
		status   int
		location string
	}{
		{api.RedirectToLeader("http://s2:8080/"), 307, "http://s2:8080/v1/jobs/train/tasks/0/exec?argv=ls"},
		{api.NewUnavailable("starting"), 503, ""},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/jobs/train/tasks/0/exec?argv=ls", nil)
		w := httptest.NewRecorder()
		NewHandler(func() Backend { return Backend{Redirect: func(context.Context) error { return tt.err }} }, discardLogger()).ServeHTTP(w, r)
		if got := w.Header().Get("Location"); w.Code != tt.status || got != tt.location || !strings.Contains(w.Body.String(), `"undone":true`) {
			t.Errorf("%v: %d to %q: %s", tt.err, w.Code, got, w.Body)
		}
	}
}

// TestExecIsAudited checks the job, the task and the start of the command in the audit note.
func TestExecIsAudited(t *testing.T) {
	f := &fakeBackend{state: job.Running, whose: map[string][2]string{"train": {"research", "owner"}}}
	note := &apihttp.AuditNote{}
	r := httptest.NewRequestWithContext(t.Context(), "GET",
		"http://127.0.0.1/v1/jobs/train/tasks/0/exec?argv=sh&argv=-c&argv=a%0A"+strings.Repeat("%C3%A9", 300), nil)
	for i := 0; i < len(upgrade); i += 2 {
		r.Header.Set(upgrade[i], upgrade[i+1])
	}
	ctx := apihttp.WithGrant(apihttp.WithAuditNote(r.Context(), note), rolePolicy().GrantFor(access.Identity{Name: "operator"}))
	w := hijackableRecorder{httptest.NewRecorder()}
	NewHandler(func() Backend { return newLeaderBackend(f) }, discardLogger()).ServeHTTP(w, r.WithContext(ctx))
	begins := `["sh" "-c" "a\n`
	want := apihttp.AuditNote{Job: "train", Role: "research", Task: "train.0", Argv: begins + strings.Repeat("é", maxAuditArgv-len(begins))}
	if diff := gocmp.Diff(want, *note); diff != "" || w.Code != 101 {
		t.Errorf("%d: %s", w.Code, diff)
	}
}
