// Package zktest runs a real ZooKeeper server (Debian's package) for tests, and
// a network proxy that disconnects clients from it. Starting a JVM costs most of
// a second of processor time, so the tests of a process use a server one after
// the other.
package zktest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"mesos-gpu/internal/testing/testneeds"
)

const (
	// jar names all others it needs in its manifest; control comes with the
	// package of the server, and shows that it is installed.
	jar     = "/usr/share/java/zookeeper.jar"
	logging = "/usr/share/java/slf4j-simple.jar"
	control = "/usr/share/zookeeper/bin/zkServer.sh"
	// MinSession is the shortest session that a client may ask for.
	MinSession = 400 * time.Millisecond
	// MaxSession is the longest. It outlasts a Restart, however slow.
	MaxSession = startWait + stopWait + 20*time.Second

	// maxWritten is how many bytes tests may write to a server that other tests use
	// afterwards: it keeps its last 500 transactions in memory, deleted znodes too. A
	// log file grows by 4 MiB at a time, from the first transaction on.
	maxWritten = 6 << 20

	startWait = time.Minute
	stopWait  = 10 * time.Second

	// host is the servers' own loopback address. A free port of 127.0.0.1,
	// before a server starts or while it is down, may be taken by another test
	// or become a client's own end.
	host = "127.0.0.78"
)

// ZooKeeperServer is a ZooKeeper server on a fixed loopback port.
type ZooKeeperServer struct {
	t    testing.TB // whose test uses it
	heap string
	dir  string
	// keepDir is the pipe to the process that removes dir once it is closed.
	keepDir io.Closer
	addr    string
	proc    *serverProcess // nil while it is stopped
}

// idle holds the servers whose test has ended, running and without znodes. They
// end with the process.
var idle struct {
	sync.Mutex
	servers []*ZooKeeperServer
}

// serverProcess is one run of the JVM.
type serverProcess struct {
	cmd   *exec.Cmd
	ended chan struct{}
}

// StartServer returns a running server without znodes, for this test alone.
func StartServer(t testing.TB) *ZooKeeperServer {
	t.Helper()
	return StartWith(t, "64m")
}

// StartWith is StartServer with so much memory, as java's -Xmx has it.
func StartWith(t testing.TB, heap string) *ZooKeeperServer {
	t.Helper()
	RequireZooKeeper(t)
	s := takeIdle(heap)
	if s == nil {
		s = &ZooKeeperServer{heap: heap, addr: freePort(t)}
	}
	s.t = t
	t.Cleanup(s.release)
	if s.proc == nil {
		s.makeDir()
		s.writeConfig()
		s.startProcess()
	}
	return s
}

// RequireZooKeeper asks for the programs that a server needs.
func RequireZooKeeper(t testing.TB) {
	t.Helper()
	testneeds.RequireProgram(t, "java", "default-jre-headless")
	testneeds.RequireProgram(t, control, "zookeeper")
}

// takeIdle returns the server that became idle last; nil if none exists with so much memory.
func takeIdle(heap string) *ZooKeeperServer {
	idle.Lock()
	defer idle.Unlock()
	for i := len(idle.servers) - 1; i >= 0; i-- {
		if s := idle.servers[i]; s.heap == heap {
			idle.servers = slices.Delete(idle.servers, i, i+1)
			return s
		}
	}
	return nil
}

func (s *ZooKeeperServer) release() {
	if s.proc == nil {
		return
	}
	if s.t.Failed() || s.written() > maxWritten || s.deleteAll() != nil {
		s.Kill()
		return
	}
	idle.Lock()
	defer idle.Unlock()
	idle.servers = append(idle.servers, s)
}

// written returns the size of the server's transaction logs, in bytes.
func (s *ZooKeeperServer) written() int64 {
	logs, _ := filepath.Glob(filepath.Join(s.dir, "data", "version-2", "log.*")) // the pattern is valid
	sum := int64(0)
	for _, log := range logs {
		if info, err := os.Stat(log); err == nil {
			sum += info.Size()
		}
	}
	return sum
}

// deleteAll removes every znode but ZooKeeper's own.
func (s *ZooKeeperServer) deleteAll() error {
	c, _, err := zk.Connect([]string{s.addr}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		return err
	}
	defer c.Close()
	roots, _, err := c.Children("/")
	if err != nil {
		return err
	}
	for _, root := range roots {
		if root == "zookeeper" {
			continue
		}
		if err := deleteTree(c, "/"+root); err != nil {
			return err
		}
	}
	return nil
}

func deleteTree(c *zk.Conn, path string) error {
	children, _, err := c.Children(path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	for _, child := range children {
		if err := deleteTree(c, path+"/"+child); err != nil {
			return err
		}
	}
	if err := c.Delete(path, -1); !errors.Is(err, zk.ErrNoNode) { // a session may have ended with its znodes
		return err
	}
	return nil
}

// makeDir makes a folder that a shell removes when this process has ended: then
// the pipe closes that it reads.
func (s *ZooKeeperServer) makeDir() {
	s.t.Helper()
	var err error
	if s.dir, err = os.MkdirTemp("", "zktest-"); err != nil {
		s.t.Fatal(err)
	}
	remove := exec.Command("sh", "-c", `cat; rm -rf "$1"`, "sh", s.dir)
	if s.keepDir, err = remove.StdinPipe(); err == nil {
		err = remove.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *ZooKeeperServer) writeConfig() {
	s.t.Helper()
	_, port, _ := net.SplitHostPort(s.addr) // freePort made it
	config := fmt.Sprintf(`dataDir=%s
clientPortAddress=%s
clientPort=%s
tickTime=200
minSessionTimeout=%d
maxSessionTimeout=%d
maxClientCnxns=0
admin.enableServer=false
snapCount=100000
autopurge.purgeInterval=0
`, filepath.Join(s.dir, "data"), host, port, MinSession.Milliseconds(), MaxSession.Milliseconds())
	if err := os.WriteFile(s.configPath(), []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (s *ZooKeeperServer) configPath() string { return filepath.Join(s.dir, "zoo.cfg") }
func (s *ZooKeeperServer) logPath() string    { return filepath.Join(s.dir, "log") }

// Addr is HOST:PORT.
func (s *ZooKeeperServer) Addr() string { return s.addr }

// Stop ends the server as an operator would and waits until it has ended.
func (s *ZooKeeperServer) Stop() { s.stopProcess(syscall.SIGTERM) }

// Kill ends the server as a crash would.
func (s *ZooKeeperServer) Kill() { s.stopProcess(syscall.SIGKILL) }

// Restart starts the server again with the same data and port, stopping it
// first if it runs, and waits until it serves.
func (s *ZooKeeperServer) Restart() {
	s.t.Helper()
	s.Stop()
	s.startProcess()
}

func (s *ZooKeeperServer) stopProcess(signal os.Signal) {
	if s.proc == nil {
		return
	}
	_ = s.proc.cmd.Process.Signal(signal) // it may have ended
	select {
	case <-s.proc.ended:
	case <-time.After(stopWait):
		_ = s.proc.cmd.Process.Kill()
		<-s.proc.ended
	}
	s.proc = nil
}

func (s *ZooKeeperServer) startProcess() {
	s.t.Helper()
	log, err := os.OpenFile(s.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	command := ServerCommand(s.heap, s.configPath())
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if s.proc, err = launchProcess(cmd); err != nil {
		s.t.Fatal(err)
	}
	s.awaitServing()
}

// ServerCommand returns the command line of a server with so much memory, as java's -Xmx has it,
// and a configuration file.
func ServerCommand(heap, config string) []string {
	// Tests end the server, never the machine, so what it has written remains without forceSync.
	return []string{"java", "-Xmx" + heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dzookeeper.forceSync=no",
		"-cp", jar + ":" + logging, "-Dzookeeper.preAllocSize=4096", "-Dzookeeper.jmx.log4j.disable=true",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", config}
}

// launchProcess keeps the thread that started the child until the child has ended:
// the kernel sends the signal of a parent's death when that thread ends.
func launchProcess(cmd *exec.Cmd) (*serverProcess, error) {
	p := &serverProcess{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // it ends by our signal
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start ZooKeeper: %w", err)
	}
	return p, nil
}

// awaitServing polls until the server serves. There is no notification.
func (s *ZooKeeperServer) awaitServing() {
	s.t.Helper()
	deadline := time.After(startWait)
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		if ServerMode(s.addr) != "" {
			return
		}
		select {
		case <-again.C:
		case <-s.proc.ended:
			s.proc = nil
			s.t.Fatalf("ZooKeeper ended while it started:\n%s", s.lastLog())
		case <-deadline:
			s.t.Fatalf("ZooKeeper did not serve within %s:\n%s", startWait, s.lastLog())
		}
	}
}

func (s *ZooKeeperServer) lastLog() string {
	text, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text[max(0, len(text)-4000):]))
}

// ServerMode returns the mode that a serving server reports: standalone, leader or follower;
// otherwise "". Every server answers this four-letter command.
func ServerMode(addr string) string {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	if c.SetDeadline(time.Now().Add(time.Second)) != nil {
		return ""
	}
	if _, err := c.Write([]byte("srvr")); err != nil {
		return ""
	}
	answer, _ := io.ReadAll(c) // a partial answer before an error is enough
	_, mode, _ := strings.Cut(string(answer), "Mode: ")
	mode, _, _ = strings.Cut(mode, "\n")
	return mode
}
