package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
)

// noticeBuffer is a standard error on which a test can wait for a text.
type noticeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (n *noticeBuffer) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.text.Write(p)
	select {
	case n.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (n *noticeBuffer) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

func (n *noticeBuffer) await(t *testing.T, what string) {
	t.Helper()
	for !strings.Contains(n.String(), what) {
		select {
		case <-n.more:
		case <-t.Context().Done():
			t.Fatalf("no %q in %q", what, n)
		}
	}
}

// runInterrupted runs a job on the cluster and interrupts it once it runs. It calls again
// when run has printed its reaction.
func runInterrupted(t *testing.T, c *fakeCluster, out io.Writer, again func(), flags ...string) (errs string, status int) {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	return runSignalled(t, ctx, interrupt, c, out, again, flags...)
}

// runSignalled is like runInterrupted with any kind of interrupt.
func runSignalled(t *testing.T, ctx context.Context, interrupt func(), c *fakeCluster, out io.Writer, again func(), flags ...string) (errs string, status int) {
	t.Helper()
	address, ended := c.serve(t), make(chan int)
	said := &noticeBuffer{more: make(chan struct{}, 1)}
	go func() {
		line := append(append([]string{"run", "--name", "a", "--verbose"}, flags...), "--", "train")
		ended <- runCommandLine(ctx, line, cli.ProcessIO{
			Stdin:  nil,
			Stdout: out,
			Stderr: said,
			Getenv: func(name string) string { return map[string]string{"MESOS_GPU_API": address}[name] },
		})
	}()
	said.await(t, "a.0.1.x RUNNING")
	interrupt()
	if again != nil {
		said.await(t, "interrupt again to wait no longer")
		again()
	}
	status = <-ended
	return said.String(), status
}

// An interrupt kills the job. run still prints its end and returns its exit status.
func TestInterruptKillsJob(t *testing.T) {
	c := newFakeCluster()
	errs, status := runInterrupted(t, c, io.Discard, nil)
	if status != 143 || !strings.Contains(errs, "mesos-gpu: interrupted: job a is being killed") || !strings.HasSuffix(errs, "a.0.1.x KILLED\n") {
		t.Errorf("status %d, %q", status, errs)
	}
}

// After a second interrupt run waits neither for the job nor for a reader of its output. The
// second interrupt here is a hangup of the terminal.
func TestSecondInterrupt(t *testing.T) {
	enableHangup(t)
	unread, in := io.Pipe()
	defer unread.Close()
	for name, test := range map[string]struct {
		stubborn bool
		out      io.Writer
	}{"the job continues": {true, io.Discard}, "output is not read": {false, in}} {
		t.Run(name, func(t *testing.T) {
			c := newFakeCluster()
			c.stubborn, c.logs = test.stubborn, map[string]string{"a.0.1.x": "text\n"}
			errs, status := runInterrupted(t, c, test.out, func() {
				if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
					t.Error(err)
				}
			})
			if status != 1 || !strings.HasSuffix(errs, "mesos-gpu: interrupted again; job a is being killed\n") {
				t.Errorf("status %d, %q", status, errs)
			}
		})
	}
}

// With --detach-on-interrupt an interrupt leaves the job running.
func TestInterruptDetaches(t *testing.T) {
	c := newFakeCluster()
	errs, status := runInterrupted(t, c, io.Discard, nil, "--detach-on-interrupt")
	if status != 0 || c.jobs[0].State() != job.Running || !strings.HasSuffix(errs, "mesos-gpu: interrupted; job a continues: see mesos-gpu logs -f a\n") {
		t.Errorf("status %d, the job is %s, %q", status, c.jobs[0].State(), errs)
	}
}

// SIGQUIT also leaves the job running, and does not print goroutines.
func TestQuitDetaches(t *testing.T) {
	c := newFakeCluster()
	errs, status := runSignalled(t, t.Context(), func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGQUIT); err != nil {
			t.Error(err)
		}
	}, c, io.Discard, nil)
	if status != 0 || c.jobs[0].State() != job.Running || !strings.HasSuffix(errs, "mesos-gpu: interrupted; job a continues: see mesos-gpu logs -f a\n") {
		t.Errorf("status %d, the job is %s, %q", status, c.jobs[0].State(), errs)
	}
}
