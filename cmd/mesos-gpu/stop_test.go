package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"mesos-gpu/framework/client"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/internal/testing/zktest"
	"mesos-gpu/job"
)

// asProgram in the environment makes the test binary act as mesos-gpu.
const asProgram = "MESOS_GPU_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main() // exits
	}
	os.Exit(m.Run())
}

// daemonProcess is a mesos-gpu process. output has what it writes to standard output and
// standard error.
type daemonProcess struct {
	t      *testing.T
	cmd    *exec.Cmd
	output *noticeBuffer
	ended  chan struct{}
}

func startDaemon(t *testing.T, env []string, args ...string) *daemonProcess {
	t.Helper()
	p := &daemonProcess{t: t, output: &noticeBuffer{more: make(chan struct{}, 1)}, ended: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0], args...)
	p.cmd.Env = append(os.Environ(), append(env, asProgram+"=1", "GORACE=atexit_sleep_ms=0", "NOTIFY_SOCKET=")...)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // ProcessState has the result
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
	})
	return p
}

// await waits until the process has written the text.
func (p *daemonProcess) await(text string) {
	p.t.Helper()
	for !strings.Contains(p.output.String(), text) {
		select {
		case <-p.output.more:
		case <-p.ended:
			if !strings.Contains(p.output.String(), text) {
				p.t.Fatalf("the process ended without %q: %s", text, p.output)
			}
		case <-time.After(stopWait):
			p.t.Fatalf("no %q in %q", text, p.output)
		}
	}
}

// apiAddress waits until a scheduler's API listens and returns its HOST:PORT.
func (p *daemonProcess) apiAddress() string {
	p.t.Helper()
	const up = "scheduler is up: API http://"
	p.await(up)
	_, rest, _ := strings.Cut(p.output.String(), up)
	addr, _, _ := strings.Cut(rest, "\n")
	return addr
}

// stopWait limits every wait of these tests. A process that stops as it should ends far
// earlier: after 5 s it exits by itself, with an error.
const stopWait = 2 * time.Minute

// terminate sends SIGTERM and checks that the process stops by itself, without leaving a
// part of it behind.
func (p *daemonProcess) terminate() {
	p.t.Helper()
	began := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	p.awaitExit(0)
	p.t.Logf("stopped in %s", time.Since(began).Round(time.Millisecond))
}

func (p *daemonProcess) awaitExit(want int) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(stopWait):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // prints the goroutines
		<-p.ended
		p.t.Fatalf("the process has not ended: %s", p.output)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != want || strings.Contains(p.output.String(), "did not stop") {
		p.t.Errorf("exit status %d, want %d: %s", code, want, p.output)
	}
}

// startSilentServer accepts connections and never answers. came has an element for the
// first connection.
func startSilentServer(t *testing.T) (addr string, came <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	first := make(chan struct{}, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			select {
			case first <- struct{}{}:
			default:
			}
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String(), first
}

func writePassword(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("gpu:s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const absent = "127.0.0.1:1" // no server listens there

// TestDaemonStopsWithoutItsServers: SIGTERM ends each daemon while a server that it needs
// does not exist, or accepts connections and never answers.
func TestDaemonStopsWithoutItsServers(t *testing.T) {
	t.Parallel()
	scheduler := func(args ...string) []string {
		return append([]string{"scheduler", "--listen", "127.0.0.1:0"}, args...)
	}
	dir := t.TempDir()
	for name, tt := range map[string]struct {
		env   func(server string) []string
		args  func(server string) []string
		phase string // a text that the process writes; empty: it connects to the silent server
		root  bool
	}{
		"no ZooKeeper": {args: func(string) []string { return scheduler("--master", absent, "--journal", "zk://"+absent+"/x") },
			phase: "no connection to ZooKeeper"},
		"silent ZooKeeper": {args: func(s string) []string { return scheduler("--master", absent, "--journal", "zk://"+s+"/x") }},
		"no master":        {args: func(string) []string { return scheduler("--master", absent, "--journal", dir+"/1.db") }, phase: "scheduler is up"},
		"silent master":    {args: func(s string) []string { return scheduler("--master", s, "--journal", dir+"/2.db") }},
		"no ZooKeeper of the masters": {args: func(string) []string {
			return scheduler("--master", "zk://"+absent+"/mesos", "--journal", dir+"/3.db")
		}, phase: "scheduler is up"},
		"silent ZooKeeper of the masters": {args: func(s string) []string {
			return scheduler("--master", "zk://"+s+"/mesos", "--zk-auth-file", writePassword(t), "--journal", dir+"/4.db")
		}},
		"agent's daemon without agent": {args: func(string) []string { return agentArgs(t, absent) }, phase: "agent is up", root: true},
		"agent's daemon, silent agent": {args: func(s string) []string { return agentArgs(t, s) }, root: true},
		"executor": {args: func(string) []string { return []string{"executor"} }, env: func(s string) []string {
			return []string{
				"MESOS_AGENT_ENDPOINT=" + s, "MESOS_SLAVE_PID=slave(1)@" + s, "MESOS_FRAMEWORK_ID=f",
				"MESOS_EXECUTOR_ID=e", "MESOS_DIRECTORY=" + t.TempDir(),
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.root {
				testneeds.RequireRoot(t)
			}
			server, came := startSilentServer(t)
			var env []string
			if tt.env != nil {
				env = tt.env(server)
			}
			p := startDaemon(t, env, tt.args(server)...)
			if tt.phase != "" {
				p.await(tt.phase)
			} else {
				select {
				case <-came:
				case <-p.ended:
					t.Fatalf("the process ended: %s", p.output)
				case <-time.After(stopWait):
					t.Fatalf("no connection: %s", p.output)
				}
			}
			p.terminate()
		})
	}
}

func agentArgs(t *testing.T, agent string) []string {
	dir := t.TempDir()
	return []string{"agent", "--simulate", "2xV100", "--agent", "http://" + agent, "--listen", "127.0.0.1:0",
		"--state-dir", dir + "/state", "--runtime-dir", dir + "/run", "--socket", dir + "/s", "--volumes", dir + "/volumes",
		"--driver-root", t.TempDir(), "--cgroups-root", "mesos-gpu-test-stop-" + filepath.Base(dir)}
}

// A client that sends half of a request does not keep the scheduler from stopping.
func TestSchedulerStopsDuringRequest(t *testing.T) {
	t.Parallel()
	p := startDaemon(t, nil, "scheduler", "--listen", "127.0.0.1:0", "--master", absent, "--journal", t.TempDir()+"/journal.db")
	addr := p.apiAddress()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c,
		"POST /v1/jobs HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n",
		addr); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err != nil { // 100 Continue: the handler reads the body
		t.Fatal(err)
	}
	p.terminate()
}

// TestSchedulersStopWithZooKeeper: SIGTERM ends a standby and a leader, also while ZooKeeper
// does not answer, and a standby whose journal is damaged ends with an error.
func TestSchedulersStopWithZooKeeper(t *testing.T) {
	t.Parallel()
	server := zktest.StartServer(t)
	proxy := zktest.NewProxy(t, server.Addr())
	start := func(phase string) *daemonProcess {
		p := startDaemon(t, nil, "scheduler", "--listen", "127.0.0.1:0", "--master", absent, "--journal", "zk://"+proxy.Addr()+"/gpu")
		p.await(phase)
		return p
	}
	leader := start("this scheduler leads")
	standby := start("standing by")
	standby.terminate()
	standby = start("standing by")
	proxy.CutNetwork()
	standby.terminate()
	leader.terminate()
	proxy.HealNetwork()
	proxy.BreakConnections()

	conn, _, err := zk.Connect([]string{server.Addr()}, zktest.MaxSession, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Set("/gpu/journal/head", []byte(`{"schema":4,"next":5,"snapshot":{"id":"snap-1-5","parts":1,"size":100,"sum":1}}`), -1); err != nil {
		t.Fatal(err)
	}
	p := startDaemon(t, nil, "scheduler", "--listen", "127.0.0.1:0", "--master", absent, "--journal", "zk://"+proxy.Addr()+"/gpu")
	p.awaitExit(1)
	if out := p.output.String(); !strings.Contains(out, "it is damaged or no journal") || !strings.Contains(out, "/gpu/journal/parts/snap-1-5.0") {
		t.Errorf("got %s", out)
	}
}

// On a full disk the scheduler starts, lists jobs, records their ends and stops.
func TestSchedulerRunsOnFullDisk(t *testing.T) {
	t.Parallel()
	dir := testneeds.MountSmallDisk(t, 12<<20)
	start := func() (*daemonProcess, *client.Client) {
		p := startDaemon(t, nil, "scheduler", "--listen", "127.0.0.1:0", "--master", absent, "--journal", dir+"/journal.db")
		c, err := client.New(p.apiAddress())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return p, c
	}
	p, c := start()
	for _, name := range []string{"a", "b"} {
		if _, err := c.SubmitJob(t.Context(), job.Spec{Name: name, Tasks: 1, CPUs: 1, MemMiB: 32, Command: []string{"true"}}); err != nil {
			t.Fatal(err)
		}
	}
	testneeds.FillDisk(t, dir)
	for _, name := range []string{"a", "b"} {
		p.terminate()
		p, c = start()
		if err := c.KillJob(t.Context(), name); err != nil {
			t.Error(err)
		}
		if view, err := c.GetJob(t.Context(), name); err != nil || view.State != job.Killed {
			t.Errorf("job %s is %s, %v", name, view.State, err)
		}
	}
	p.terminate()
}
