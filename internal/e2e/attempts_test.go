package e2e

import (
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestAttemptsLogsAndInterrupts checks the commands that show earlier attempts and logs, and
// how run reacts to interrupts.
func TestAttemptsLogsAndInterrupts(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "--gpus", "2xV100")

	t.Run("describe and logs show each attempt of a task", func(t *testing.T) {
		c.mustRun("submit", "-f", writeJobFile(t, "flaky", "name: flaky\nretries: 1\ncommand: echo once; echo twice; exit 3\n"))
		if r := c.run("wait", "flaky"); r.code != 3 || r.out != "job flaky FAILED\n" {
			t.Errorf("got %+v", r)
		}
		out := c.mustRun("describe", "flaky")
		first := regexp.MustCompile(`(?m)^EARLIER ATTEMPT .*\n(flaky\.0\.1\.\S+) +FAILED .* 3 `).FindStringSubmatch(out)
		if first == nil {
			t.Fatalf("describe does not show the first attempt:\n%s", out)
		}
		for _, name := range []string{first[1], "flaky.0", "flaky"} {
			if got := c.mustRun("logs", name, "--tail", "1"); got != "twice\n" {
				t.Errorf("logs %s: got %q", name, got)
			}
		}
	})

	t.Run("logs prints the output of all tasks of a job", func(t *testing.T) {
		c.mustRun("run", "-d", "--name", "two", "--tasks", "2", "--cpus", "0.05", "--", "sh", "-c", "echo I am $MESOS_GPU_TASK_INDEX; exec sleep 1000")
		if r := c.run("wait", "--for", "running", "two", "--timeout", "60s"); r.code != 0 {
			t.Fatalf("got %+v", r)
		}
		follow := exec.CommandContext(t.Context(), binary, "--api", c.api, "logs", "-f", "two")
		output, ended := newOutputBuffer(), make(chan struct{})
		follow.Stdout, follow.Stderr = output, output
		if err := follow.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { defer close(ended); _ = follow.Wait() }()
		output.awaitLine(t, ended, regexp.MustCompile(`^two\.0 \| I am 0$`))
		output.awaitLine(t, ended, regexp.MustCompile(`^two\.1 \| I am 1$`))
		c.mustRun("kill", "two")
		<-ended
		if code := follow.ProcessState.ExitCode(); code != 0 {
			t.Errorf("logs ended with %d:\n%s", code, output)
		}
		if out := c.mustRun("ps", "--no-headers"); strings.Contains(out, "two") {
			t.Errorf("ps still lists it:\n%s", out)
		}
	})

	t.Run("run exits immediately after a second interrupt", func(t *testing.T) {
		run := exec.CommandContext(t.Context(), binary, "--api", c.api, "run", "--name", "deaf", "--", "sh", "-c",
			`trap "echo no" TERM; echo up; while :; do sleep 0.1; done`)
		output, ended := newOutputBuffer(), make(chan struct{})
		run.Stdout, run.Stderr = output, output
		if err := run.Start(); err != nil {
			t.Fatal(err)
		}
		go func() { defer close(ended); _ = run.Wait() }()
		output.awaitLine(t, ended, regexp.MustCompile(`^up$`))
		interrupt := func() {
			if err := run.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
		interrupt()
		output.awaitLine(t, ended, regexp.MustCompile("interrupt again to wait no longer"))
		interrupt()
		<-ended
		if !strings.HasSuffix(output.String(), "interrupted again; job deaf is being killed\n") {
			t.Errorf("output of run:\n%s", output)
		}
		c.awaitJobEnd("deaf")
	})
}
