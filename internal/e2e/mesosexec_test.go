//go:build mesos

package e2e

import (
	"testing"

	"mesos-gpu/internal/testimage"
	"mesos-gpu/internal/testneeds"
)

// Commands beside tasks of a stock agent: in the engine's containers, in
// Mesos's with an image and in those without.
func TestMesosCommandsBesideTasks(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-mesosexec:latest", nil, nil))
	m := startMesos(t, stock...)
	c := m.scheduler(t)
	t.Run("docker", func(t *testing.T) { commandsBeside(t, c.host(t, "docker", image)) })
	t.Run("mesos", func(t *testing.T) { commandsBeside(t, c.host(t, "mesos", "")) })
	t.Run("mesos with an image", func(t *testing.T) {
		testimage.SaveImage(t, docker, image, m.images)
		if r := c.do("run", "--container", "mesos", "--image", image, "--", "true"); r.code != 0 {
			t.Skipf("this machine starts no Mesos container with an image: %s", r.err)
		}
		commandsBeside(t, c.host(t, "mesos", image))
	})
}

// The module's rules hold in a session, and outlast it.
func TestMesosModuleCommandsBesideTasks(t *testing.T) {
	resources, attributes := agentFlags(t, "")
	a := startModuleAgent(t, resources, attributes)
	a.daemon(t, "")
	c := (&mesos{master: a.master}).scheduler(t)
	commandsBeside(t, c.host(t, "mesos", ""))
}
