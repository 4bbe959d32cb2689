package e2e

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// checkNotebook checks a notebook with a stand-in for Jupyter: its link, WebSockets, another
// connection to it, ports over the API, and that it ends when it is idle.
func checkNotebook(t *testing.T, c *cluster) {
	t.Helper()
	broken := c.run("notebook", "--gpus", "0", "--cpus", "0.1", "--command", `touch "$HOME/config" && echo there is no kernel >&2; exit 3`)
	if broken.code != 3 || broken.out != "" || !strings.Contains(broken.err, " FAILED: exited with status 3\n") ||
		!strings.HasSuffix(broken.err, "\n  there is no kernel\n") {
		t.Errorf("a server that fails: %+v", broken)
	}
	started := c.startForward(t, "notebook", "--name", "lab", "--gpus", "1", "--cpus", "0.2", "--mem", "256MiB", "--idle", "5s",
		"--workdir", "testdata", "--command", "exec python3 web_server.py")
	link := started.awaitLine(t, started.ended, regexp.MustCompile(`^(http://127\.0\.0\.1:[0-9]+/\?token=.+)$`))[1]
	if body := fetch(t, link); body != "hello from a notebook" {
		t.Errorf("the notebook answered %q", body)
	}
	if body := fetch(t, strings.Split(link, "?")[0]); body != "wrong token" {
		t.Errorf("without the token the notebook answered %q", body)
	}
	conn, _, err := websocket.Dial(t.Context(), strings.Replace(link, "/?", "/echo?", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range []string{"one", "two"} {
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
			t.Fatal(err)
		}
		if _, data, err := conn.Read(t.Context()); err != nil || string(data) != message {
			t.Fatalf("the notebook echoed %q, %v; want %q", data, err, message)
		}
	}
	idleAfter := time.After(8 * time.Second) // longer than the idle timeout
	checkPorts(t, c)
	<-idleAfter
	if view := c.awaitJob("lab", func(*api.JobView) bool { return true }); view.State != job.Running {
		t.Errorf("with a connection the notebook is %s", view.State)
	}
	if err := conn.CloseNow(); err != nil {
		t.Error(err)
	}
	<-started.ended
	if code := started.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(started.errs.String(), "no client was connected for 5s") {
		t.Errorf("at the end of the idle notebook its command ends with %d: %s", code, &started.errs)
	}
	view := c.awaitJob("lab", func(v *api.JobView) bool { return v.Terminal })
	if message := view.Tasks[0].Message; !strings.Contains(message, "no client was connected for 5s") {
		t.Errorf("the idle notebook is %s: %q", view.State, message)
	}
}

// checkPorts checks which ports of a task are forwarded.
func checkPorts(t *testing.T, c *cluster) {
	t.Helper()
	requester, err := client.New(c.api)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(requester.Close)
	if err := requester.ProbePort(t.Context(), "lab", 0, "notebook"); err != nil {
		t.Errorf("the port is not forwarded by its name: %v", err)
	}
	for _, port := range []string{"22", "metrics", "127.0.0.1:22"} {
		if err := requester.ProbePort(t.Context(), "lab", 0, port); err == nil || !strings.Contains(err.Error(), "has no port") {
			t.Errorf("port %s, which is not the task's: %v", port, err)
		}
	}
	res, err := http.Get(c.api + "/v1/jobs/lab/tasks/0/proxy/notebook/?token=no")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || string(body) != "wrong token" ||
		!strings.HasPrefix(res.Header.Get("Content-Security-Policy"), "sandbox;") {
		t.Errorf("through the API the notebook answered %d %q, %v with %v", res.StatusCode, body, err, res.Header)
	}
	f := c.startForward(t, "port-forward", "lab", ":notebook")
	address := f.awaitLine(t, f.ended, regexp.MustCompile(`^(127\.0\.0\.1:[0-9]+) is forwarded to task lab\.0\.`))[1]
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); err != nil || !strings.Contains(string(answer), "wrong token") {
		t.Errorf("got %q, %v", answer, err)
	}
	f.interrupt()
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	return string(body)
}

// forwardCommand is a client command that runs until it is interrupted.
type forwardCommand struct {
	*outputBuffer
	t     *testing.T
	cmd   *exec.Cmd
	errs  bytes.Buffer
	ended chan struct{}
}

func (c *cluster) startForward(t *testing.T, args ...string) *forwardCommand {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	t.Cleanup(cancel)
	f := &forwardCommand{outputBuffer: newOutputBuffer(), t: t, cmd: exec.CommandContext(ctx, binary, args...), ended: make(chan struct{})}
	f.cmd.Env = append(os.Environ(), "MESOS_GPU_API="+c.api)
	f.cmd.Stdout, f.cmd.Stderr = f.outputBuffer, &f.errs
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(f.ended)
		_ = f.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = f.cmd.Process.Kill()
		<-f.ended
	})
	return f
}

// interrupt sends SIGINT and checks that the command succeeds.
func (f *forwardCommand) interrupt() {
	f.t.Helper()
	if err := f.cmd.Process.Signal(syscall.SIGINT); err != nil {
		f.t.Fatal(err)
	}
	<-f.ended
	if code := f.cmd.ProcessState.ExitCode(); code != 0 {
		f.t.Errorf("%q ended with %d: %s", f.cmd.Args[1:], code, &f.errs)
	}
}

// TestNotebook checks notebooks and forwarded ports on the embedded agent.
func TestNotebook(t *testing.T) {
	t.Parallel()
	testneeds.RequireRoot(t)
	testneeds.RequireProgram(t, "python3", "python3")
	checkNotebook(t, startCluster(t))
}
