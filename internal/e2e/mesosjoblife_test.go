//go:build mesos

package e2e

import "testing"

// TestMesosHoldsAndRequeues checks holds and requeues on Apache Mesos.
func TestMesosHoldsAndRequeues(t *testing.T) {
	m := startMesos(t, stockAgentFlags...)
	checkHolds(t, m.startScheduler(t))
}

// TestMesosWarnings checks warnings on Apache Mesos.
func TestMesosWarnings(t *testing.T) {
	m := startMesos(t, stockAgentFlags...)
	checkWarnings(t, m.startScheduler(t))
}
