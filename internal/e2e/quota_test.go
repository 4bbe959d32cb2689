package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// checkMesosQuota checks that a quota of GPUs which an operator of Mesos sets for the role research limits its jobs, and
// that commands show it.
func checkMesosQuota(t *testing.T, c *cluster, master string) {
	t.Helper()
	setMesosQuota(t, master, 1)
	c.mustRun("submit", writeJobFile(t, "bound.yaml",
		"name: bound\ntasks: 3\ngpus: 1\nrole: research\ncpus: 0.1\nmem: 256MiB\ncontainer: mesos\ncommand: sleep 1000\n"))
	const reason = "Mesos's quota of role research allows 1 GPU, frameworks use 1"
	c.awaitJob("bound", func(v *api.JobView) bool {
		return v.TaskStates[job.Running] == 1 && strings.Contains(v.WaitReason, reason)
	})
	if out := c.mustRun("queue"); !strings.Contains(out, reason) {
		t.Errorf("queue prints:\n%s", out)
	}
	c.awaitOutput("1 of 1", "quota", "get")
	c.awaitOutput("MESOS LIMIT", "quota", "explain", "research")
	setMesosQuota(t, master, 2)
	c.awaitJob("bound", func(v *api.JobView) bool { return v.TaskStates[job.Running] == 2 })
	c.mustRun("kill", "bound")
	c.awaitJobEnd("bound")
}

// setMesosQuota sets the limit of GPUs of the role research.
func setMesosQuota(t *testing.T, master string, gpus int) {
	t.Helper()
	call := fmt.Sprintf(`{"type": "UPDATE_QUOTA", "update_quota": {"force": true, "quota_configs": [{"role": "research", "limits": {"gpus": {"value": %d}}}]}}`,
		gpus)
	res, err := http.Post("http://"+master+"/api/v1", "application/json", strings.NewReader(call))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("the master answers UPDATE_QUOTA with %s", res.Status)
	}
}

// TestQuotaOfMaster checks Mesos's quota on the embedded cluster.
func TestQuotaOfMaster(t *testing.T) {
	t.Parallel()
	c := startCluster(t, "--gpus", "3xV100", "--roles", writeJobFile(t, "roles.yaml", "research: V100=8\n"))
	up := c.output.awaitLine(t, c.ended, regexp.MustCompile(`is up: .* master http://([^ ,]+)`))
	checkMesosQuota(t, c, up[1])
}
