//go:build mesos

package e2e

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/zktest"
)

// TestMesosNotifications checks notifications on Apache Mesos.
func TestMesosNotifications(t *testing.T) {
	m := startMesos(t, stockAgentFlags...)
	r := startNoticeReceiver(t)
	checkNotifications(t, m.startScheduler(t, "--notifications", r.settings, "--roles", writeJobFile(t, "roles.yaml", noticeRoles)), r)
}

// TestMesosIdleGPUs checks notifications of idle GPUs on Apache Mesos, with the daemon that measures GPUs.
func TestMesosIdleGPUs(t *testing.T) {
	m := startSimulatedDaemon(t)
	r := startNoticeReceiver(t)
	args := []string{"--journal", filepath.Join(t.TempDir(), "journal"), "--notifications", r.settings, "--roles", writeJobFile(t, "roles.yaml", idleRoles)}
	checkIdleGPUs(t, m.startScheduler(t, args...), r, func() *cluster { return m.startScheduler(t, args...) })
}

// TestMesosNotificationsSurviveFailover checks that notifications reach their targets at least once through failovers of two
// schedulers with the journal in ZooKeeper: one whose receiver fails while the leader is killed, and one of a task that ends while
// no scheduler leads.
func TestMesosNotificationsSurviveFailover(t *testing.T) {
	zk := zktest.StartServer(t)
	m := startMesos(t, stockAgentFlags...)
	r := startNoticeReceiver(t)
	start := func() *cluster {
		t.Helper()
		return m.startScheduler(t, "--journal", "zk://"+zk.Addr()+"/mesos-gpu", "--notifications", r.settings)
	}
	first := start()
	second := start()
	ended := filepath.Join(t.TempDir(), "ended")
	r.setFailing(true)
	first.mustRun("run", "--detach", "--name", "fails", "--gpus", "0", "--notify", r.webhooks.URL+"/path-secret", "--", "sh", "-c", "exit 3")
	first.awaitOutput("it answers 503", "notifications", "-o", "wide")
	first.mustRun("run", "--detach", "--name", "ends", "--gpus", "1", "--notify", r.webhooks.URL+"/path-secret", "--", "sh",
		"-c", "until [ -e "+ended+" ]; do sleep 0.1; done")
	first.mustRun("wait", "--for", "running", "ends")
	if err := first.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-first.ended
	if err := os.WriteFile(ended, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.setFailing(false)
	failure := r.awaitWebhook("failure", "fails")
	end := r.awaitWebhook("end", "ends")
	if failure.ExitCode == nil || *failure.ExitCode != 3 || end.ID == "" {
		t.Errorf("failure %+v, end %+v", failure, end)
	}
	second.awaitJob("ends", func(v *api.JobView) bool { return v.Terminal })
	second.awaitOutput("Every notification was delivered.", "notifications")
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.received {
		if one.Job == "fails" && one.ID != failure.ID || one.Job == "ends" && one.ID != end.ID {
			t.Errorf("one event has several ids: %+v", r.received)
		}
	}
}
