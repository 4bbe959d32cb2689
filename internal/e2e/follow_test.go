package e2e

import (
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestFollowingJobs: what people type to see what their jobs do, on a cluster
// that does it.
func TestFollowingJobs(t *testing.T) {
	c := start(t, "--gpus", "2xV100")

	t.Run("each attempt of a task is shown, and its log", func(t *testing.T) {
		c.must("submit", "-f", write(t, "flaky", "name: flaky\nretries: 1\ncommand: echo once; echo twice; exit 3\n"))
		if r := c.do("wait", "flaky"); r.code != 3 || r.out != "job flaky FAILED\n" {
			t.Errorf("got %+v", r)
		}
		out := c.must("describe", "flaky")
		first := regexp.MustCompile(`(?m)^EARLIER ATTEMPT .*\n(flaky\.0\.1\.\S+) +FAILED .* 3 `).FindStringSubmatch(out)
		if first == nil {
			t.Fatalf("the first attempt is not there:\n%s", out)
		}
		for _, name := range []string{first[1], "flaky.0", "flaky"} {
			if got := c.must("logs", name, "--tail", "1"); got != "twice\n" {
				t.Errorf("logs %s: got %q", name, got)
			}
		}
	})

	t.Run("a job's log has all of its tasks", func(t *testing.T) {
		c.must("run", "-d", "--name", "two", "--tasks", "2", "--cpus", "0.05", "--", "sh", "-c", "echo I am $MESOS_GPU_TASK_INDEX; exec sleep 1000")
		if r := c.do("wait", "--for", "running", "two", "--timeout", "60s"); r.code != 0 {
			t.Fatalf("got %+v", r)
		}
		follow := exec.CommandContext(t.Context(), binary, "--api", c.api, "logs", "-f", "two")
		output, ended := newLines(), make(chan struct{})
		follow.Stdout, follow.Stderr = output, output
		if err := follow.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { defer close(ended); _ = follow.Wait() }()
		output.await(t, ended, regexp.MustCompile(`^0 \| I am 0$`))
		output.await(t, ended, regexp.MustCompile(`^1 \| I am 1$`))
		c.must("kill", "two")
		<-ended
		if code := follow.ProcessState.ExitCode(); code != 0 {
			t.Errorf("logs ended with %d:\n%s", code, output)
		}
		if out := c.must("ps", "--no-headers"); strings.Contains(out, "two") {
			t.Errorf("ps still lists it:\n%s", out)
		}
	})

	t.Run("a second interrupt waits for nothing", func(t *testing.T) {
		run := exec.CommandContext(t.Context(), binary, "--api", c.api, "run", "--name", "deaf", "--", "sh", "-c", `trap "echo no" TERM; echo up; while :; do sleep 0.1; done`)
		output, ended := newLines(), make(chan struct{})
		run.Stdout, run.Stderr = output, output
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { defer close(ended); _ = run.Wait() }()
		output.await(t, ended, regexp.MustCompile(`^up$`))
		interrupt := func() {
			if err := run.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
		interrupt()
		output.await(t, ended, regexp.MustCompile("interrupt again to wait no longer"))
		interrupt()
		<-ended
		if !strings.HasSuffix(output.String(), "interrupted again; job deaf is being killed\n") {
			t.Errorf("run said:\n%s", output)
		}
		c.awaitEnd("deaf")
	})
}
