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

// TestMesosMovesBetweenRoles checks paused roles and moves on Apache Mesos.
func TestMesosMovesBetweenRoles(t *testing.T) {
	m := startMesos(t, stockAgentFlags...)
	checkMoves(t, m.startScheduler(t, "--roles", writeJobFile(t, "roles.yaml", movingRoles)))
}
