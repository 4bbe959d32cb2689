//go:build mesos

package e2e

import (
	"testing"

	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
)

// TestMesosExecInRunningTasks runs commands in running tasks on an agent with Mesos's own
// isolators: in Docker containers, and in Mesos containers with and without an image.
func TestMesosExecInRunningTasks(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-mesosexec:latest", nil, nil))
	m := startMesos(t, stockAgentFlags...)
	c := m.startScheduler(t)
	t.Run("docker", func(t *testing.T) { checkExec(t, c.startHostJob(t, "docker", image)) })
	t.Run("mesos", func(t *testing.T) { checkExec(t, c.startHostJob(t, "mesos", "")) })
	t.Run("mesos with an image", func(t *testing.T) {
		testimage.SaveImage(t, docker, image, m.imagesDir)
		if r := c.run("run", "--container", "mesos", "--image", image, "--", "true"); r.code != 0 {
			t.Skipf("this machine starts no Mesos container with an image: %s", r.err)
		}
		checkExec(t, c.startHostJob(t, "mesos", image))
	})
}

// TestMesosModuleExecInRunningTasks checks that the module's device rules apply to commands in
// a task, and still apply to the task afterwards.
func TestMesosModuleExecInRunningTasks(t *testing.T) {
	resources, attributes := printAgentFlags(t, "")
	a := startModuleAgent(t, resources, attributes)
	a.startDaemon(t, "")
	c := (&mesos{master: a.master}).startScheduler(t)
	checkExec(t, c.startHostJob(t, "mesos", ""))
}
