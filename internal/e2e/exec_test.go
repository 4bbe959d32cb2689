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
	"mesos-gpu/internal/testimage"
	"mesos-gpu/internal/testneeds"
	"mesos-gpu/job"
)

// beside runs commands in the container of a job's first task, over the API.
type beside struct {
	*cluster
	job, task string
	client    *client.Client
}

func (c *cluster) beside(t *testing.T, name string) beside {
	t.Helper()
	view := c.await(name, func(v *api.JobView) bool { return v.Tasks[0].State == job.Running })
	requester, err := client.New(c.api)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(requester.Close)
	return beside{c, name, view.Tasks[0].ID, requester}
}

func (b beside) exec(ctx context.Context, r api.ExecRequest, to api.Terminal) (int, error) {
	return b.client.Exec(ctx, b.job, 0, r, to)
}

// run runs a command to its end, without a terminal.
func (b beside) run(t *testing.T, stdin io.Reader, argv ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	code, err := b.exec(ctx, api.ExecRequest{Argv: argv}, api.Terminal{Stdin: stdin, Stdout: &out, Stderr: &errs})
	if err != nil {
		t.Fatalf("%q: %v\n%s%s", argv, err, &out, &errs)
	}
	return result{out.String(), errs.String(), code}
}

// screen is a command on a terminal.
type screen struct {
	*lines
	typed  io.Writer
	resize chan api.WindowSize
	ended  chan struct{}
	code   int
	err    error
}

func (b beside) terminal(ctx context.Context, t *testing.T, argv ...string) *screen {
	t.Helper()
	in, typed := io.Pipe()
	t.Cleanup(func() { _ = typed.Close() })
	s := &screen{lines: newLines(), typed: typed, resize: make(chan api.WindowSize), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		s.code, s.err = b.exec(ctx, api.ExecRequest{Argv: argv, TTY: true, Rows: 33, Cols: 44}, api.Terminal{Stdin: in, Stdout: s.lines, Stderr: s.lines, Resize: s.resize})
	}()
	return s
}

// shows waits for a line.
func (s *screen) shows(t *testing.T, pattern string) {
	t.Helper()
	defer func() {
		select {
		case <-s.ended:
			t.Logf("the command ended with %d, %v", s.code, s.err)
		default:
		}
	}()
	s.await(t, s.ended, regexp.MustCompile(pattern))
}

// hosting is a task that commands run beside. At its end it says what it can
// open itself.
const hosting = `name: NAME
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

func (c *cluster) host(t *testing.T, containerizer, image string) beside {
	t.Helper()
	name := "hosting-" + containerizer
	if image != "" {
		name, image = name+"-image", "image: "+image
	}
	text := strings.NewReplacer("NAME", name, "IMAGE", image, "CONTAINERIZER", containerizer, "INSIDE", strings.ReplaceAll(inside, "\n", "\n  ")).Replace(hosting)
	c.must("submit", write(t, name, text))
	return c.beside(t, name)
}

// commandsBeside is what commands beside a task owe their users.
func commandsBeside(t *testing.T, b beside) {
	t.Helper()
	r := b.run(t, nil, "sh", "-c", `echo "$GREETING from $MESOS_GPU_TASK_INDEX"; echo bad >&2; exit 7`)
	if r.code != 7 || r.out != "hello from 0\n" || r.err != "bad\n" {
		t.Errorf("status %d, %q and %q; want 7, hello from 0 and bad", r.code, r.out, r.err)
	}
	if r := b.run(t, nil, "sh", "-c", "kill -KILL $$"); r.code != 137 {
		t.Errorf("status %d of a killed command, want 137", r.code)
	}
	if r := b.run(t, nil, "cat"); r.code != 0 || r.out != "" {
		t.Errorf("without input: status %d, %q; want nothing", r.code, r.out)
	}
	text := strings.Repeat("all of what is piped arrives\n", 10_000)
	if r := b.run(t, strings.NewReader(text), "cat"); r.code != 0 || r.out != text {
		t.Errorf("of %d bytes through cat %d came back, status %d", len(text), len(r.out), r.code)
	}
	if r := b.run(t, nil, "sh", "-c", inside); len(enxio.FindAllString(r.out, -1)) != 1 || len(eperm.FindAllString(r.out, -1)) != 3 {
		t.Errorf("the command opens other devices than the task's one:\n%s%s", r.out, r.err)
	}
	onTerminal(t, b)
	endsWithItsSession(t, b)
	onCommandLine(t, b)
	b.run(t, nil, "sh", "-c", `: > "$MESOS_SANDBOX/seen"`)
	b.awaitEnd(b.job)
	out := b.must("logs", b.task)
	if len(enxio.FindAllString(out, -1)) != 1 || len(eperm.FindAllString(out, -1)) != 3 {
		t.Errorf("after all that the task opens other devices than its own:\n%s", out)
	}
	if _, err := b.exec(t.Context(), api.ExecRequest{Argv: []string{"true"}}, api.Terminal{Stdout: io.Discard, Stderr: io.Discard}); err == nil {
		t.Error("a command ran beside a task that has ended")
	}
}

// onCommandLine: exec exits with the command's status, and says what to type
// where there is no terminal.
func onCommandLine(t *testing.T, b beside) {
	t.Helper()
	if r := b.do("exec", b.job, "--", "sh", "-c", `echo "$GREETING"; echo bad >&2; exit 9`); r.code != 9 || r.out != "hello\n" || r.err != "bad\n" {
		t.Errorf("exec: status %d, %q and %q; want 9, hello and bad", r.code, r.out, r.err)
	}
	if r := b.do("exec", "-it", b.job, "--", "true"); r.code != 2 || !strings.Contains(r.err, "terminal") {
		t.Errorf("exec -it without a terminal: status %d, %s", r.code, r.err)
	}
}

// A terminal has its size, follows it, and ^C is the command's.
func onTerminal(t *testing.T, b beside) {
	t.Helper()
	s := b.terminal(t.Context(), t, "sh", "-c", `trap 'echo caught; exit 6' INT; while :; do echo "size $(stty size)"; sleep 0.1; done`)
	s.shows(t, `^size 33 44`)
	s.resize <- api.WindowSize{Rows: 55, Cols: 66}
	s.shows(t, `^size 55 66`)
	if _, err := s.typed.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	<-s.ended
	if s.err != nil || s.code != 6 || !strings.Contains(s.String(), "caught") {
		t.Errorf("after ^C: status %d, %v; want 6\n%s", s.code, s.err, s)
	}
}

// Who leaves ends the command, however deaf, and what it has started.
func endsWithItsSession(t *testing.T, b beside) {
	t.Helper()
	for i, terminal := range []bool{false, true} {
		mark := fmt.Sprintf("%d%09d", i+1, time.Now().UnixNano()%1e9)
		ctx, leave := context.WithCancel(t.Context())
		argv := []string{"sh", "-c", `trap '' HUP TERM INT; setsid sleep ` + mark + ` & sleep ` + mark + ` & echo ready; while :; do sleep 1; done`}
		var s *screen
		if terminal {
			s = b.terminal(ctx, t, argv...)
		} else {
			s = &screen{lines: newLines(), ended: make(chan struct{})}
			go func() {
				defer close(s.ended)
				_, s.err = b.exec(ctx, api.ExecRequest{Argv: argv}, api.Terminal{Stdout: s.lines, Stderr: s.lines})
			}()
		}
		s.shows(t, `^ready`)
		if n := sleeping(t, mark); n < 2 {
			t.Errorf("terminal: %t: %d processes run, want 2 or more", terminal, n)
		}
		leave()
		<-s.ended
		awaitNone(t, mark)
	}
}

// sleeping counts the processes that have the mark in their command lines.
func sleeping(t *testing.T, mark string) (n int) {
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

// awaitNone polls for the end of processes with other parents, which sends no
// notification.
func awaitNone(t *testing.T, mark string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		n := sleeping(t, mark)
		if n == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d processes of the command run %s after its session", n, patience)
		}
	}
}

func TestCommandsBesideTasks(t *testing.T) {
	testneeds.RequireRoot(t)
	testneeds.RequireProgram(t, "runc", "runc")
	docker := testneeds.RequireDockerEngine(t)
	archive := testimage.BusyboxArchive(t, "mesos-gpu-e2e-exec", nil, nil)
	image := testimage.LoadImage(t, docker, archive)
	c := start(t, "--images", filepath.Dir(archive))
	for _, containerizer := range []string{"docker", "mesos"} {
		t.Run(containerizer, func(t *testing.T) { commandsBeside(t, c.host(t, containerizer, image)) })
	}
}
