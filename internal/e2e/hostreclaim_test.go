package e2e

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/job"
)

// TestClaimOfCPUs: on the embedded cluster a task without GPUs of a role that deserves CPUs ends one of a role that holds
// more of them than it deserves, and runs in its place.
func TestClaimOfCPUs(t *testing.T) {
	cpus := float64(runtime.NumCPU())
	c := startCluster(t, "--gpus", "1xV100", "--roles", writeJobFile(t, "roles.yaml", fmt.Sprintf("lab: {}\nprod: {deserved: \"cpus=%g\"}\n", cpus*0.6)))
	submit := func(name, role string, cpus float64) {
		c.mustRun("submit", writeJobFile(t, name, fmt.Sprintf(
			"name: %s\nrole: %s\ngpus: 0\ncpus: %g\nmem: 256MiB\ncontainer: mesos\nkill_grace: 1s\ncommand: exec sleep 1000\n", name, role, cpus)))
	}
	submit("sweep", "lab", cpus*0.6)
	c.mustRun("wait", "--for", "running", "sweep")
	submit("build", "prod", cpus*0.5)
	c.mustRun("wait", "--for", "running", "build")
	ended := c.awaitJob("sweep", func(v *api.JobView) bool { return v.State == job.Waiting })
	if out := c.mustRun("describe", "sweep"); ended.Tasks[0].Attempt != 2 || !strings.Contains(out, "makes room for build: role prod deserves the CPUs and memory") {
		t.Errorf("the borrower is %+v\n%s", ended, out)
	}
	want := fmt.Sprintf("cpus=%g", cpus*0.5)
	if out := c.mustRun("quota", "get", "prod"); !strings.Contains(out, want) {
		t.Errorf("quota get has no %s:\n%s", want, out)
	}
}
