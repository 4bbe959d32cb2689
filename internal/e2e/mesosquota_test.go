//go:build mesos

package e2e

import "testing"

// TestMesosQuotaOfMaster checks Mesos's quota on Apache Mesos.
func TestMesosQuotaOfMaster(t *testing.T) {
	m := startMesos(t, stockAgentFlags...)
	checkMesosQuota(t, m.startScheduler(t, "--roles", writeJobFile(t, "roles.yaml", "research: V100=8\n")), m.master)
}
