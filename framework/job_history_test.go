package framework

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/client"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// taskSuffix matches the part of a task id that differs each time.
var taskSuffix = regexp.MustCompile(`^([a-z]+\.\d+\.\d+)\..*$`)

// historyOf returns the events of a job, one a line: task, state, by whom and message.
func historyOf(t *testing.T, c *client.Client, name string, limit int) string {
	t.Helper()
	h, err := c.GetJobHistory(longTimeout(t), name, limit)
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for i, ev := range h.Events {
		if i > 0 && ev.Time.Before(h.Events[i-1].Time) {
			t.Errorf("event %d is older than the one before it", i)
		}
		if ev.Job != name || ev.Run != 1 {
			t.Errorf("event %+v of job %s", ev, name)
		}
		fmt.Fprintf(&lines, "%s %s by=%s %s\n", taskSuffix.ReplaceAllString(ev.Task, "$1"), ev.State, ev.By, ev.Message)
	}
	if h.Omitted > 0 {
		fmt.Fprintf(&lines, "%d omitted\n", h.Omitted)
	}
	return lines.String()
}

// The history of a job has who submitted, preempted and killed, and each attempt. It is the same
// after a failover.
func TestJobHistory(t *testing.T) {
	g := newGuardedConfig(t)
	c := mesostest.NewCluster(t, 1)
	cfg := SchedulerConfig{JournalPath: filepath.Join(t.TempDir(), "journal.db"), RolesFile: writeRolesFile(t, "research: {}\nprod: {}\n"), API: g.APIConfig}
	in := startInstance(t, c, cfg, client.WithTrustedCA(g.CAFile))
	ctx := longTimeout(t)
	alice, bob, ops := g.clientAs(t, "alice", in), g.clientAs(t, "bob", in), g.clientAs(t, "ops", in)
	awaitRunning := func(who *client.Client, task string) (id string) {
		t.Helper()
		name, _, _ := strings.Cut(task, ".")
		for ev, err := range who.FollowEvents(ctx, name) {
			if err != nil {
				t.Fatal(err)
			}
			if ev.State == job.Running && strings.HasPrefix(ev.Task, task) {
				return ev.Task
			}
		}
		t.Fatalf("task %s did not run", task)
		return ""
	}
	low := frameworktest.JobSpec("low", 1, 1)
	low.Preemptible, low.Retries = true, 1
	if _, err := alice.SubmitJob(ctx, low); err != nil {
		t.Fatal(err)
	}
	c.EndTask(awaitRunning(alice, "low.0.1"), mesos.TASK_FAILED, "exited with status 3", "3")
	c.SendOffer()
	awaitRunning(alice, "low.0.2")
	high := frameworktest.JobSpec("high", 1, 1)
	high.Priority = 1
	if _, err := bob.SubmitJob(ctx, high); err != nil {
		t.Fatal(err)
	}
	c.SendOffer()
	awaitRunning(bob, "high.0.1")
	if err := ops.ForceKillJob(ctx, "high"); err != nil {
		t.Fatal(err)
	}
	if _, err := bob.WaitForJob(ctx, "high"); err != nil {
		t.Fatal(err)
	}
	c.SendOffer()
	c.EndTask(awaitRunning(alice, "low.0.3"), mesos.TASK_FINISHED, "", "0")
	if _, err := alice.WaitForJob(ctx, "low"); err != nil {
		t.Fatal(err)
	}
	wantLow := ` WAITING by=alice submitted by alice
low.0.1 LAUNCHING by= attempt 1, on host-1
low.0.1 RUNNING by= 
low.0.1 FAILED by= exited with status 3
low.0.2 LAUNCHING by= attempt 2, on host-1
low.0.2 RUNNING by= 
low.0.2 KILLING by=high preempted by high
low.0.2 KILLED by= makes room for high
low.0.3 LAUNCHING by= attempt 3, on host-1
low.0.3 RUNNING by= 
low.0.3 FINISHED by= exited with status 0
`
	wantHigh := ` WAITING by=bob submitted by bob
high.0.1 LAUNCHING by= attempt 1, on host-1
high.0.1 RUNNING by= 
high.0.1 KILLING by=ops killed by ops, without grace
high.0.1 KILLED by= killed by signal 15 (SIGTERM)
`
	check := func() {
		t.Helper()
		if diff := cmp.Diff(wantLow, historyOf(t, ops, "low", 0)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(wantHigh, historyOf(t, ops, "high", 0)); diff != "" {
			t.Error(diff)
		}
	}
	check()
	if got := historyOf(t, bob, "low", 2); got != "low.0.3 RUNNING by= \nlow.0.3 FINISHED by= exited with status 0\n9 omitted\n" {
		t.Errorf("the last two events are %s", got)
	}
	_, err := g.clientAs(t, "web", in).GetJobHistory(ctx, "low", 0)
	wantProblem(t, err, http.StatusNotFound, `there is no job "low"`)
	_, err = ops.GetJobHistory(ctx, "low", 100_000)
	wantProblem(t, err, http.StatusBadRequest, `limit "100000"`)
	in.stopAndWait(t)
	in = startInstance(t, c, cfg, client.WithTrustedCA(g.CAFile))
	ops = g.clientAs(t, "ops", in)
	check()
}
