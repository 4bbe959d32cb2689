package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/creack/pty"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/job"
)

// pipeInto runs a client command whose standard input is a pipe with the text.
func (c *cluster) pipeInto(text string, args ...string) result {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), waitTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(text), &out, &errs
	cmd.Env = append(os.Environ(), "MESOS_GPU_API="+c.api)
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) || ctx.Err() != nil {
		c.t.Fatalf("mesos-gpu %s: %v\n%s%s", strings.Join(args, " "), err, &out, &errs)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// runningCommand is a client command on a terminal.
type runningCommand struct {
	*outputBuffer
	t     *testing.T
	cmd   *exec.Cmd
	keys  *os.File
	ended chan struct{}
}

// startOnTerminal starts a client command on a terminal of 24 rows and 80 columns.
func (c *cluster) startOnTerminal(t *testing.T, args ...string) *runningCommand {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), "MESOS_GPU_API="+c.api)
	keys, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	r := &runningCommand{newOutputBuffer(), t, cmd, keys, make(chan struct{})}
	go func() {
		defer close(r.ended)
		_, _ = io.Copy(r, keys) // a terminal ends with an error
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-r.ended
		keys.Close()
	})
	return r
}

func (r *runningCommand) typeText(text string) {
	r.t.Helper()
	if _, err := r.keys.WriteString(text); err != nil {
		r.t.Fatal(err)
	}
}

// interactiveFlags are flags of run for a small task in a container.
func interactiveFlags(name, containerizer, image string) []string {
	flags := []string{"run", "--name", name, "--gpus", "1", "--cpus", "0.2", "--mem", "256MiB", "--container", containerizer}
	if image != "" {
		flags = append(flags, "--image", image)
	}
	return flags
}

// checkInteractive checks standard input and terminals of run, and that a job ends with its
// client.
func checkInteractive(t *testing.T, c *cluster, containerizer, image string) {
	t.Helper()
	c = &cluster{t: t, api: c.api}
	prefix := "it-" + containerizer
	if image != "" {
		prefix += "-image"
	}
	run := func(name string, more ...string) []string {
		return append(interactiveFlags(prefix+name, containerizer, image), more...)
	}
	text := strings.Repeat("all of what is piped arrives\n", 10_000)
	if r := c.pipeInto(text, run("-cat", "-i", "--", "cat")...); r.code != 0 || r.out != text {
		t.Errorf("of %d bytes %d came back, status %d: %s", len(text), len(r.out), r.code, r.err)
	}
	if r := c.pipeInto("one\ntwo\n", run("-head", "-i", "--", "sh", "-c", "read a; echo got $a; exit 5")...); r.code != 5 || r.out != "got one\n" {
		t.Errorf("status %d, out %q, err %q; want 5 and the first line", r.code, r.out, r.err)
	}
	if r := c.pipeInto("", run("-missing", "-i", "--", "nosuchprogram")...); r.code != 127 {
		t.Errorf("status %d of a missing program, want 127: %s", r.code, r.err)
	}
	checkUnstartedPrograms(t, c, run)
	checkRunOnTerminal(t, c, run)
	checkLostTerminal(t, c, run)
	checkLostInput(t, c, run)
}

// checkUnstartedPrograms checks the exit codes of run and exec for programs that cannot be
// started.
func checkUnstartedPrograms(t *testing.T, c *cluster, run func(string, ...string) []string) {
	t.Helper()
	for program, want := range map[string]int{"nosuchprogram": 127, "/etc": 126} {
		name := "-run" + strings.Trim(program, "/")
		if r := c.run(run(name, "--", program)...); r.code != want || !strings.Contains(r.err, program+": ") {
			t.Errorf("run of %s: status %d, want %d: %s", program, r.code, want, r.err)
		}
	}
	c.mustRun(append(run("-host", "--detach", "--"), "sleep", "1000")...)
	name := run("-host")[2]
	c.awaitJob(name, func(v *api.JobView) bool { return v.Tasks[0].State == job.Running })
	for program, want := range map[string]int{"nosuchprogram": 127, "/etc": 126} {
		if r := c.run("exec", name, "--", program); r.code != want {
			t.Errorf("exec of %s: status %d, want %d: %s", program, r.code, want, r.err)
		}
	}
	c.mustRun("kill", "--force", name)
}

// checkRunOnTerminal checks the terminal's size, keys and the exit code of run -it.
func checkRunOnTerminal(t *testing.T, c *cluster, run func(string, ...string) []string) {
	t.Helper()
	r := c.startOnTerminal(t, run("-tty", "-it", "--workdir", "testdata", "--", "sh", "-c",
		`ls web_server.py || exit 9; trap 'echo caught; exit 6' INT; while :; do echo "size $(stty size)"; sleep 0.1; done`)...)
	r.await(`^size 24 80`)
	if err := pty.Setsize(r.keys, &pty.Winsize{Rows: 33, Cols: 44}); err != nil {
		t.Fatal(err)
	}
	r.await(`^size 33 44`)
	r.typeText("\x03")
	<-r.ended
	if code := r.cmd.ProcessState.ExitCode(); code != 6 || !strings.Contains(r.String(), "caught") {
		t.Errorf("after ^C: status %d, want 6:\n%s", code, r)
	}
	name := run("-tty")[2]
	view := c.awaitJob(name, func(v *api.JobView) bool { return v.Terminal })
	if view.State != job.Failed || view.ExitCode == nil || *view.ExitCode != 6 {
		t.Errorf("job %s is %s with %v, want FAILED with 6", name, view.State, view.ExitCode)
	}
}

// checkLostTerminal checks that a job ends if run -it is killed.
func checkLostTerminal(t *testing.T, c *cluster, run func(string, ...string) []string) {
	t.Helper()
	r := c.startOnTerminal(t, run("-lost", "-it", "--", "sh", "-c", "echo ready; sleep 1000")...)
	r.await(`^ready`)
	if err := r.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	expectClientLost(t, c, run("-lost")[2])
}

// checkLostInput checks over the API that a job ends if the client disconnects before the end
// of its input, and that a second client cannot attach.
func checkLostInput(t *testing.T, c *cluster, run func(string, ...string) []string) {
	t.Helper()
	spec := job.Spec{Name: run("-feed")[2], Command: []string{"sh", "-c", "read a; echo got $a; cat; echo end of input"}, Stdin: true}
	flags := run("-feed")
	spec.Containerizer = job.Containerizer(flags[10])
	if len(flags) > 11 {
		spec.Image = flags[12]
	}
	spec.CPUs, spec.MemMiB = 0.2, 256
	requester, err := client.New(c.api)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(requester.Close)
	if err := spec.Complete(); err != nil {
		t.Fatal(err)
	}
	if _, err := requester.SubmitJob(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	view := c.awaitJob(spec.Name, func(v *api.JobView) bool { return v.Tasks[0].State == job.Running })
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	in, typed := io.Pipe()
	defer typed.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := requester.Attach(ctx, spec.Name, 0, api.WindowSize{}, api.Terminal{Stdin: in, Stdout: io.Discard, Stderr: io.Discard})
		ended <- err
	}()
	if _, err := io.WriteString(typed, "one\n"); err != nil {
		t.Fatal(err)
	}
	next, stop := iter.Pull2(requester.ReadTaskOutput(t.Context(), view.Tasks[0].ID, client.OutputOptions{Stream: "stdout", Follow: true}))
	defer stop()
	if first, err, _ := next(); err != nil || first.Text != "got one\n" {
		t.Fatalf("got %q, %v", first.Text, err)
	}
	if code, err := requester.Attach(t.Context(), spec.Name, 0, api.WindowSize{}, api.Terminal{Stdout: io.Discard, Stderr: io.Discard}); code != 1 || err != nil {
		t.Errorf("a second client attached: %d, %v; want 1", code, err)
	}
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the lost client got %v", err)
	}
	expectClientLost(t, c, spec.Name)
	for rest, err, ok := next(); ok; rest, err, ok = next() {
		if err != nil || strings.Contains(rest.Text, "end of input") {
			t.Errorf("the command took a lost client for the end of its input: %q, %v", rest.Text, err)
		}
	}
}

// expectClientLost waits for the end of a job whose client is lost.
func expectClientLost(t *testing.T, c *cluster, name string) {
	t.Helper()
	view := c.awaitJob(name, func(v *api.JobView) bool { return v.Terminal })
	if view.ExitCode == nil || *view.ExitCode != job.ExitClientLost {
		t.Errorf("job %s ended as %s, want status %d: %v", name, view.State, job.ExitClientLost, view.Tasks[0].Message)
	}
	if r := c.run("logs", "--stderr", name); !strings.Contains(r.out, "client") {
		t.Errorf("job %s does not print why it ended: %q", name, r.out)
	}
}

// TestInteractiveRuns checks run with standard input and terminals on the embedded agent.
func TestInteractiveRuns(t *testing.T) {
	t.Parallel()
	testneeds.RequireRoot(t)
	c := startCluster(t)
	checkInteractive(t, c, "mesos", "")
	if r := c.pipeInto("hello\n", "run", "--", "cat"); r.code != 0 || r.out != "hello\n" {
		t.Errorf("status %d, %q, %q; want hello", r.code, r.out, r.err)
	}
	if r := c.pipeInto("hello\n", "run", "--stdin=false", "--", "cat"); r.code != 0 || r.out != "" {
		t.Errorf("without input: status %d, %q, %q", r.code, r.out, r.err)
	}
	if r := c.run("run", "-it", "--", "true"); r.code != 2 || !strings.Contains(r.err, "terminal") {
		t.Errorf("-it without a terminal: status %d, %s", r.code, r.err)
	}
	if r := c.run("run", "-i", "--detach", "--", "cat"); r.code != 2 || !strings.Contains(r.err, "ends with its client") {
		t.Errorf("-i --detach: status %d, %s", r.code, r.err)
	}
}

// TestInteractiveRunsInImages checks the same in containers with an image.
func TestInteractiveRunsInImages(t *testing.T) {
	t.Parallel()
	testneeds.RequireRoot(t)
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-interactive", nil, nil))
	checkInteractive(t, startCluster(t), "docker", image)
}

// await waits for a line of the command's output.
func (r *runningCommand) await(pattern string) {
	r.t.Helper()
	r.awaitLine(r.t, r.ended, regexp.MustCompile(pattern))
}
