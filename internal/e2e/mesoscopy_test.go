//go:build mesos

package e2e

import "testing"

// TestMesosFilesAreCopiedFromAndIntoTasks reads sandboxes by the API of Mesos's agent.
func TestMesosFilesAreCopiedFromAndIntoTasks(t *testing.T) {
	m := startMesos(t, stockAgentFlags...)
	checkCopies(t, m.startScheduler(t), "plain", "container: mesos", true)
}
