package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// queueServer serves the number in a file as the metric queue_length, at the port of the task.
const queueServer = `
import http.server, os, sys
class Metrics(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        text = ("# TYPE queue_length gauge\nqueue_length " + open(sys.argv[1]).read()).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text)
http.server.HTTPServer(("", int(os.environ["PORT0"])), Metrics).serve_forever()
`

// TestServiceIsScaledByLoad: a service whose tasks serve a metric gets more tasks while their
// load is above the target, and fewer when it is below. describe, the history and the API have
// the load and the target. A user may scale it as well.
func TestServiceIsScaledByLoad(t *testing.T) {
	t.Parallel()
	checkScalingByLoad(t, startDaemon(t, buildReleased(t), "local", "--free-ports", "--work-dir", makeWorkDir(t), "--autoscale-interval", "200ms"))
}

func checkScalingByLoad(t *testing.T, c *cluster) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { // the tasks' user reads the file
		t.Fatal(err)
	}
	length := filepath.Join(dir, "length")
	setLength := func(n int) {
		if err := os.WriteFile(length+".new", fmt.Appendf(nil, "%d\n", n), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(length+".new", length); err != nil {
			t.Fatal(err)
		}
	}
	setLength(10)
	program := filepath.Join(dir, "server.py")
	if err := os.WriteFile(program, []byte(queueServer), 0o644); err != nil {
		t.Fatal(err)
	}
	file := writeJobFile(t, "web.yaml", fmt.Sprintf(`name: web
cpus: 0.1
mem: 64MiB
ports: 1
health_check: {http: /, interval: 1s}
service:
  max: 3
  target: {metric: queue_length, value: 10}
  cooldown: 1s
  stabilization: {down: 1s}
command: [python3, %s, %s]
`, program, length))
	c.mustRun("submit", file)
	measured := c.awaitJob("web", func(v *api.JobView) bool { return v.Autoscaling != nil && v.Autoscaling.Load != nil })
	if a := measured.Autoscaling; *a.Load != 10 || a.Target != 10 || a.Metric != "queue_length" || a.Measured != 1 || a.Recommended != 1 {
		t.Errorf("at the target: %+v", a)
	}

	setLength(40)
	grown := c.awaitJob("web", func(v *api.JobView) bool { return v.TaskStates[job.Running] == 3 })
	if n := len(grown.Changes); n == 0 || grown.Changes[0].From != 1 || grown.Changes[n-1].To != 3 ||
		!strings.Contains(grown.Changes[0].Reason, "queue_length 40 a task, target 10") {
		t.Errorf("changes after more load: %+v", grown.Changes)
	}
	c.awaitJob("web", func(v *api.JobView) bool { return strings.Contains(v.Autoscaling.Reason, "max is 3") })
	described := c.mustRun("describe", "web")
	for _, want := range []string{"autoscaling  1 to 3 tasks; queue_length 40 a task, target 10", "to 3 tasks: queue_length 40 a task, target 10"} {
		if !strings.Contains(described, want) {
			t.Errorf("describe lacks %q:\n%s", want, described)
		}
	}

	setLength(0)
	shrunk := c.awaitJob("web", func(v *api.JobView) bool { return v.WantedTasks() == 1 })
	if last := shrunk.Changes[len(shrunk.Changes)-1]; last.To != 1 || !strings.Contains(last.Reason, "queue_length 0 a task, target 10") {
		t.Errorf("changes after less load: %+v", shrunk.Changes)
	}
	c.mustRun("scale", "web", "0")
	paused := c.awaitJob("web", func(v *api.JobView) bool {
		return strings.Contains(v.Autoscaling.Reason, "a user has scaled the service to 0")
	})
	if last := paused.Changes[len(paused.Changes)-1]; last.To != 0 || last.Reason != "" {
		t.Errorf("the user's change: %+v", last)
	}

	answer, err := http.Get(c.api + "/v1/jobs/web/history")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var history api.JobHistory
	if err := json.NewDecoder(answer.Body).Decode(&history); err != nil {
		t.Fatal(err)
	}
	changes := 0
	for _, ev := range history.Events {
		if ev.Task == "" && strings.HasPrefix(ev.Message, "scaled from ") {
			changes++
		}
	}
	if changes != len(paused.Changes) {
		t.Errorf("the history has %d changes, the job %d: %+v", changes, len(paused.Changes), history.Events)
	}
	if events := c.mustRun("events", "web"); !strings.Contains(events, "to 3 tasks: queue_length 40 a task, target 10") {
		t.Errorf("events lacks the change:\n%s", events)
	}
}

// TestServiceIsScaledByGPUDuty: simulated GPUs do what their tasks do on the CPU. The service
// gets more tasks while its tasks are busy, here half of the time; top shows the duty, the memory and the power.
func TestServiceIsScaledByGPUDuty(t *testing.T) {
	t.Parallel()
	c := startDaemon(t, buildReleased(t), "local", "--free-ports", "--work-dir", makeWorkDir(t), "--gpus", "2xV100", "--autoscale-interval", "200ms")
	c.mustRun("submit", writeJobFile(t, "infer.yaml", `name: infer
gpus: 1
cpus: 0.1
mem: 64MiB
service:
  max: 2
  target: {gpu_duty: 5}
  cooldown: 1s
command: |
  test $MESOS_GPU_TASK_INDEX = 0 || exec sleep 1000
  while sleep 0.2; do i=200000; while [ $i -gt 0 ]; do i=$((i-1)); done; done
`))
	grown := c.awaitJob("infer", func(v *api.JobView) bool { return v.TaskStates[job.Running] == 2 })
	if n := len(grown.Changes); n != 1 || grown.Changes[0].To != 2 || !strings.Contains(grown.Changes[0].Reason, "a task, target 5") {
		t.Errorf("changes: %+v", grown.Changes)
	}
	busy, idle := grown.Tasks[0].ID, grown.Tasks[1].ID
	c.awaitRun(func(r result) bool {
		var tasks []api.TaskUsage
		decodeJSON(t, r.out, &tasks)
		found := 0
		for _, u := range tasks {
			if len(u.Devices) != 1 || u.Devices[0].Duty == nil || u.Devices[0].Watts == nil || u.Devices[0].Celsius == nil || u.Devices[0].MemUsedMiB == nil {
				continue
			}
			d := u.Devices[0]
			works := *d.Duty > 0.05 && *d.Watts > 30 && *d.Celsius > 31
			if *d.MemUsedMiB > 0 && (u.Task == busy && works || u.Task == idle && !works) {
				found++
			}
		}
		return found == 2
	}, "top", "-o", "json")
}
