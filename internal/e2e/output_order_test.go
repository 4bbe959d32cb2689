package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/job"
)

// runTogether runs a client command with one pipe for standard output and standard error.
func (c *cluster) runTogether(args ...string) string {
	c.t.Helper()
	var both bytes.Buffer
	command := exec.CommandContext(c.t.Context(), buildReleased(c.t), args...)
	command.Env = append(os.Environ(), "MESOS_GPU_API="+c.api)
	command.Stdout, command.Stderr = &both, &both
	if err := command.Run(); err != nil {
		c.t.Errorf("mesos-gpu %s: %v\n%s", strings.Join(args, " "), err, &both)
	}
	return dropLauncherLines(both.String())
}

// dropLauncherLines removes what Mesos's launcher writes to standard error before it starts the task.
func dropLauncherLines(output string) string {
	return regexp.MustCompile(`(?m)^.*Marked '/' as rslave\n`).ReplaceAllString(output, "")
}

// checkOutputOrder checks that lines of both streams are printed in the order in which the
// task wrote them, with the times of the writes.
func checkOutputOrder(t *testing.T, c *cluster) {
	t.Helper()
	const script = `for i in 1 2 3 4; do echo out $i; sleep 0.1; echo error $i >&2; sleep 0.1; done`
	want := ""
	for i := 1; i <= 4; i++ {
		want += fmt.Sprintf("out %d\nerror %d\n", i, i)
	}
	if got := c.runTogether("run", "--name", "order", "--cpus", "0.1", "--mem", "256MiB", "--", "sh", "-c", script); got != want {
		t.Errorf("run prints\n%swant\n%s", got, want)
	}
	if got := c.runTogether("logs", "order"); got != want {
		t.Errorf("logs prints\n%swant\n%s", got, want)
	}
	if got := c.runTogether("logs", "-n", "3", "order"); got != "error 3\nout 4\nerror 4\n" {
		t.Errorf("the last 3 lines are\n%s", got)
	}
	if got := c.runTogether("logs", "--stderr", "-f", "order"); got != "error 1\nerror 2\nerror 3\nerror 4\n" {
		t.Errorf("standard error is\n%s", got)
	}
	var before time.Time
	for line := range strings.Lines(c.runTogether("logs", "--timestamps", "order")) {
		at, text, _ := strings.Cut(line, " ")
		written, err := time.Parse(time.RFC3339Nano, at)
		if err != nil || !regexp.MustCompile(`^(out|error) [1-4]\n$`).MatchString(text) || !before.IsZero() && written.Sub(before) < 50*time.Millisecond {
			t.Errorf("after %v comes %q: %v", before, line, err)
		}
		before = written
	}
	view := c.awaitJob("order", func(v *api.JobView) bool { return v.Terminal })
	if state := view.Tasks[0].State; state != job.Finished {
		t.Fatalf("the task is %s", state)
	}
	requester, err := client.New(c.api)
	if err != nil {
		t.Fatal(err)
	}
	var times []time.Time
	for part, err := range requester.ReadTaskOutput(t.Context(), view.Tasks[0].ID, client.OutputOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if regexp.MustCompile(`^(out|error) `).MatchString(part.Text) {
			times = append(times, part.Time)
		}
	}
	if len(times) != 8 {
		t.Fatalf("the task wrote %d parts", len(times))
	}
	late := ""
	for part, err := range requester.ReadTaskOutput(t.Context(), view.Tasks[0].ID, client.OutputOptions{Since: times[5]}) {
		if err != nil {
			t.Fatal(err)
		}
		late += part.Text
	}
	if late != "error 3\nout 4\nerror 4\n" {
		t.Errorf("since the 6th write come\n%s", late)
	}
}

// TestOutputOrder checks the order of output on the embedded cluster.
func TestOutputOrder(t *testing.T) {
	t.Parallel()
	checkOutputOrder(t, startCluster(t))
}
