//go:build mesos

package e2e

import (
	"testing"

	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
)

// TestMesosOutOfMemoryNamesBothNumbers checks the reports of tasks that run out of memory on Apache Mesos.
func TestMesosOutOfMemoryNamesBothNumbers(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-memory", nil, nil))
	m := startMesos(t, "--isolation=cgroups/cpu,cgroups/mem,filesystem/linux,docker/runtime")
	c := m.startScheduler(t)
	t.Run("docker", func(t *testing.T) {
		checkOutOfMemory(t, c, "docker", ofTheContainer, "--image", image, "--", "sh", "-c", slowlyTooMuch)
	})
	t.Run("mesos", func(t *testing.T) {
		checkOutOfMemory(t, c, "mesos", withExecutor, "--", "sh", "-c", slowlyTooMuch)
	})
}
