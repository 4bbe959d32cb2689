package framework

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/framework/internal/mesostest"
	"mesos-gpu/framework/sched"
	"mesos-gpu/job"
)

// TestWhatJobsMayHave: host paths and the agents' IPC, as the operator allows,
// also once the roles were read again.
func TestWhatJobsMayHave(t *testing.T) {
	roles := filepath.Join(t.TempDir(), "roles")
	if err := os.WriteFile(roles, []byte("research: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := Config{JournalPath: filepath.Join(t.TempDir(), "journal.db"), RolesFile: roles}
	cfg.Sched.Policy.Allowed = sched.Allowed{Volumes: []string{"/data"}}
	in := start(t, mesostest.NewCluster(t, 1), cfg)
	ctx := within(t)
	want := func(name, source string, ipc job.IPC) job.Spec {
		s := job.Spec{Name: name, Image: "debian:12"}
		s.Volumes, s.IPC = []job.Volume{{Source: source, Target: "/in"}}, ipc
		return s
	}
	for _, round := range []string{"first", "reloaded"} {
		_, err := in.Submit(ctx, want(round, "/etc", ""))
		wantProblem(t, err, http.StatusForbidden, "--allow-volumes, and has allowed /data")
		_, err = in.Submit(ctx, want(round, "/data/a", job.HostIPC))
		wantProblem(t, err, http.StatusForbidden, "--allow-host-ipc")
		if _, err := in.Submit(ctx, want(round, "/data/a", "")); err != nil {
			t.Errorf("%s: what is allowed: %v", round, err)
		}
		s := want(round+"-role", "/data/a", "")
		s.Role = "nobody"
		_, err = in.Submit(ctx, s)
		wantProblem(t, err, http.StatusUnprocessableEntity, `role "nobody": the scheduler has jobs of research`)
		if err := in.Reload(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAllowedPathsAreChecked(t *testing.T) {
	cfg := Config{Log: quiet()}
	cfg.Sched.Policy.Allowed.Volumes = []string{"data"}
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), `allowed volumes: "data" is no absolute path such as /data`) {
		t.Errorf("got %v", err)
	}
}
