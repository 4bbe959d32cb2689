package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
)

// fakeContainers is a cluster that runs commands on this machine, except for programs that
// its containers lack.
type fakeContainers struct {
	*fakeCluster
	lack []string
	ran  chan string // the commands that were run
}

func newContainers(lack ...string) fakeContainers {
	return fakeContainers{
		newFakeCluster(fakeJob("train", time.Hour, job.Running),
			fakeJob("v1.2", time.Hour, job.Running, job.Waiting, job.Running), fakeJob("late", time.Hour, job.Waiting)),
		lack, make(chan string, 10),
	}
}

func (c fakeContainers) TrackConnection(string) func() { return func() {} }

func (c fakeContainers) Exec(ctx context.Context, name string, task int, r api.ExecRequest, t api.Terminal) (int, error) {
	c.ran <- fmt.Sprintf("%s.%d %s", name, task, strings.Join(r.Argv, " "))
	if slices.Contains(c.lack, r.Argv[0]) {
		return 127, nil
	}
	cmd := exec.CommandContext(ctx, r.Argv[0], r.Argv[1:]...)
	cmd.Env = append(os.Environ(), "PS1=$ ", "ENV=", "TERM=dumb")
	if r.TTY {
		return onTerminal(cmd, r, t)
	}
	cmd.Stdout, cmd.Stderr = t.Stdout, t.Stderr
	if t.Stdin != nil {
		in, err := cmd.StdinPipe()
		if err != nil {
			return 0, err
		}
		go func() {
			_, _ = io.Copy(in, t.Stdin)
			in.Close()
		}()
	}
	return exitOf(cmd.Run())
}

func onTerminal(cmd *exec.Cmd, r api.ExecRequest, t api.Terminal) (int, error) {
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: uint16(r.Rows), Cols: uint16(r.Cols)})
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if t.Stdin != nil {
		go func() { _, _ = io.Copy(f, t.Stdin) }()
	}
	ended := make(chan struct{})
	var resizing sync.WaitGroup
	defer resizing.Wait()
	defer close(ended)
	resizing.Go(func() {
		for {
			select {
			case size := <-t.Resize:
				_ = pty.Setsize(f, &pty.Winsize{Rows: uint16(size.Rows), Cols: uint16(size.Cols)})
			case <-ended:
				return
			}
		}
	})
	_, _ = io.Copy(t.Stdout, f) // a terminal ends with an error
	return exitOf(cmd.Wait())
}

func exitOf(err error) (int, error) {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// TestExecCommands checks names of tasks, the position of flags, piped input, and exit codes.
func TestExecCommands(t *testing.T) {
	for _, tt := range []struct {
		args     []string
		out, err string
		status   int
	}{
		{[]string{"train", "--", "echo", "a", "b"}, "a b\n", "", 0},
		{[]string{"train", "echo", "a", "-i", "--", "x"}, "a -i -- x\n", "", 0},
		{[]string{"--", "train", "echo", "a"}, "a\n", "", 0},
		{[]string{"train.0", "echo", "a"}, "a\n", "", 0},
		{[]string{"train.0.1.x", "echo", "a"}, "a\n", "", 0},
		{[]string{"v1.2.2", "echo", "a"}, "a\n", "", 0},
		{[]string{"-i", "train", "cat"}, "typed", "", 0},
		{[]string{"train", "-i", "--", "cat"}, "typed", "", 0},
		{[]string{"train", "cat"}, "", "", 0},
		{[]string{"train", "--stdin", "sh", "-c", "cat >&2; exit 7"}, "", "typed", 7},
		{[]string{"v1.2", "echo"}, "", "job v1.2 has 3 tasks: name one, such as v1.2.0", 2},
		{[]string{"v1.2.1", "echo"}, "", "task v1.2.1.1.x is WAITING", 1},
		{[]string{"v1.2.7", "echo"}, "", `job v1.2 has no task "v1.2.7" now`, 1},
		{[]string{"late", "echo"}, "", "task late.0.1.x is WAITING", 1},
		{[]string{"unknown", "echo"}, "", `there is no job "unknown"`, 1},
		{[]string{"no.body.0", "echo"}, "", `there is no job "no.body.0"`, 1},
		{[]string{"train"}, "", "mesos-gpu: exec needs COMMAND", 2},
		{nil, "", "mesos-gpu: exec needs JOB", 2},
		{[]string{"train", "--what", "echo"}, "", "unknown flag: --what: see mesos-gpu exec --help", 2},
		{[]string{"-it", "train", "sh"}, "", "-t needs a terminal, and standard input is not one: leave -t out", 2},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			var out, errs bytes.Buffer
			address := serveBackend(t, newContainers())
			status := runCommandLine(t.Context(), append([]string{"exec"}, tt.args...), cli.ProcessIO{
				Stdin:  strings.NewReader("typed"),
				Stdout: &out,
				Stderr: &errs,
				Getenv: func(name string) string {
					return map[string]string{"MESOS_GPU_API": address}[name]
				},
			})
			commandRun{out.String(), errs.String(), status}.expect(t, tt.out, tt.err, tt.status)
		})
	}
	if r := commandAt(t, serveBackend(t, newContainers()), "exec", "train", "--help"); r.status != 0 || !strings.Contains(r.out, "Usage:") {
		t.Errorf("help behind the job: %+v", r)
	}
}

// ttySession is a user at a terminal with a running command line.
type ttySession struct {
	t      *testing.T
	keys   *os.File // the user's end: keyboard and screen
	tty    *os.File // the program's end
	shows  *noticeBuffer
	before *term.State
	ended  chan int
}

// startOnTerminal runs a command line on a terminal of 24 rows and 80 columns.
func startOnTerminal(t *testing.T, ctx context.Context, address string, args ...string) *ttySession {
	t.Helper()
	keys, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keys.Close(); tty.Close() })
	d := &ttySession{t: t, keys: keys, tty: tty, shows: &noticeBuffer{more: make(chan struct{}, 1)}, ended: make(chan int, 1)}
	d.resize(24, 80)
	if d.before, err = term.GetState(int(tty.Fd())); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(d.shows, keys) }()
	go func() {
		d.ended <- runCommandLine(ctx, args, cli.ProcessIO{
			Stdin:  tty,
			Stdout: tty,
			Stderr: tty,
			Getenv: func(name string) string { return map[string]string{"MESOS_GPU_API": address}[name] },
		})
	}()
	return d
}

func (d *ttySession) resize(rows, cols uint16) {
	d.t.Helper()
	if err := pty.Setsize(d.keys, &pty.Winsize{Rows: rows, Cols: cols}); err != nil {
		d.t.Fatal(err)
	}
}

func (d *ttySession) typeText(text string) {
	d.t.Helper()
	if _, err := d.keys.WriteString(text); err != nil {
		d.t.Fatal(err)
	}
}

// expectExit waits for the exit and checks that the terminal's mode is restored.
func (d *ttySession) expectExit(status int) {
	d.t.Helper()
	if got := <-d.ended; got != status {
		d.t.Errorf("the status is %d, want %d; the screen shows %q", got, status, d.shows)
	}
	after, err := term.GetState(int(d.tty.Fd()))
	if err != nil || !reflect.DeepEqual(d.before, after) {
		d.t.Errorf("the terminal is not as it was: %v, %v, before %v", after, err, d.before)
	}
}

// TestExecOnATerminal checks that keys, including Ctrl-C, and window sizes reach the command.
func TestExecOnATerminal(t *testing.T) {
	c := newContainers()
	d := startOnTerminal(t, t.Context(), serveBackend(t, c), "exec", "train", "-it", "--", "sh")
	d.shows.await(t, "$ ")
	d.typeText("stty size\n")
	d.shows.await(t, "24 80\r\n")
	d.resize(30, 100)
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	d.typeText("while test \"$(stty size)\" != '30 100'; do :; done; sh -c 'echo sized; exec sleep 1000'\n")
	d.shows.await(t, "sized\r\n") // printed by a child process, which a key may end
	d.typeText("\x03")
	d.shows.await(t, "^C")
	d.typeText("echo code $?\n")
	d.shows.await(t, "code 130\r\n")
	d.typeText("exit 9\n")
	d.expectExit(9)
}

// enableHangup lets SIGHUP reach the commands even if the tests were started with it
// ignored, as under nohup.
func enableHangup(t *testing.T) {
	t.Helper()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
}

// TestTerminalIsRestored checks the terminal's mode after each kind of end.
func TestTerminalIsRestored(t *testing.T) {
	enableHangup(t)
	for name, end := range map[string]func(interrupt func()){
		"an interrupt":            func(interrupt func()) { interrupt() },
		"the end of the terminal": func(func()) { _ = syscall.Kill(os.Getpid(), syscall.SIGHUP) },
		"a signal to the client":  func(func()) { _ = syscall.Kill(os.Getpid(), syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			d := startOnTerminal(t, ctx, serveBackend(t, newContainers()), "exec", "-it", "train", "sh")
			d.shows.await(t, "$ ")
			end(cancel)
			d.expectExit(130)
		})
	}
	t.Run("the scheduler goes", func(t *testing.T) {
		gone := failingContainers{newContainers()}
		d := startOnTerminal(t, t.Context(), serveBackend(t, gone), "exec", "-it", "train", "sh")
		d.expectExit(1)
		d.shows.await(t, "mesos-gpu: its agent is away\r\n")
	})
}

// failingContainers is a cluster whose containers are lost.
type failingContainers struct{ fakeContainers }

func (failingContainers) Exec(context.Context, string, int, api.ExecRequest, api.Terminal) (int, error) {
	return 0, api.NewProblemf(502, "its agent is away")
}

// TestExecWithOutputTerminal checks that a terminal without input has a window size.
func TestExecWithOutputTerminal(t *testing.T) {
	d := startOnTerminal(t, t.Context(), serveBackend(t, newContainers()), "exec", "-t", "train", "stty", "size")
	d.expectExit(0)
	d.shows.await(t, "24 80\r")
}

// TestShell checks that shell starts the best shell and returns its exit status, even if
// the last command in it was not found.
func TestShell(t *testing.T) {
	c := newContainers()
	d := startOnTerminal(t, t.Context(), serveBackend(t, c), "shell", "train")
	d.typeText("exit 127\n")
	d.expectExit(127)
	if got, want := <-c.ran, "train@1.0 sh -c "; !strings.HasPrefix(got, want) {
		t.Errorf("ran %s, want %s…", got, want)
	}
	commandAt(t, serveBackend(t, newContainers()), "shell", "train").expect(t, "",
		"shell needs a terminal, and standard input is not one: pass commands by mesos-gpu exec -i train -- sh", 2)
}

// TestExecCompletion checks that running jobs are completed, with a task number if a job has
// several tasks.
func TestExecCompletion(t *testing.T) {
	address := serveBackend(t, newContainers())
	for line, want := range map[string]string{
		"exec _":        "train v1.2.0 v1.2.2",
		"shell _":       "train v1.2.0 v1.2.2",
		"exec -it _":    "train v1.2.0 v1.2.2",
		"exec train _":  "",
		"shell train _": "",
	} {
		words := strings.Fields(line)
		words[len(words)-1] = ""
		if got := completionsOf(t, address, words...); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

// unstartableContainers is a cluster that starts no program, for the agent's reason.
type unstartableContainers struct {
	fakeContainers
	why string
}

func (u unstartableContainers) Exec(context.Context, string, int, api.ExecRequest, api.Terminal) (int, error) {
	return 0, api.NewProblemf(502,
		"task %q: agent http://10.0.0.7:5051/slave(1) does not run the command: 400 Bad Request: launch container 1.2.exec-3: %s",
		"train.0.1.x", u.why)
}

// A program that cannot be started is reported on one line, with the exit status that shells
// use. Other errors are unchanged.
func TestExecStartErrors(t *testing.T) {
	for why, want := range map[string]commandRun{
		"start nosuch: no such program in /usr/bin": {err: "mesos-gpu: exec \"nosuch\": there is no such program in the task's container\n",
			status: 127},
		`exec: "nosuch": executable file not found in $PATH: unknown`:      {err: "there is no such program in the task's container\n", status: 127},
		"start nosuch: fork/exec nosuch: no such file or directory":        {err: "there is no such program in the task's container\n", status: 127},
		"start nosuch: fork/exec nosuch: permission denied":                {err: "mesos-gpu: exec \"nosuch\": it may not be executed\n", status: 126},
		"start nosuch: fork/exec nosuch: exec format error":                {err: "it is not a program for the agent's processor", status: 126},
		"start nosuch: fork/exec /usr/bin/nosuch: is a directory":          {err: "mesos-gpu: exec \"nosuch\": it is a directory\n", status: 126},
		"dial unix /var/run/docker.sock: connect: permission denied":       {err: "does not run the command: 400 Bad Request", status: 1},
		"exec failed: chdir to cwd (/x): no such file or directory":        {err: "does not run the command: 400 Bad Request", status: 1},
		"start nosuch: fork/exec nosuch: resource temporarily unavailable": {err: "does not run the command: 400 Bad Request", status: 1},
	} {
		r := commandAt(t, serveBackend(t, unstartableContainers{newContainers(), why}), "exec", "train", "--", "nosuch")
		if r.status != want.status || !strings.Contains(r.err, want.err) || strings.Count(r.err, "\n") != 1 ||
			want.status > 1 && strings.Contains(r.err, "10.0.0.7") {
			t.Errorf("%s: status %d, %q, want %d, %q", why, r.status, r.err, want.status, want.err)
		}
	}
}

// The Mesos launcher exits with 1 and prints a line if it cannot start a program. A program that
// exits with 1 itself keeps its status.
func TestMesosLauncherExitStatus(t *testing.T) {
	for line, want := range map[string]int{
		"Failed to execute 'nosuch': No such file or directory": 127,
		"Failed to execute '/etc/passwd': Permission denied":    126,
		"my own: No such file or directory":                     1,
	} {
		address := serveBackend(t, newContainers())
		commandAt(t, address, "exec", "train", "--", "sh", "-c", `echo "$0" >&2; exit 1`, line).expect(t, "", line, want)
	}
}
