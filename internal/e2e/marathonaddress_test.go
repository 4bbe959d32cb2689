package e2e

import (
	"net/http"
	"testing"

	"mesos-gpu/internal/testing/apachemesos"
	"mesos-gpu/internal/testing/testimage"
	"mesos-gpu/internal/testing/testneeds"
)

// TestMarathonAddressInBridge checks that an instance in a Docker network has its address in
// that network, also after a health check, whose status update contains the agent's address.
func TestMarathonAddressInBridge(t *testing.T) {
	t.Parallel()
	docker := testneeds.RequireDockerEngine(t)
	image := testimage.LoadImage(t, docker, testimage.BusyboxArchive(t, "mesos-gpu-e2e-address", nil, nil))
	c := startCluster(t, "--gpu-scheduling-behavior", "unrestricted")
	c.mustCallMarathon(http.MethodPost, "/apps", `{"id": "/at", "cmd": "exec sleep 1000", "cpus": 0.1, "mem": 64,
		"container": {"type": "DOCKER", "docker": {"image": "`+image+`"}}, "networks": [{"mode": "container/bridge"}],
		"healthChecks": [{"protocol": "COMMAND", "command": {"value": "true"}, "gracePeriodSeconds": 5, "intervalSeconds": 1}]}`)
	a := c.awaitApp("/at", "be healthy", func(a *appView) bool { return a.TasksHealthy == 1 })
	names := listContainers(t, docker, image)
	if len(names) != 1 {
		t.Fatalf("containers %v, want one", names)
	}
	made, err := docker.ContainerInspect(t.Context(), names[0])
	if err != nil {
		t.Fatal(err)
	}
	got := a.Tasks[0].IPAddresses
	for _, network := range made.NetworkSettings.Networks {
		if len(got) != 1 || got[0].IPAddress != network.IPAddress || got[0].Protocol != "IPv4" {
			t.Errorf("got %v, want %s", got, network.IPAddress)
		}
	}
	c.mustCallMarathon(http.MethodDelete, "/apps/at", "")
	apachemesos.PollUntil(t, "the app to go", func() bool { return c.countApps() == 0 })
}
