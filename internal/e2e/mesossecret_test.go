//go:build mesos

package e2e

import (
	"testing"

	"mesos-gpu/internal/apachemesos"
	"mesos-gpu/internal/testimage"
	"mesos-gpu/internal/testneeds"
	"mesos-gpu/isolator/simulated"
)

func TestMesosJobSecrets(t *testing.T) {
	loadSecretImage(t)
	settings := map[string]string{"MESOS_GPU_SECRETS": secretsFolder(t)}
	m := startMesosAgent(t, apachemesos.StartMaster(t, "--allocation_interval=200ms").Addr, "127.0.0.1", simulated.DriverVersion, settings, stockAgentFlags...)
	testimage.SaveImage(t, testneeds.RequireDockerEngine(t), secretImage, m.imagesDir) // with the file that Mesos reads
	checkSecrets(t, m.startScheduler(t))
}
