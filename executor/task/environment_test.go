package task

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
)

func TestTaskEnvironment(t *testing.T) {
	tests := []struct {
		name string
		task TaskSpec
		want map[string]string
	}{
		{"named devices", TaskSpec{GPUs: 2, DeviceIDs: []string{"GPU-a", "GPU-b"}, Env: map[string]string{"A": "b"}},
			map[string]string{"A": "b", "MESOS_TASK_ID": "t", "NVIDIA_VISIBLE_DEVICES": "GPU-a,GPU-b"}},
		{"a job cannot name more", TaskSpec{Env: map[string]string{"NVIDIA_VISIBLE_DEVICES": "all", "MESOS_TASK_ID": "x"}},
			map[string]string{"MESOS_TASK_ID": "t", "NVIDIA_VISIBLE_DEVICES": "void"}},
		{"a job's task knows its place", TaskSpec{Job: "train", Index: 2}, map[string]string{
			"MESOS_GPU_JOB": "train", "MESOS_GPU_TASK_INDEX": "2", "MESOS_TASK_ID": "t", "NVIDIA_VISIBLE_DEVICES": "void"}},
		{"another framework's knows its name", TaskSpec{Job: "web"}, map[string]string{
			"MESOS_GPU_JOB": "web", "MESOS_GPU_TASK_INDEX": "0", "MESOS_TASK_ID": "t", "NVIDIA_VISIBLE_DEVICES": "void"}},
		{"the owner's account", TaskSpec{Account: &Account{Name: "alice", Home: "/home/alice", Shell: "/bin/zsh"}, Env: map[string]string{"SHELL": ""}},
			map[string]string{"HOME": "/home/alice", "USER": "alice", "LOGNAME": "alice", "SHELL": "", "MESOS_TASK_ID": "t", "NVIDIA_VISIBLE_DEVICES": "void"}},
		{"an account without a home", TaskSpec{Account: &Account{Name: "alice"}},
			map[string]string{"USER": "alice", "LOGNAME": "alice", "MESOS_TASK_ID": "t", "NVIDIA_VISIBLE_DEVICES": "void"}},
		{"an image", TaskSpec{Image: "debian", Account: &Account{Name: "alice", Home: "/home/alice"}},
			map[string]string{"MESOS_TASK_ID": "t", "NVIDIA_VISIBLE_DEVICES": "void"}},
		{"devices without names", TaskSpec{GPUs: 1}, map[string]string{"MESOS_TASK_ID": "t", "NVIDIA_VISIBLE_DEVICES": "void"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.task.ID = "t"
			if diff := cmp.Diff(tt.want, tt.task.Environment()); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
}

// The environment variables for tasks written for gpushare and HAMi.
func TestShareVariables(t *testing.T) {
	shares := []gpu.DeviceShare{{UUID: "GPU-a", MemMiB: 4096, Cores: 30}, {UUID: "GPU-b", MemMiB: 1000}}
	devices := []gpu.Device{{UUID: "GPU-b", Minor: 1, MemMiB: 16384}, {UUID: "GPU-a", Minor: 2, MemMiB: 32510}, {UUID: "GPU-c"}}
	for _, c := range []struct {
		name    string
		shares  []gpu.DeviceShare
		devices []gpu.Device
		want    map[string]string
	}{
		{"one", shares[:1], devices, map[string]string{
			"ALIYUN_COM_GPU_MEM_ASSIGNED":  "true",
			"ALIYUN_COM_GPU_MEM_CONTAINER": "4",
			"ALIYUN_COM_GPU_MEM_POD":       "4",
			"ALIYUN_COM_GPU_MEM_DEV":       "32",
			"ALIYUN_COM_GPU_MEM_IDX":       "2",
			"CUDA_DEVICE_MEMORY_LIMIT":     "4096m",
			"CUDA_DEVICE_MEMORY_LIMIT_0":   "4096m",
			"CUDA_DEVICE_SM_LIMIT":         "30",
			"MESOS_GPU_SHARE":              "GPU-a 4096 30",
		}},
		{"two", shares, devices, map[string]string{
			"ALIYUN_COM_GPU_MEM_ASSIGNED":  "true",
			"ALIYUN_COM_GPU_MEM_CONTAINER": "5",
			"ALIYUN_COM_GPU_MEM_POD":       "5",
			"ALIYUN_COM_GPU_MEM_DEV":       "48",
			"ALIYUN_COM_GPU_MEM_IDX":       "1,2",
			"CUDA_DEVICE_MEMORY_LIMIT_0":   "1000m",
			"CUDA_DEVICE_MEMORY_LIMIT_1":   "4096m",
			"CUDA_DEVICE_SM_LIMIT":         "30",
			"MESOS_GPU_SHARE":              "GPU-b 1000 0;GPU-a 4096 30",
		}},
		{"on unknown devices", shares[1:], nil, map[string]string{
			"ALIYUN_COM_GPU_MEM_ASSIGNED": "true", "ALIYUN_COM_GPU_MEM_CONTAINER": "1", "ALIYUN_COM_GPU_MEM_POD": "1",
			"CUDA_DEVICE_MEMORY_LIMIT": "1000m", "CUDA_DEVICE_MEMORY_LIMIT_0": "1000m", "MESOS_GPU_SHARE": "GPU-b 1000 0",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := map[string]string{}
			addShareVariables(got, c.shares, c.devices)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestVariablesAreDocumented checks that the page of job files has each variable of the executor. It abbreviates those of
// gpushare and HAMi.
func TestVariablesAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "job-file.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Environment of a task\n")
	section, _, _ = strings.Cut(section, "\n## ")
	spec := TaskSpec{
		ID: "t", Job: "train", Role: "r", GPUs: 1, DeviceIDs: []string{"GPU-a"},
		DeviceShares: []gpu.DeviceShare{{UUID: "GPU-a", MemMiB: 4096, Cores: 30}},
		ShareLimit:   ShareLimit{Devices: []gpu.Device{{UUID: "GPU-a", MemMiB: 32510}}},
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Environment())) {
		for _, prefix := range []string{"CUDA_DEVICE_MEMORY_LIMIT", "ALIYUN_COM_GPU_MEM_"} {
			if strings.HasPrefix(name, prefix) {
				name = prefix + "…"
			}
		}
		if !strings.Contains(section, "`"+name+"`") {
			t.Errorf("docs/reference/job-file.md lacks the variable %s", name)
		}
	}
}

// A task for whole GPUs that has all of a shared one gets the variables of a whole GPU.
func TestVariablesOfWholeSharedGPU(t *testing.T) {
	spec := TaskSpec{
		ID: "t", GPUs: 1, DeviceIDs: []string{"GPU-a"},
		DeviceShares: []gpu.DeviceShare{{UUID: "GPU-a", MemMiB: 4096, Cores: 100}},
		WholeGPUs:    true,
	}
	unshared := spec
	unshared.DeviceShares = nil
	if diff := cmp.Diff(unshared.Environment(), spec.Environment()); diff != "" {
		t.Errorf("(-not shared +shared):\n%s", diff)
	}
}
