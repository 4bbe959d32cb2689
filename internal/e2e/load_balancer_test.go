package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// webServer answers with its task's id, and ends at SIGTERM.
const webServer = `
import http.server, os
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = os.environ["MESOS_TASK_ID"].encode() if "MESOS_TASK_ID" in os.environ else b"task"
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    do_POST = do_GET
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer(("", int(os.environ["PORT0"])), Answer).serve_forever()
`

// TestLoadBalancerLosesNoRequest: HAProxy, with the configuration that service-config keeps up
// to date, answers every request while all tasks of a service are replaced one after another. The requests are POSTs, which
// HAProxy sends to one task only.
func TestLoadBalancerLosesNoRequest(t *testing.T) {
	t.Parallel()
	testneeds.RequireProgram(t, "haproxy", "haproxy")
	testneeds.RequireProgram(t, "python3", "python3")
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "server.py")
	if err := os.WriteFile(program, []byte(webServer), 0o644); err != nil {
		t.Fatal(err)
	}
	c := startDaemon(t, buildReleased(t), "local", "--free-ports", "--work-dir", makeWorkDir(t))
	c.mustRun("submit", writeJobFile(t, "web.yaml", fmt.Sprintf(`name: web
tasks: 2
cpus: 0.1
mem: 64MiB
ports: 1
service: {backoff: 1s, shutdown_delay: 10s}
health_check: {http: /, interval: 1s}
command: [python3, %s]
`, program)))
	healthy := func(v *api.JobView, without ...string) bool {
		n := 0
		for i := range v.Tasks {
			if t := &v.Tasks[i]; t.State == job.Running && t.KillRequested.IsZero() && t.Healthy != nil && *t.Healthy &&
				!strings.Contains(strings.Join(without, " "), t.ID) {
				n++
			}
		}
		return n == 2
	}
	first := c.awaitJob("web", func(v *api.JobView) bool { return healthy(v) })

	bind := freeAddress(t)
	config, pid, socket := filepath.Join(dir, "haproxy.cfg"), filepath.Join(dir, "haproxy.pid"), filepath.Join(dir, "h.sock")
	flags := []string{"service-config", "haproxy", "--file", config, "--bind", bind, "--stats-socket", socket}
	c.mustRun(flags...)
	balancer := startProcess(t, "haproxy", "-W", "-f", config, "-p", pid)
	awaitAnswer(t, bind, balancer)
	watcher := startProcess(t, buildReleased(t), append(flags, "--watch", "--api", c.api, "--exec-reload", "kill -USR2 $(head -n 1 "+pid+")")...)

	stop, lost, answered := make(chan struct{}), make(chan error, 1), atomic.Int64{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		next := time.NewTicker(5 * time.Millisecond) // without pauses the requests would keep a processor busy
		defer next.Stop()
		for {
			select {
			case <-stop:
				return
			case <-next.C:
			}
			if err := requestService(http.MethodPost, bind); err != nil {
				select {
				case lost <- err:
				default:
				}
				return
			}
			answered.Add(1)
		}
	}()
	for _, task := range first.Tasks {
		c.mustRun("stop", task.ID)
		c.awaitJob("web", func(v *api.JobView) bool { return healthy(v, task.ID) })
		// The new task is used: its address is in the file that HAProxy has read.
		view := c.awaitJob("web", func(v *api.JobView) bool { return healthy(v, task.ID) })
		awaitFileText(t, config, fmt.Sprintf(":%d\n", view.Tasks[task.Index].Ports[0]), watcher)
	}
	close(stop)
	<-done
	select {
	case err := <-lost:
		t.Errorf("after %d requests one was lost: %v\n%s\n%s\n%s", answered.Load(), err, c.mustRun("describe", "web"), watcher.output, balancer.output)
	default:
	}
	if answered.Load() < 20 {
		t.Errorf("only %d requests were answered", answered.Load())
	}
	t.Logf("%d requests were answered while both tasks were replaced", answered.Load())
}

// freeAddress returns an address of this machine at which no program listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startProcess starts a program, which gets SIGTERM at the end of the test.
func startProcess(t *testing.T, program string, args ...string) *cluster {
	t.Helper()
	p := &cluster{t: t, output: newOutputBuffer(), ended: make(chan struct{})}
	p.cmd = exec.Command(program, args...)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // it is ended by a signal
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-p.ended:
		case <-time.After(waitTimeout):
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	})
	return p
}

// requestService sends one request to the service by a connection of its own.
func requestService(method, address string) error {
	req, err := http.NewRequest(method, "http://"+address+"/", nil)
	if err != nil {
		return err
	}
	req.Host, req.Close = "web", true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, body)
	}
	return err
}

// awaitAnswer waits until a service answers at an address.
func awaitAnswer(t *testing.T, address string, balancer *cluster) {
	t.Helper()
	awaitCondition(t, balancer, func() error { return requestService(http.MethodGet, address) })
}

// awaitFileText waits until a file contains a text.
func awaitFileText(t *testing.T, path, want string, writer *cluster) {
	t.Helper()
	awaitCondition(t, writer, func() error {
		text, err := os.ReadFile(path)
		if err == nil && !strings.Contains(string(text), want) {
			err = fmt.Errorf("%s lacks %q:\n%s", path, want, text)
		}
		return err
	})
}

// awaitCondition waits until check returns nil, while a process runs.
func awaitCondition(t *testing.T, p *cluster, check func() error) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	late := time.After(waitTimeout)
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-p.ended:
			t.Fatalf("the process has ended: %v\n%s", err, p.output)
		case <-late:
			t.Fatalf("%v\n%s", err, p.output)
		}
	}
}
