//go:build mesos

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"mesos-gpu/framework/api"
	"mesos-gpu/internal/testing/testneeds"
)

// TestMesosTrainingExamples runs the example for torchrun, and checks the variables of launchers in a gang, on Apache Mesos.
func TestMesosTrainingExamples(t *testing.T) {
	testneeds.RequireProgram(t, "python3", "python3")
	c := startMesos(t, append(stockAgentFlags, "--resources=cpus:8;mem:8192")...).startScheduler(t)
	t.Run("torchrun", func(t *testing.T) { checkTorchrun(t, c, 2) })
	t.Run("variables", func(t *testing.T) {
		const command = "echo $NNODES $NODE_RANK $NPROC_PER_NODE $PET_NNODES $PET_NODE_RANK $PET_NPROC_PER_NODE $WORLD_SIZE $MASTER_PORT $PET_MASTER_PORT"
		c.mustRun("run", "--name", "gang", "--gang", "--tasks", "2", "--gpus", "2", "--gpu-type", "same", "--cpus", "0.1", "--", "sh", "-c", command)
		port := c.awaitJob("gang", func(v *api.JobView) bool { return v.Terminal }).Tasks[0].Ports[0]
		out := c.mustRun("logs", "gang")
		for task := range 2 {
			if want := fmt.Sprintf("gang.%d | 2 %d 2 2 %d 2 2 %d %d\n", task, task, task, port, port); !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	})
}

// TestMesosServiceIsScaledByLoad checks autoscaling by a metric of the tasks on Apache Mesos.
func TestMesosServiceIsScaledByLoad(t *testing.T) {
	m := startMesos(t, append(stockAgentFlags, "--resources=cpus:8;mem:8192")...)
	checkScalingByLoad(t, m.startScheduler(t, "--autoscale-interval", "200ms"))
}
