package agent

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"mesos-gpu/executor"
)

// A refusal differs from a daemon that cannot answer now, from one of an earlier version, and from
// a machine without a daemon.
func TestDeviceClaimer(t *testing.T) {
	refusal := (*executor.DeviceRefusedError)(nil)
	refused := func(err error) bool { return errors.As(err, &refusal) }
	noClaims := func(err error) bool { return errors.Is(err, executor.ErrNoClaims) }
	noDaemon := func(err error) bool { return errors.Is(err, executor.ErrNoDaemon) }
	other := func(err error) bool { return err != nil && !refused(err) && !noClaims(err) && !noDaemon(err) }
	for name, c := range map[string]struct {
		status int
		body   string
		want   func(error) bool
	}{
		"confirmed":       {200, `{"container":"c","devices":["GPU-a"]}`, func(err error) bool { return err == nil }},
		"held":            {409, `{"error":"GPU GPU-a is held by container d","device":"GPU-a"}`, refused},
		"not permitted":   {403, `{"error":"for that container only"}`, refused},
		"earlier version": {404, `{"error":"no such path"}`, noClaims},
		"agent is away":   {500, `{"error":"query the agent"}`, other},
		"too busy":        {503, `{"error":"too many connections"}`, other},
	} {
		t.Run(name, func(t *testing.T) {
			path := startFakeDaemon(t, c.status, c.body)
			if err := deviceClaimer(path)(t.Context(), "c", []string{"GPU-a"}); !c.want(err) {
				t.Errorf("got %v", err)
			}
		})
	}
	dir := t.TempDir()
	if err := deviceClaimer(filepath.Join(dir, "run", "a.sock"))(t.Context(), "c", nil); !noDaemon(err) {
		t.Errorf("no daemon has run: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "run"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := deviceClaimer(filepath.Join(dir, "run", "a.sock"))(t.Context(), "c", nil); !other(err) {
		t.Errorf("a daemon has run: %v", err)
	}
}

// startFakeDaemon starts a daemon with one answer to all requests, and returns the path of its socket.
func startFakeDaemon(t *testing.T, status int, body string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "a.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return path
}

// The command that Mesos agents start claims the devices of its task at the daemon of its
// environment, and passes a refusal on.
func TestExecutorCommandClaimsDevices(t *testing.T) {
	path := startFakeDaemon(t, 409, `{"error":"GPU GPU-a is held by container d","device":"GPU-a"}`)
	cfg, err := executorConfig(func(name string) string { return map[string]string{"MESOS_GPU_SOCKET": path}[name] })
	if err != nil {
		t.Fatal(err)
	}
	if cfg.ClaimDevices == nil {
		t.Fatal("executors start their tasks without asking the daemon for the GPUs")
	}
	refusal := (*executor.DeviceRefusedError)(nil)
	if err := cfg.ClaimDevices(t.Context(), "c", []string{"GPU-a"}); !errors.As(err, &refusal) {
		t.Errorf("executors start their tasks with a GPU that the daemon refuses: %v", err)
	}
}
