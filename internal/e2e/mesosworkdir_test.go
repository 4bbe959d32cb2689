//go:build mesos

package e2e

import (
	"testing"

	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
)

// TestMesosTasksStartInWorkdir checks that Mesos's own fetcher unpacks working folders from
// the scheduler, for a task of an unprivileged user.
func TestMesosTasksStartInWorkdir(t *testing.T) {
	m := startMesos(t, stockAgentFlags...)
	checkWorkdir(t, m.startScheduler(t), "plain", "container: mesos")
}

// TestMesosTasksWithImagesStartInWorkdir does it in Docker and Mesos containers with images.
func TestMesosTasksWithImagesStartInWorkdir(t *testing.T) {
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-mesosworkdir:latest", nil, nil))
	m := startMesos(t, stockAgentFlags...)
	testimage.SaveImage(t, docker, image, m.imagesDir)
	c := m.startScheduler(t)
	checkWorkdir(t, c, "docker", "image: "+image)
	if r := c.run("run", "--container", "mesos", "--image", image, "--", "true"); r.code != 0 {
		t.Skipf("this machine starts no Mesos container with an image: %s", r.err)
	}
	checkWorkdir(t, c, "image", "container: mesos\nimage: "+image)
}
