//go:build mesos

package e2e

import (
	"testing"

	"mesos-gpu/internal/apachemesos"
	"mesos-gpu/isolator/simulated"
)

func TestMesosJobSecrets(t *testing.T) {
	settings := map[string]string{"MESOS_GPU_SECRETS": secretsFolder(t)}
	m := startMesosAgent(t, apachemesos.StartMaster(t, "--allocation_interval=200ms").Addr, "127.0.0.1", simulated.DriverVersion, settings, stockAgentFlags...)
	checkSecrets(t, m.startScheduler(t))
}
