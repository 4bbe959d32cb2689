package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// taskExec runs commands in the container of a job's first task through the API.
type taskExec struct {
	*cluster
	job, task string
	client    *client.Client
}

func (c *cluster) newTaskExec(t *testing.T, name string) taskExec {
	t.Helper()
	view := c.awaitJob(name, func(v *api.JobView) bool { return v.Tasks[0].State == job.Running })
	requester, err := client.New(c.api)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(requester.Close)
	return taskExec{c, name, view.Tasks[0].ID, requester}
}

func (b taskExec) exec(ctx context.Context, r api.ExecRequest, to api.Terminal) (int, error) {
	return b.client.Exec(ctx, b.job, 0, r, to)
}

// runInTask runs a command without a terminal until it ends.
func (b taskExec) runInTask(t *testing.T, stdin io.Reader, argv ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	code, err := b.exec(ctx, api.ExecRequest{Argv: argv}, api.Terminal{Stdin: stdin, Stdout: &out, Stderr: &errs})
	if err != nil {
		t.Fatalf("%q: %v\n%s%s", argv, err, &out, &errs)
	}
	return result{out.String(), errs.String(), code}
}

// terminalSession is a command that runs on a terminal.
type terminalSession struct {
	*outputBuffer
	typed  io.Writer
	resize chan api.WindowSize
	ended  chan struct{}
	code   int
	err    error
}

func (b taskExec) startTerminal(ctx context.Context, t *testing.T, argv ...string) *terminalSession {
	t.Helper()
	in, typed := io.Pipe()
	t.Cleanup(func() { _ = typed.Close() })
	s := &terminalSession{outputBuffer: newOutputBuffer(), typed: typed, resize: make(chan api.WindowSize), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		s.code, s.err = b.exec(ctx, api.ExecRequest{Argv: argv, TTY: true, Rows: 33, Cols: 44}, api.Terminal{
			Stdin:  in,
			Stdout: s.outputBuffer,
			Stderr: s.outputBuffer,
			Resize: s.resize,
		})
	}()
	return s
}

// awaitOutput waits for a line that matches the pattern.
func (s *terminalSession) awaitOutput(t *testing.T, pattern string) {
	t.Helper()
	defer func() {
		select {
		case <-s.ended:
			t.Logf("the command ended with %d, %v", s.code, s.err)
		default:
		}
	}()
	s.awaitLine(t, s.ended, regexp.MustCompile(pattern))
}

// hostJobFile is a job in whose task commands run. Before it ends, it prints which devices it
// can open itself.
const hostJobFile = `name: NAME
IMAGE
container: CONTAINERIZER
cpus: 0.2
mem: 256MiB
gpus: 1
env: {GREETING: "hello"}
command: |
  echo up
  until [ -e "$MESOS_SANDBOX/seen" ]; do sleep 0.1; done
  INSIDE
`

func (c *cluster) startHostJob(t *testing.T, containerizer, image string) taskExec {
	t.Helper()
	name := "hosting-" + containerizer
	if image != "" {
		name, image = name+"-image", "image: "+image
	}
	text := strings.NewReplacer("NAME", name, "IMAGE", image, "CONTAINERIZER", containerizer, "INSIDE", strings.ReplaceAll(deviceReportScript,
		"\n", "\n  ")).Replace(hostJobFile)
	c.mustRun("submit", writeJobFile(t, name, text))
	return c.newTaskExec(t, name)
}

// checkExec checks the commands that run in a task: status, output, input, environment, device
// access, terminals and the end of a session.
func checkExec(t *testing.T, b taskExec) {
	t.Helper()
	r := b.runInTask(t, nil, "sh", "-c", `echo "$GREETING from $MESOS_GPU_TASK_INDEX"; echo bad >&2; exit 7`)
	if r.code != 7 || r.out != "hello from 0\n" || r.err != "bad\n" {
		t.Errorf("status %d, %q and %q; want 7, hello from 0 and bad", r.code, r.out, r.err)
	}
	if r := b.runInTask(t, nil, "sh", "-c", "kill -KILL $$"); r.code != 137 {
		t.Errorf("status %d of a killed command, want 137", r.code)
	}
	if r := b.runInTask(t, nil, "cat"); r.code != 0 || r.out != "" {
		t.Errorf("without input: status %d, %q; want nothing", r.code, r.out)
	}
	text := strings.Repeat("all of what is piped arrives\n", 10_000)
	if r := b.runInTask(t, strings.NewReader(text), "cat"); r.code != 0 || r.out != text {
		t.Errorf("of %d bytes through cat %d came back, status %d", len(text), len(r.out), r.code)
	}
	if r := b.runInTask(t, nil, "sh", "-c", deviceReportScript); len(openedDevice.FindAllString(r.out, -1)) != 1 ||
		len(deniedDevice.FindAllString(r.out, -1)) != 3 {
		t.Errorf("the command can open other devices than the task's GPU:\n%s%s", r.out, r.err)
	}
	checkTerminal(t, b)
	checkCommandEndsWithSession(t, b)
	checkExecCommand(t, b)
	b.runInTask(t, nil, "sh", "-c", `: > "$MESOS_SANDBOX/seen"`)
	b.awaitJobEnd(b.job)
	out := b.mustRun("logs", b.task)
	if len(openedDevice.FindAllString(out, -1)) != 1 || len(deniedDevice.FindAllString(out, -1)) != 3 {
		t.Errorf("after the commands the task can open other devices than its own:\n%s", out)
	}
	if _, err := b.exec(t.Context(), api.ExecRequest{Argv: []string{"true"}}, api.Terminal{Stdout: io.Discard, Stderr: io.Discard}); err == nil {
		t.Error("a command ran for a task that has ended")
	}
}

// checkExecCommand checks that exec exits with the command's status, and that -it without a
// terminal is rejected.
func checkExecCommand(t *testing.T, b taskExec) {
	t.Helper()
	if r := b.run("exec", b.job, "--", "sh", "-c", `echo "$GREETING"; echo bad >&2; exit 9`); r.code != 9 || r.out != "hello\n" || r.err != "bad\n" {
		t.Errorf("exec: status %d, %q and %q; want 9, hello and bad", r.code, r.out, r.err)
	}
	if r := b.run("exec", "-it", b.job, "--", "true"); r.code != 2 || !strings.Contains(r.err, "terminal") {
		t.Errorf("exec -it without a terminal: status %d, %s", r.code, r.err)
	}
}

// checkTerminal checks that the terminal has the requested size, is resized, and that ^C
// reaches the command.
func checkTerminal(t *testing.T, b taskExec) {
	t.Helper()
	s := b.startTerminal(t.Context(), t, "sh", "-c", `trap 'echo caught; exit 6' INT; while :; do echo "size $(stty size)"; sleep 0.1; done`)
	s.awaitOutput(t, `^size 33 44`)
	s.resize <- api.WindowSize{Rows: 55, Cols: 66}
	s.awaitOutput(t, `^size 55 66`)
	if _, err := s.typed.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	<-s.ended
	if s.err != nil || s.code != 6 || !strings.Contains(s.String(), "caught") {
		t.Errorf("after ^C: status %d, %v; want 6\n%s", s.code, s.err, s)
	}
}

// checkCommandEndsWithSession checks that a command and its child processes end when the
// client disconnects, even if they ignore signals.
func checkCommandEndsWithSession(t *testing.T, b taskExec) {
	t.Helper()
	for i, terminal := range []bool{false, true} {
		mark := fmt.Sprintf("%d%09d", i+1, time.Now().UnixNano()%1e9)
		ctx, leave := context.WithCancel(t.Context())
		argv := []string{"sh", "-c", `trap '' HUP TERM INT; setsid sleep ` + mark + ` & sleep ` + mark + ` & echo ready; while :; do sleep 1; done`}
		var s *terminalSession
		if terminal {
			s = b.startTerminal(ctx, t, argv...)
		} else {
			s = &terminalSession{outputBuffer: newOutputBuffer(), ended: make(chan struct{})}
			go func() {
				defer close(s.ended)
				_, s.err = b.exec(ctx, api.ExecRequest{Argv: argv}, api.Terminal{Stdout: s.outputBuffer, Stderr: s.outputBuffer})
			}()
		}
		s.awaitOutput(t, `^ready`)
		if n := countProcesses(t, mark); n < 2 {
			t.Errorf("terminal: %t: %d processes run, want 2 or more", terminal, n)
		}
		leave()
		<-s.ended
		awaitNoProcess(t, mark)
	}
}

// countProcesses counts the processes that have the mark in their command lines.
func countProcesses(t *testing.T, mark string) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && bytes.Contains(text, []byte(mark)) {
			n++
		}
	}
	return n
}

// awaitNoProcess polls until no process has the mark. The processes have other parents, so the
// test gets no notification of their end.
func awaitNoProcess(t *testing.T, mark string) {
	t.Helper()
	for deadline := time.Now().Add(waitTimeout); ; time.Sleep(50 * time.Millisecond) {
		n := countProcesses(t, mark)
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d processes of the command still run %s after the session", n, waitTimeout)
		}
	}
}

func TestExecInRunningTasks(t *testing.T) {
	t.Parallel()
	testneeds.RequireRoot(t)
	testneeds.RequireProgram(t, "runc", "runc")
	docker := testneeds.RequireDockerEngine(t)
	archive := testimage.BusyboxArchive(t, "mesos-gpu-e2e-exec", nil, nil)
	image := testimage.LoadImage(t, docker, archive)
	c := startCluster(t, "--images", filepath.Dir(archive))
	for _, containerizer := range []string{"docker", "mesos"} {
		t.Run(containerizer, func(t *testing.T) { checkExec(t, c.startHostJob(t, containerizer, image)) })
	}
}
