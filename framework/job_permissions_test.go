package framework

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/framework/sched/admission"
	"mesos-gpu/internal/testing/frameworktest"
	"mesos-gpu/internal/testing/mesostest"
	"mesos-gpu/job"
)

// TestJobPermissions: jobs can use host paths and the agent's IPC namespace as the
// operator permits, also after the roles were reloaded.
func TestJobPermissions(t *testing.T) {
	roles := filepath.Join(t.TempDir(), "roles")
	if err := os.WriteFile(roles, []byte("research: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := SchedulerConfig{JournalPath: filepath.Join(t.TempDir(), "journal.db"), RolesFile: roles}
	cfg.Sched.Policy.Permissions = admission.HostPermissions{Volumes: []string{"/data"}}
	in := startInstance(t, mesostest.NewCluster(t, 1), cfg)
	ctx := frameworktest.Timeout(t)
	want := func(name, source string, ipc job.IPCMode) job.Spec {
		s := job.Spec{Name: name, Image: "debian:12"}
		s.Volumes, s.IPC = []job.Volume{{Source: source, Target: "/in"}}, ipc
		return s
	}
	for _, round := range []string{"first", "reloaded"} {
		_, err := in.SubmitJob(ctx, want(round, "/etc", ""))
		wantProblem(t, err, http.StatusForbidden, "--allow-volumes, and has allowed /data")
		_, err = in.SubmitJob(ctx, want(round, "/data/a", job.HostIPC))
		wantProblem(t, err, http.StatusForbidden, "--allow-host-ipc")
		device := want(round, "/data/a", "")
		device.Devices = []string{"/dev/infiniband"}
		_, err = in.SubmitJob(ctx, device)
		wantProblem(t, err, http.StatusForbidden, "--allow-devices, and has allowed none")
		if _, err := in.SubmitJob(ctx, want(round, "/data/a", "")); err != nil {
			t.Errorf("%s: what is allowed: %v", round, err)
		}
		s := want(round+"-role", "/data/a", "")
		s.Role = "unknown"
		_, err = in.SubmitJob(ctx, s)
		wantProblem(t, err, http.StatusUnprocessableEntity, `role "unknown": the scheduler has jobs of research`)
		if err := in.Reload(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAllowedPathsAreValidated(t *testing.T) {
	cfg := SchedulerConfig{Log: frameworktest.DiscardLog()}
	cfg.Sched.Policy.Permissions.Volumes = []string{"data"}
	if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), `allowed volumes: "data" is not an absolute path such as /data`) {
		t.Errorf("got %v", err)
	}
}
