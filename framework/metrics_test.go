package framework

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/leader"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/internal/testing/zktest"
	"mesos-gpu/job"
)

// countingExtension is an extension with metrics, which fail while broken is true.
type countingExtension struct {
	testExtension
	broken atomic.Bool
}

func (m *countingExtension) Gauges(_ context.Context, add func(name, help string, labels map[string]string, value float64)) error {
	add("marathon_apps", "Number of apps.", nil, 7)
	if m.broken.Load() {
		return errors.New("not now")
	}
	return nil
}

// wantMetrics checks which lines a scheduler's metrics page contains, and which it does not.
func wantMetrics(t *testing.T, in *testInstance, want []string, lacks ...string) {
	t.Helper()
	status, page := fetchText(t, in, "/metrics")
	if status != 200 {
		t.Fatalf("status %d: %s", status, page)
	}
	for _, line := range want {
		if !strings.Contains(page, "\n"+line+"\n") {
			t.Errorf("lacks %s", line)
		}
	}
	for _, part := range lacks {
		if strings.Contains(page, part) {
			t.Errorf("has %s", part)
		}
	}
}

// TestMetrics: the leader and a standby export metrics of a service, a running and a
// pending job; the leader also exports its extension's metrics.
func TestMetrics(t *testing.T) {
	c, server := mesostest.NewCluster(t, 4), zktest.StartServer(t)
	e := &countingExtension{testExtension: testExtension{led: make(chan *leader.ExtensionHandle, 2)}}
	start := func() *testInstance {
		return startInstance(t, c, SchedulerConfig{JournalPath: "zk://" + server.Addr() + "/mesos-gpu/test", SessionTimeout: lasting, Extension: e})
	}
	first := start()
	awaitRole(t, first, api.Leader)
	second := start()
	awaitRole(t, second, api.Standby)
	ctx := longTimeout(t)
	for _, s := range []job.Spec{frameworktest.ServiceSpec("web", 3), frameworktest.JobSpec("train", 2, 1), frameworktest.JobSpec("large", 1, 4)} {
		if _, err := first.SubmitJob(ctx, s); err != nil {
			t.Fatal(err)
		}
		if s.Name != "large" {
			awaitState(t, first, s.Name, job.Running)
			awaitState(t, second, s.Name, job.Running)
		}
	}
	if _, err := second.GetJob(ctx, "large"); err != nil { // makes the standby catch up
		t.Fatal(err)
	}
	jobs := []string{
		`mesos_gpu_scheduler_jobs{state="RUNNING"} 2`, `mesos_gpu_scheduler_jobs{state="WAITING"} 1`, `mesos_gpu_scheduler_jobs{state="FAILED"} 0`,
		`mesos_gpu_scheduler_tasks{role="*",state="RUNNING"} 5`, `mesos_gpu_scheduler_tasks{role="*",state="WAITING"} 1`,
		`mesos_gpu_scheduler_waiting_tasks{role="*",type="any"} 1`, `mesos_gpu_scheduler_waiting_gpus{role="*",type="any"} 4`,
		`mesos_gpu_scheduler_gpus_held{role="*",type="V100"} 2`,
	}
	wantMetrics(t, first, append(jobs, "mesos_gpu_scheduler_leads 1", "mesos_gpu_scheduler_connected 1", "mesos_gpu_marathon_apps 7"))
	wantMetrics(t, second, append(jobs, "mesos_gpu_scheduler_leads 0", "mesos_gpu_scheduler_connected 0"), "marathon")
	e.broken.Store(true)
	wantMetrics(t, first, append(jobs, "mesos_gpu_scheduler_leads 1"), "marathon")
	for _, name := range []string{"train", "large"} {
		if err := first.KillJob(ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	awaitState(t, first, "train", job.Killed)
	wantMetrics(t, first, []string{
		`mesos_gpu_scheduler_jobs{state="KILLED"} 2`, `mesos_gpu_scheduler_tasks{role="*",state="RUNNING"} 3`,
		`mesos_gpu_scheduler_tasks{role="*",state="WAITING"} 0`,
	}, "gpus_held{", "waiting_tasks{", "oldest_waiting_seconds{")
	second.stopAndWait(t)
	first.stopAndWait(t)
}

// TestMetricsWithoutBackend: a scheduler without a backend exports no job metrics.
func TestMetricsWithoutBackend(t *testing.T) {
	s, err := New(SchedulerConfig{Master: "127.0.0.1:1", Log: frameworktest.DiscardLog()})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.newHandler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 503 || w.Header().Get("Retry-After") != "1" || !strings.Contains(w.Body.String(), "the scheduler is starting") {
		t.Errorf("got %d %v %s", w.Code, w.Header(), w.Body)
	}
}
