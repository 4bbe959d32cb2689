package docker

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/google/go-cmp/cmp"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
	"mesos-gpu/gpu"
)

func writeAnswer(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v) }
}

// The labels of a container name its devices. Containers of other agents' executors, which have no
// lock file here, are left out; those of earlier versions are found by their nodes.
func TestListContainers(t *testing.T) {
	spec := task.TaskSpec{
		ID: "t1", Job: "job", Framework: "f", Container: mesos.ContainerID{Value: "c1"}, DeviceIDs: []string{"GPU-a", "MIG-b", "GPU-s"},
		DeviceShares: []gpu.DeviceShare{{UUID: "GPU-s", MemMiB: 4096, Cores: 30}},
	}
	labels := containerLabels(spec)
	earlier := map[string]string{taskLabel: "t2", jobLabel: "job", frameworkLabel: "f"}
	engine := fakeEngine(t, map[string]http.HandlerFunc{
		"GET /containers/json": writeAnswer([]container.Summary{
			{ID: "1", Names: []string{"/mesos-gpu-c1"}, Labels: labels},
			{ID: "2", Names: []string{"/mesos-gpu-c2"}, Labels: earlier},
			{ID: "3", Names: []string{"/mesos-gpu-elsewhere"}, Labels: labels},
			{ID: "4", Names: []string{"/mesos-gpu-gone"}, Labels: earlier},
		}),
		"GET /containers/2/json": writeAnswer(container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{HostConfig: &container.HostConfig{
			Resources: container.Resources{Devices: []container.DeviceMapping{
				{PathOnHost: "/dev/nvidia1"}, {PathOnHost: "/dev/nvidiactl"}, {PathOnHost: "/dev/nvidia2"},
				{PathOnHost: "/dev/nvidia-caps/nvidia-cap20"}, {PathOnHost: "/dev/nvidia-caps/nvidia-cap21"},
			}},
		}}}),
	})
	dir := t.TempDir()
	for _, name := range []string{"mesos-gpu-c1", "mesos-gpu-c2", "mesos-gpu-gone", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	host := gpu.Host{Devices: []gpu.Device{
		{UUID: "GPU-0"}, {UUID: "GPU-1", Minor: 1},
		{UUID: "MIG-2", Minor: 2, MIG: &gpu.MIG{GPUInstanceCap: 20, ComputeInstanceCap: 21}},
		{UUID: "MIG-3", Minor: 2, MIG: &gpu.MIG{GPUInstanceCap: 30, ComputeInstanceCap: 31}},
	}}
	newClient := func() (*client.Client, error) {
		return client.NewClientWithOpts(client.WithHost(engine.DaemonHost()), client.WithVersion("1.41"))
	}
	got, err := ListContainers(t.Context(), newClient, dir, host)
	want := []gpu.ContainerDevices{
		{Container: "c1", Framework: "f", Task: "t1", Job: "job", Devices: spec.DeviceIDs, Shares: spec.DeviceShares},
		{Container: "c2", Framework: "f", Task: "t2", Job: "job", Devices: []string{"GPU-1", "MIG-2"}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, (-want +got):\n%s", err, diff)
	}
	host.Simulated = true
	if got, err := ListContainers(t.Context(), newClient, dir, host); err != nil || len(got) != 1 {
		t.Errorf("by nodes of simulated devices: %+v, %v", got, err)
	}
}

// Without lock files the engine, which many agents lack, is not connected to.
func TestListContainersWithoutLocks(t *testing.T) {
	newClient := func() (*client.Client, error) { return nil, errors.New("connected") }
	for _, dir := range []string{t.TempDir(), filepath.Join(t.TempDir(), "missing")} {
		if got, err := ListContainers(t.Context(), newClient, dir, gpu.Host{}); err != nil || len(got) != 0 {
			t.Errorf("got %v, %v", got, err)
		}
	}
}
