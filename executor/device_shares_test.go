package executor

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/executor/task"
	"mesos-gpu/gpu"
)

func amount(name string, n float64) mesos.Resource {
	return mesos.Resource{Name: name, Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: n}}
}

func TestParseTaskShares(t *testing.T) {
	sharing := []mesos.Resource{amount("gpu_cores.GPU-b", 30), amount("gpu_mem.GPU-b", 4096), amount("gpu_mem.GPU-a", 1)}
	whole := []mesos.Resource{amount("gpus", 1), {Name: "gpu_ids", Type: mesos.SET.Enum(), Set: &mesos.Value_Set{Item: []string{"GPU-c"}}}}
	info := mesos.TaskInfo{Command: &mesos.CommandInfo{}, Resources: append(whole, sharing...)}
	got, err := parseTask(info)
	if err != nil {
		t.Fatal(err)
	}
	want := []gpu.DeviceShare{{UUID: "GPU-a", MemMiB: 1}, {UUID: "GPU-b", MemMiB: 4096, Cores: 30}}
	if diff := cmp.Diff(want, got.DeviceShares); diff != "" || got.GPUs != 3 || strings.Join(got.DeviceIDs, " ") != "GPU-c GPU-a GPU-b" {
		t.Errorf("%d GPUs, %v (-want +got):\n%s", got.GPUs, got.DeviceIDs, diff)
	}
	info.Resources = []mesos.Resource{amount("gpu_cores.GPU-b", 30)}
	if _, err := parseTask(info); err == nil || !strings.Contains(err.Error(), "holds 0 MiB of device GPU-b and 30 %") {
		t.Errorf("cores without memory: got %v", err)
	}
}

// A task with shares starts with its limit, or does not start.
func TestApplyShareLimit(t *testing.T) {
	log, hook := logtest.NewNullLogger()
	shared := func() *task.TaskSpec {
		return &task.TaskSpec{
			DeviceShares: []gpu.DeviceShare{{UUID: "GPU-a", MemMiB: 1}},
			Container:    mesos.ContainerID{Value: "c"},
			Env:          map[string]string{"CUDA_DEVICE_MEMORY_LIMIT": "all of it"},
		}
	}
	cfg := ExecutorConfig{Log: log}
	if _, err := cfg.applyShareLimit(t.Context(), &task.TaskSpec{}); err != nil {
		t.Errorf("without parts: %v", err)
	}
	if _, err := cfg.applyShareLimit(t.Context(), shared()); err == nil {
		t.Error("the task starts although its shares cannot be enforced")
	}
	cfg.ReadShareLimits = func(context.Context, string) (ShareEnforcement, error) {
		return ShareEnforcement{}, errors.New("MPS does not answer")
	}
	if _, err := cfg.applyShareLimit(t.Context(), shared()); err == nil || err.Error() != "enforce the task's share of 1 GPU: MPS does not answer" {
		t.Errorf("got %v", err)
	}
	mount := task.HostMount{Source: "/s", Target: "/t", ReadOnly: true}
	cfg.ReadShareLimits = func(_ context.Context, container string) (ShareEnforcement, error) {
		return ShareEnforcement{Limit: task.ShareLimit{Mounts: []task.HostMount{mount}, Env: map[string]string{"OF": container}}, Warning: "nothing holds"}, nil
	}
	got := shared()
	warning, err := cfg.applyShareLimit(t.Context(), got)
	if err != nil || warning != "nothing holds" || hook.LastEntry().Message != warning {
		t.Errorf("warned %q, logged %v: %v", warning, hook.LastEntry(), err)
	}
	env := got.Environment()
	if diff := cmp.Diff([]task.HostMount{mount}, got.ShareLimit.Mounts); diff != "" || env["OF"] != "c" || env["CUDA_DEVICE_MEMORY_LIMIT"] != "1m" {
		t.Errorf("environment %v (-want +got):\n%s", env, diff)
	}
}
