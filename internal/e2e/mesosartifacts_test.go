//go:build mesos

package e2e

import "testing"

// TestMesosArtifactsOfEndedTasks waits until Mesos has removed the sandbox.
func TestMesosArtifactsOfEndedTasks(t *testing.T) {
	m := startMesos(t, append([]string{"--gc_delay=10secs"}, stockAgentFlags...)...)
	checkArtifacts(t, m.startScheduler(t, "--artifacts", t.TempDir()), func() {})
}
