//go:build mesos

package e2e

import (
	"testing"

	"mesos-gpu/internal/apachemesos"
	"mesos-gpu/isolator/simulated"
)

func TestMesosJobSecrets(t *testing.T) {
	settings := map[string]string{"MESOS_GPU_SECRETS": secretsFolder(t)}
	m := join(t, apachemesos.StartMaster(t, "--allocation_interval=200ms").Addr, "127.0.0.1", simulated.DriverVersion, settings, stock...)
	checkSecrets(t, m.scheduler(t))
}
