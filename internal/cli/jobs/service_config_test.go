package jobs

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/client"
	"mesos-gpu/internal/cli"
	"mesos-gpu/job"
)

// TestReloadAfterReloadIsRepeated: HAProxy may ignore the second of two reloads, so that one is repeated until none has
// preceded it for a while.
func TestReloadAfterReloadIsRepeated(t *testing.T) {
	web := api.JobView{Job: job.Job{Spec: &job.Spec{Name: "web", Service: &job.Service{}}, Tasks: make([]job.Task, 1)}}
	web.Spec.Ports = []job.Port{{Name: "http"}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(api.JobList{Jobs: []api.JobView{web}})
	}))
	defer s.Close()
	c, err := client.New(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	reloads := filepath.Join(dir, "reloads")
	f := &serviceConfigFlags{format: "haproxy", file: filepath.Join(dir, "haproxy.cfg"), reload: "echo reload >> " + reloads}
	a := &jobCommands{App: &cli.App{ProcessIO: cli.ProcessIO{Stderr: os.Stderr}}}
	requireReloads := func(when string, want int) {
		t.Helper()
		if _, err := a.writeServiceConfig(t.Context(), c, f); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(reloads)
		if got := strings.Count(string(text), "reload"); err != nil || got != want {
			t.Errorf("%s: %d reloads, %v, want %d", when, got, err, want)
		}
	}
	start := func(port int) {
		web.Tasks[0] = job.Task{State: job.Running, AgentURL: "http://10.0.0.1:5051", Ports: []int{port}}
	}
	requireReloads("first", 1)
	requireReloads("without a change", 1)
	start(31001)
	requireReloads("after a change", 2)
	requireReloads("soon after it", 3)
	f.reloaded = time.Now().Add(-reloadRepeatTime)
	requireReloads("later", 4)
	requireReloads("after a reload that none has preceded", 4)
	start(31002)
	f.reloaded = time.Now().Add(-reloadRepeatTime)
	requireReloads("after a later change", 5)
	requireReloads("after a later change, again", 5)
}
