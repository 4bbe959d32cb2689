package jobs

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/term"
	"mesos-gpu/job"
)

func TestHealthColumn(t *testing.T) {
	yes, no := true, false
	j := api.JobView{State: job.Running}
	j.Spec = &job.Spec{
		Name:      "serve",
		Service:   &job.Service{Backoff: job.BackoffPolicy{Initial: time.Second, Factor: 2, Max: time.Hour}},
		Container: job.Container{HealthCheck: &job.HealthCheck{}},
	}
	j.Submitted = time.Now()
	j.Tasks = []job.Task{
		{ID: "serve.0", State: job.Running, Healthy: &yes, Ports: []int{31000, 31001}},
		{ID: "serve.1", State: job.Running, Healthy: &no, Check: "HTTP status 503"},
		{ID: "serve.2", State: job.Starting},
		{ID: "serve.3", State: job.Failed, Healthy: &yes},
		{ID: "retired.4", State: job.Killed, KillReason: job.KillByScaling},
	}
	if got := formatHealthy(&j); got != "1 of 4" {
		t.Errorf("ps shows %q", got)
	}
	if got := formatHealthy(&api.JobView{Job: job.Job{Spec: &job.Spec{}}}); got != "-" {
		t.Errorf("ps shows %q of a job without a check", got)
	}
	var out bytes.Buffer
	if err := printJob(&term.TablePrinter{Writer: &out}, &j); err != nil {
		t.Fatal(err)
	}
	for n, want := range map[float64]string{1: "1 CPU", 0.5: "0.5 CPUs", 2: "2 CPUs", 0: "0 CPUs"} {
		if got := formatCPUs(n); got != want {
			t.Errorf("describe shows %q, want %q", got, want)
		}
	}
	for _, want := range []string{
		"healthy ", "31000 31001", "unhealthy, check: HTTP status 503",
		"service      wants 4 tasks; pauses of 1s by 2 to 1h0m0s", "healthy      1 of 4\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("describe lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "retired.4") {
		t.Errorf("describe lists a task by which the service was scaled down:\n%s", out.String())
	}
}
