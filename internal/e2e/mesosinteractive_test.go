//go:build mesos

package e2e

import "testing"

// TestMesosInteractiveRuns checks run with standard input and terminals on Apache Mesos.
func TestMesosInteractiveRuns(t *testing.T) {
	m := startMesos(t, stockAgentFlags...)
	checkInteractive(t, m.startScheduler(t), "mesos", "")
}

// TestMesosNotebook checks notebooks and forwarded ports on Apache Mesos.
func TestMesosNotebook(t *testing.T) {
	m := startMesos(t, stockAgentFlags...)
	checkNotebook(t, m.startScheduler(t))
}
