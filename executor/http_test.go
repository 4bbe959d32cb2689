package executor

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
)

// TestExecutorOverHTTP runs one task over real connections.
func TestExecutorOverHTTP(t *testing.T) {
	tests := []struct {
		name   string
		listen func(t *testing.T, c *ExecutorConfig) net.Listener
	}{
		{"tcp", func(t *testing.T, c *ExecutorConfig) net.Listener {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			c.Endpoint = l.Addr().String()
			return l
		}},
		{"unix socket", func(t *testing.T, c *ExecutorConfig) net.Listener {
			dir, err := os.MkdirTemp("", "agent") // short, because a socket's path has at most 108 bytes
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			c.Socket = filepath.Join(dir, "agent.sock")
			l, err := net.Listen("unix", c.Socket)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.cfg.Transport, r.cfg.Token, r.cfg.Log = nil, "secret", nil
			server := &httptest.Server{Listener: tt.listen(t, &r.cfg), Config: &http.Server{Handler: r.agent}}
			server.Start()
			t.Cleanup(server.Close)
			r.run()
			r.subscribed()
			if got := r.agent.header.Get("Authorization"); got != "Bearer secret" {
				t.Errorf("Authorization is %q, want the bearer token", got)
			}
			r.launch(info(t, task.TaskSpec{}))
			r.running()
			r.task.exit <- task.ExitStatus{Code: 2}
			r.acknowledge(r.update(mesos.TASK_FAILED))
			r.endedWell()
			log, err := os.ReadFile(filepath.Join(r.cfg.Sandbox, "executor.log"))
			if err != nil || !strings.Contains(string(log), "exited with status 2") {
				t.Errorf("executor.log lacks the task's end (%v):\n%s", err, log)
			}
			if strings.Contains(string(log), "secret") {
				t.Errorf("executor.log holds the token")
			}
		})
	}
}

func TestRunReportsMissingSettings(t *testing.T) {
	err := Run(t.Context(), ExecutorConfig{})
	for _, want := range []string{"MESOS_AGENT_ENDPOINT", "MESOS_FRAMEWORK_ID", "MESOS_EXECUTOR_ID", "MESOS_SANDBOX", "Granted"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

func TestRunWithoutASandbox(t *testing.T) {
	r := newRig(t)
	r.cfg.Log, r.cfg.Sandbox = nil, filepath.Join(r.cfg.Sandbox, "absent")
	if err := Run(t.Context(), r.cfg); err == nil || !strings.Contains(err.Error(), "open executor log") {
		t.Errorf("got %v, want that executor.log cannot be opened", err)
	}
}
