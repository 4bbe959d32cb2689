package socket_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mesos-gpu/internal/testing/opener"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/internal/unixsocket"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/socket"
)

func dial(t *testing.T, path string) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return c
}

// say sends text and returns the status of the response, or 0 if the connection ends
// without one.
func say(t *testing.T, c net.Conn, text string) int {
	t.Helper()
	_, _ = io.WriteString(c, text) // the server may close the connection before it has read everything
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal("no answer and no end")
	}
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

func post(path string, length int, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: agent\r\nContent-Length: %d\r\n\r\n%s", path, length, body)
}

func TestBadRequestsAreRejected(t *testing.T) {
	d := newTestDaemon(t, nil)
	d.server.SetPatience(brief)
	d.start(t)
	launch := containers.LaunchRequest{Container: "c", Resources: []allocation.MesosResource{{Name: "gpus", Scalar: 1}}}
	if _, err := d.PrepareContainer(t.Context(), launch); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, text string
		want       int
	}{
		{"half a header", "POST /v1/cleanup HTTP/1.1\r\nHost:", 0},
		{"half a body", post("/v1/cleanup", 17, `{"container":`), 400},
		{"nothing at all", "", 0},
		{"not HTTP", "\x00\x01\x02\r\n\r\n", 400},
		{"a long header", "GET /v1/version HTTP/1.1\r\nHost: agent\r\nX: " + strings.Repeat("x", socket.MaxHeader) + "\r\n\r\n", 431},
		{"a long path", "GET /" + strings.Repeat("x", socket.MaxHeader) + " HTTP/1.1\r\nHost: agent\r\n\r\n", 431},
		{"a large body", post("/v1/cleanup", socket.MaxBody+1, `{"container":"`+strings.Repeat("x", socket.MaxBody)), 413},
		{"a large Content-Length", post("/v1/cleanup", 1<<40, ""), 400},
		{"not JSON", post("/v1/cleanup", 3, "c=c"), 400},
		{"two values", post("/v1/cleanup", 34, `{"container":"c"}{"container":"d"}`), 400},
		{"no body", post("/v1/cleanup", 0, ""), 400},
		{"another type", post("/v1/cleanup", 15, `{"container":7}`), 400},
		{"no container", post("/v1/cleanup", 2, `{}`), 400},
		{"a recovery without a list of containers", post("/v1/recover", 17, `{"container":"c"}`), 400},
		{"a recovery with a bad name", post("/v1/recover", 23, `{"containers":["a..b"]}`), 400},
		{"another method", "DELETE /v1/cleanup HTTP/1.1\r\nHost: agent\r\n\r\n", 405},
		{"a GET that changes", "GET /v1/cleanup?container=c HTTP/1.1\r\nHost: agent\r\n\r\n", 405},
		{"no such path", "GET /v2 HTTP/1.1\r\nHost: agent\r\n\r\n", 404},
		{"an escape from the path", post("/v1/devices/..%2f..%2fx/cordon", 14, `{"reason":"x"}`), 404},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := say(t, dial(t, d.path), c.text); got != c.want {
				t.Errorf("status %d, want %d", got, c.want)
			}
			if held := d.containers.Holders(); len(held) != 1 {
				t.Errorf("it changed what is held: %v", held)
			}
		})
	}
}

// A call may take longer than the timeout for receiving its request.
func TestSlowCallIsAnswered(t *testing.T) {
	d := newTestDaemon(t, func(c *socket.ServerConfig) { c.Containers = slowContainers{c.Containers} })
	d.server.SetPatience(brief)
	d.start(t)
	if _, err := d.PrepareContainer(t.Context(), containers.LaunchRequest{Container: "c"}); err != nil {
		t.Error(err)
	}
}

// brief is a timeout that tests wait for; a client on a busy machine still sends a
// request within it.
const brief = time.Second

type slowContainers struct{ socket.ContainerManager }

func (s slowContainers) Prepare(ctx context.Context, l containers.LaunchRequest) (containers.LaunchSetup, error) {
	select {
	case <-ctx.Done():
		return containers.LaunchSetup{}, fmt.Errorf("cut short: %w", context.Cause(ctx))
	case <-time.After(2 * brief):
		return s.ContainerManager.Prepare(ctx, l)
	}
}

func TestTooManyConnections(t *testing.T) {
	d := started(t)
	const ask = "GET /v1/version HTTP/1.1\r\nHost: agent\r\n\r\n"
	var open []net.Conn
	for range socket.MaxConnections {
		c := dial(t, d.path)
		if got := say(t, c, ask); got != 200 {
			t.Fatalf("connection %d: status %d", len(open)+1, got)
		}
		open = append(open, c)
	}
	if got := say(t, dial(t, d.path), ""); got != 503 {
		t.Errorf("one more: status %d, want 503", got)
	}
	for i, c := range open { // the connections still work
		if got := say(t, c, ask); got != 200 {
			t.Errorf("connection %d afterwards: status %d", i+1, got)
		}
	}
	open[0].Close()
	// The server notices the end of a connection with a delay.
	for say(t, dial(t, d.path), ask) != 200 {
		if t.Context().Err() != nil {
			t.Fatal("a free place is not given out")
		}
	}
}

func TestListen(t *testing.T) {
	d := started(t)
	if _, err := unixsocket.Listen(d.path); err == nil || !strings.Contains(err.Error(), "another daemon answers there") {
		t.Errorf("a second daemon: got %v", err)
	}
	if _, err := d.DaemonVersion(t.Context()); err != nil {
		t.Errorf("the first one: %v", err)
	}
	info, err := os.Stat(d.path)
	if err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("socket: %v, %v; want mode 0666", info.Mode(), err)
	}
	if info, err = os.Stat(filepath.Dir(d.path)); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("folder: %v, %v; want mode 0755", info.Mode(), err)
	}

	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := unixsocket.Listen(file); err == nil || !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("in place of a file: got %v", err)
	}
	if _, err := unixsocket.Listen(filepath.Join(file, "sock")); err == nil {
		t.Error("below a file")
	}
}

// A killed daemon leaves its socket. The next one replaces the socket and finds the
// containers, and clients continue.
func TestNextDaemonReplacesSocketAndFindsContainers(t *testing.T) {
	d := started(t)
	launch := containers.LaunchRequest{Container: "c", Resources: []allocation.MesosResource{{Name: "gpus", Scalar: 1}}}
	if _, err := d.PrepareContainer(t.Context(), launch); err != nil {
		t.Fatal(err)
	}
	d.stop()
	if _, err := d.DaemonVersion(t.Context()); err == nil {
		t.Error("a daemon that is gone answers")
	}
	stale, err := net.Listen("unix", d.path)
	if err != nil {
		t.Fatal(err)
	}
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close()
	if _, err := os.Stat(d.path); err != nil {
		t.Fatal(err)
	}
	d.start(t)
	held, err := d.ListContainers(t.Context())
	if err != nil || len(held) != 1 {
		t.Errorf("got %v, %v", held, err)
	}
}

func TestManyClients(t *testing.T) {
	d := started(t)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			c := socket.NewDaemonClient(d.path)
			defer c.Close()
			id := fmt.Sprintf("c%d", i)
			for range 20 {
				_, err := c.PrepareContainer(t.Context(), containers.LaunchRequest{Container: id, Resources: []allocation.MesosResource{{Name: "gpus", Scalar: 1}}})
				var said *socket.ResponseError
				if errors.As(err, &said) && said.Status == http.StatusConflict {
					continue // another container has the device
				}
				if err != nil {
					t.Error(err)
					return
				}
				if held, err := c.ListContainers(t.Context()); err != nil || len(held) != 1 || held[0].Container != id {
					t.Errorf("%s holds the one device, but its status is %v, %v", id, held, err)
				}
				if err := errors.Join(c.IsolateContainer(t.Context(), id, 1), c.CleanUpContainer(t.Context(), id)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// callAgent runs in a process of its own, makes calls and prints the statuses.
func callAgent(args []string) {
	c := socket.NewDaemonClient(args[0])
	ctx := context.Background()
	_, version := c.DaemonVersion(ctx)
	_, list := c.ListDevices(ctx)
	_, prepared := c.PrepareContainer(ctx, containers.LaunchRequest{Container: "x"})
	_, updated := c.UpdateContainer(ctx, "c", nil)
	var statuses []any
	for _, err := range []error{
		version, list, prepared, updated, c.RecoverContainers(ctx, nil), c.IsolateContainer(ctx, "c", 1),
		c.CleanUpContainer(ctx, "c"), c.CordonDevice(ctx, "GPU-0", "x"), c.UncordonDevice(ctx, "GPU-0"),
	} {
		var said *socket.ResponseError
		switch {
		case errors.As(err, &said):
			statuses = append(statuses, said.Status)
		case err == nil:
			statuses = append(statuses, 200)
		default:
			statuses = append(statuses, err)
		}
	}
	fmt.Println(statuses...)
	if len(args) > 1 { // then open as many connections as possible
		taken := 0
		for {
			conn, err := net.Dial("unix", args[0])
			if err != nil {
				break
			}
			if _, err := io.WriteString(conn, "GET /v1/version HTTP/1.1\r\nHost: agent\r\n\r\n"); err != nil {
				break
			}
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || answer.StatusCode != http.StatusOK {
				break
			}
			taken++
		}
		fmt.Println(taken)
		_, _ = os.Stdin.Read(make([]byte, 1))
	}
}

// as returns callAgent's command, run as another user.
func as(t *testing.T, uid uint32, args ...string) *exec.Cmd {
	t.Helper()
	testneeds.RequireRoot(t)
	cmd := exec.Command("/proc/self/exe", append([]string{"call-agent"}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	cmd.Env = append(os.Environ(), opener.NoRaceDelay)
	cmd.Stderr = os.Stderr
	return cmd
}

const unprivileged = 65534

func TestRootOtherUsersMayOnlyRead(t *testing.T) {
	testneeds.RequireRoot(t) // only uid 0 and the daemon's own uid may call prepare
	d := newTestDaemon(t, func(c *socket.ServerConfig) { c.UID = 4711 })
	d.start(t)
	if _, err := d.PrepareContainer(t.Context(), containers.LaunchRequest{
		Container: "c",
		Resources: []allocation.MesosResource{{Name: "gpus", Scalar: 1}},
	}); err != nil {
		t.Fatal(err)
	}
	out, err := as(t, unprivileged, d.path).Output()
	if want := "200 200 403 403 403 403 403 403 403\n"; err != nil || string(out) != want {
		t.Errorf("unprivileged user: got %q, %v; want %q", out, err, want)
	}
	if held := d.containers.Holders(); len(held) != 1 {
		t.Errorf("unprivileged user changed the allocations: %v", held)
	}
	// The daemon's own uid has the same access as root.
	out, err = as(t, 4711, d.path).Output()
	if want := "200 200 200 200 200 404 200 200 200\n"; err != nil || string(out) != want {
		t.Errorf("the daemon's uid: got %q, %v; want %q", out, err, want)
	}
}

func TestRootOtherUsersCannotBlockAgent(t *testing.T) {
	d := started(t)
	cmd := as(t, unprivileged, d.path, "greedy")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	lines := bufio.NewScanner(out)
	lines.Scan()
	lines.Scan()
	// The daemon's client already has one connection.
	if got, want := lines.Text(), fmt.Sprint(socket.MaxOthers-1); got != want {
		t.Errorf("unprivileged user got %s connections, want %s", got, want)
	}
	if err := d.CleanUpContainer(t.Context(), "c"); err != nil {
		t.Errorf("the agent: %v", err)
	}
}
