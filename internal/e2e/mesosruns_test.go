//go:build mesos

package e2e

import "testing"

// TestMesosRunsAndUpdates checks runs and updates on Apache Mesos.
func TestMesosRunsAndUpdates(t *testing.T) {
	m := startMesos(t, stockAgentFlags...)
	checkRuns(t, m.startScheduler(t))
}
