// Package e2e tests the built program as users run it: a cluster by "mesos-gpu local", jobs by
// the command line, and what remains on the machine after both have ended.
package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
)

// binary is the path of mesos-gpu, built with the race detector for this run. Daemons, and commands
// that run for a while, are started from it.
var binary string

// binaryFlags are the flags with which binary is built: as scripts/test-all-json.sh compiles the tests, so that no
// package is compiled once more.
var binaryFlags = []string{"-race", "-gcflags=compress/...=-race=false", "-gcflags=github.com/go-zookeeper/zk=-race=false"}

// runStarted is the time when this run began.
var runStarted = time.Now()

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mesos-gpu-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// Some tests run the program as another user.
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if binary, err = buildProgram(dir, "mesos-gpu", binaryFlags...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	releasedOnce = sync.OnceValues(func() (string, error) { return buildProgram(dir, "mesos-gpu-released") })
	// The race detector otherwise waits a second at each exit.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	return m.Run()
}

// buildProgram builds mesos-gpu as a file in dir and returns its path.
func buildProgram(dir, name string, flags ...string) (string, error) {
	path := filepath.Join(dir, name)
	args := append(append([]string{"build", "-ldflags=-s -w"}, flags...), "-o", path, "mesos-gpu/cmd/mesos-gpu")
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build mesos-gpu: %w\n%s", err, out)
	}
	return path, nil
}

var releasedOnce func() (string, error)

// buildReleased returns mesos-gpu without the race detector, as packages contain it. Short
// commands and executors are started from it: the detector costs each of their many
// processes more than it does itself, and more memory than the examples request.
func buildReleased(t testing.TB) string {
	t.Helper()
	path, err := releasedOnce()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

const waitTimeout = 3 * time.Minute

// result is the output and the exit status of a command.
type result struct {
	out, err string
	code     int
}

// runCommand runs mesos-gpu until it ends, as users have it.
func runCommand(t *testing.T, env []string, args ...string) result {
	t.Helper()
	return runProgram(t, buildReleased(t), nil, env, args...)
}

// runProgram runs a build of mesos-gpu to its end, as another user if as is not nil.
func runProgram(t *testing.T, program string, as *syscall.Credential, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	c.Env = append(os.Environ(), env...)
	if as != nil {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: as}
		c.Dir = "/"
	}
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("mesos-gpu %s: %v\n%s%s", strings.Join(args, " "), err, &out, &errs)
	}
	return result{out.String(), errs.String(), c.ProcessState.ExitCode()}
}

// cluster is a running "mesos-gpu local".
type cluster struct {
	t      *testing.T
	api    string
	cmd    *exec.Cmd
	output *outputBuffer
	ended  chan struct{}
}

var apiAddressPattern = regexp.MustCompile(`API (http://[0-9.:]+)`)

// startCluster runs "mesos-gpu local" until the test ends. Tasks without an image run as the
// user of the tests, unless args have another one.
func startCluster(t *testing.T, args ...string) *cluster {
	t.Helper()
	return startDaemon(t, binary, append([]string{"local", "--free-ports", "--executor", buildReleased(t), "--process-user=", "--work-dir", t.TempDir()},
		args...)...)
}

// makeWorkDir returns a temporary work directory that tasks of other users can enter.
func makeWorkDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	makeReadable(t, dir)
	return dir
}

// startDaemon runs a daemon until the test ends. It returns when the daemon has printed the
// address of its API.
func startDaemon(t *testing.T, program string, args ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, output: newOutputBuffer(), ended: make(chan struct{})}
	c.cmd = exec.Command(program, args...)
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.output
	c.cmd.WaitDelay = outputDelay
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.ended)
		if err := c.cmd.Wait(); errors.Is(err, exec.ErrWaitDelay) { // stop checks the output
			t.Errorf("%s after the daemon's end another process still held its output", outputDelay)
		}
	}()
	t.Cleanup(c.stop)
	c.api = c.output.awaitLine(t, c.ended, apiAddressPattern)[1]
	return c
}

// outputDelay bounds the wait for the end of a daemon's output after the daemon has ended.
const outputDelay = 10 * time.Second

// stop ends the daemon with SIGTERM. It fails the test if the daemon does not end in time, and
// then shows what its goroutines wait for, or if the race detector reported a race.
func (c *cluster) stop() {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
	select {
	case <-c.ended:
	case <-time.After(waitTimeout):
		_ = c.cmd.Process.Signal(syscall.SIGQUIT) // it prints its goroutines and ends
		select {
		case <-c.ended:
		case <-time.After(outputDelay):
			_ = c.cmd.Process.Kill()
		}
		c.t.Errorf("local did not end within %s of SIGTERM:\n%s", waitTimeout, c.output)
		<-c.ended
	}
	if c.t.Failed() {
		c.t.Logf("output of the daemon:\n%s", c.output)
	}
	if strings.Contains(c.output.String(), "DATA RACE") {
		c.t.Errorf("the race detector found a race:\n%s", c.output)
	}
}

// run runs a client command against the cluster.
func (c *cluster) run(args ...string) result {
	c.t.Helper()
	return runCommand(c.t, []string{"MESOS_GPU_API=" + c.api}, args...)
}

// mustRun runs a client command and fails the test if its status is not 0.
func (c *cluster) mustRun(args ...string) string {
	c.t.Helper()
	r := c.run(args...)
	if r.code != 0 {
		c.t.Fatalf("mesos-gpu %s: status %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
	}
	return r.out
}

// outputBuffer collects a process's output and wakes up the waiters for a line.
type outputBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func newOutputBuffer() *outputBuffer { return &outputBuffer{more: make(chan struct{})} }

func (l *outputBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.more)
	l.more = make(chan struct{})
	return l.text.Write(p)
}

func (l *outputBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// awaitLine waits for a line that matches pattern and returns the match. It fails the test if
// the process ends first.
func (l *outputBuffer) awaitLine(t *testing.T, ended <-chan struct{}, pattern *regexp.Regexp) []string {
	t.Helper()
	deadline := time.After(waitTimeout)
	for {
		l.mu.Lock()
		text, more := l.text.String(), l.more
		l.mu.Unlock()
		scan := bufio.NewScanner(strings.NewReader(text))
		for scan.Scan() {
			if m := pattern.FindStringSubmatch(scan.Text()); m != nil {
				return m
			}
		}
		select {
		case <-more:
		case <-ended:
			t.Fatalf("the process ended without a line that matches %s:\n%s", pattern, text)
		case <-deadline:
			t.Fatalf("no line matches %s after %s:\n%s", pattern, waitTimeout, text)
		}
	}
}

func hardLink(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Link(from, to); err != nil {
		t.Fatal(err)
	}
}

// awaitOutput repeats a client command until its output has the text.
func (c *cluster) awaitOutput(text string, args ...string) {
	c.t.Helper()
	c.awaitRun(func(r result) bool { return strings.Contains(r.out, text) }, args...)
}

func (c *cluster) awaitOutputWithout(text string, args ...string) {
	c.t.Helper()
	c.awaitRun(func(r result) bool { return r.code == 0 && !strings.Contains(r.out, text) }, args...)
}

// awaitRun repeats a command until its result is the wanted one.
func (c *cluster) awaitRun(wanted func(result) bool, args ...string) {
	c.t.Helper()
	for late := time.Now().Add(waitTimeout); ; time.Sleep(100 * time.Millisecond) {
		r := c.run(args...)
		if wanted(r) {
			return
		}
		if time.Now().After(late) {
			c.t.Fatalf("mesos-gpu %s: status %d\n%s%s", strings.Join(args, " "), r.code, r.out, r.err)
		}
	}
}

// awaitJobEnd waits until a job has ended.
func (c *cluster) awaitJobEnd(job string) {
	c.t.Helper()
	c.awaitJob(job, func(v *api.JobView) bool { return v.Terminal })
}

// awaitJob waits until a job satisfies done, and returns it.
func (c *cluster) awaitJob(job string, done func(*api.JobView) bool) api.JobView {
	c.t.Helper()
	requester, err := client.New(c.api) // a command for each request would take 20 ms of processor time
	if err != nil {
		c.t.Fatal(err)
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	late := time.After(waitTimeout)
	for {
		view, err := requester.GetJob(c.t.Context(), job)
		if err != nil {
			c.t.Fatal(err)
		}
		if done(&view) {
			return view
		}
		select {
		case <-tick.C:
		case <-late:
			c.t.Fatalf("job %s has not reached the expected state after %s:\n%s", job, waitTimeout, c.mustRun("describe", job))
		}
	}
}
