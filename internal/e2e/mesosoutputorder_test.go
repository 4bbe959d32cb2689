//go:build mesos

package e2e

import "testing"

// TestMesosOutputOrder checks the order of output on Apache Mesos.
func TestMesosOutputOrder(t *testing.T) {
	m := startMesos(t, stockAgentFlags...)
	checkOutputOrder(t, m.startScheduler(t))
}
