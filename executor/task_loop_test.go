package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/executor"

	"mesos-gpu/executor/image"
	"mesos-gpu/executor/task"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func label(s mesos.TaskStatus) string {
	if s.Labels == nil || len(s.Labels.Labels) != 1 || s.Labels.Labels[0].Key != "mesos-gpu.exit_code" {
		return ""
	}
	return *s.Labels.Labels[0].Value
}

func TestTaskEndIsReported(t *testing.T) {
	tests := []struct {
		name    string
		exit    task.ExitStatus
		state   mesos.TaskState
		message string
		code    string
	}{
		{"success", task.ExitStatus{}, mesos.TASK_FINISHED, "exited with status 0", "0"},
		{"failure", task.ExitStatus{Code: 3}, mesos.TASK_FAILED, "exited with status 3", "3"},
		{"signal", task.ExitStatus{Signal: syscall.SIGSEGV}, mesos.TASK_FAILED, "killed by signal 11 (SIGSEGV)", "139"},
		{"no status", task.ExitStatus{NoStatus: true}, mesos.TASK_FAILED, "ended without an exit status", ""},
		{"agent knows better", task.ExitStatus{
			Signal:  syscall.SIGKILL,
			State:   mesos.TASK_FAILED.Enum(),
			Reason:  mesos.REASON_CONTAINER_LIMITATION_MEMORY.Enum(),
			Message: "memory limit\nexceeded",
		},
			mesos.TASK_FAILED, "killed by signal 9 (SIGKILL): memory limit; exceeded", "137"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t).run()
				r.subscribed()
				r.launch(info(t, task.TaskSpec{Job: "job", Argv: []string{"true"}}))
				r.running()
				r.task.exit <- tt.exit
				s := r.update(tt.state)
				if got := s.GetMessage(); got != tt.message {
					t.Errorf("message is %q, want %q", got, tt.message)
				}
				if got := label(s); got != tt.code {
					t.Errorf("exit code label is %q, want %q", got, tt.code)
				}
				if got, want := s.GetReason(), tt.exit.Reason; want != nil && got != *want {
					t.Errorf("reason is %s, want %s", got, *want)
				}
				r.acknowledge(s)
				r.endedWell()
			})
		})
	}
}

func TestStatusesCarryIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).run()
		r.subscribed()
		before := float64(time.Now().Unix())
		r.launch(info(t, task.TaskSpec{Argv: []string{"true"}}))
		seen := map[string]bool{}
		var last mesos.TaskStatus
		for _, state := range []mesos.TaskState{mesos.TASK_STARTING, mesos.TASK_RUNNING, mesos.TASK_FINISHED} {
			last = r.update(state)
			if len(last.UUID) != 16 || seen[string(last.UUID)] {
				t.Errorf("%s: uuid %x is not a new one", state, last.UUID)
			}
			seen[string(last.UUID)] = true
			if last.GetExecutorID().GetValue() != "executor" || last.GetSource() != mesos.SOURCE_EXECUTOR || last.TaskID.Value != "t1" {
				t.Errorf("%s: executor %v, source %v, task %v", state, last.ExecutorID, last.Source, last.TaskID)
			}
			if ts := last.GetTimestamp(); ts < before || ts > before+60 {
				t.Errorf("%s: timestamp %f, want %f", state, ts, before)
			}
			r.acknowledge(last)
			switch state {
			case mesos.TASK_STARTING:
				r.task.start <- nil
			case mesos.TASK_RUNNING:
				r.task.exit <- task.ExitStatus{}
			}
		}
		r.endedWell()
		if got := r.task.got; got.ID != "t1" || got.Framework != "framework" || got.Container.Value != "container" {
			t.Errorf("runtime got task %q of %q in container %q", got.ID, got.Framework, got.Container.Value)
		}
	})
}

func TestLaunchErrors(t *testing.T) {
	grant := func(minors []int, confined bool, err error) func() (gpu.DeviceAccess, error) {
		return func() (gpu.DeviceAccess, error) { return gpu.DeviceAccess{Confined: confined, Minors: minors}, err }
	}
	tests := []struct {
		name    string
		info    mesos.TaskInfo
		granted func() (gpu.DeviceAccess, error)
		want    string
	}{
		{"malformed data", mesos.TaskInfo{TaskID: mesos.TaskID{Value: "t1"}, Data: []byte("{")}, nil, "neither data nor a command"},
		{"other version", mesos.TaskInfo{TaskID: mesos.TaskID{Value: "t1"}, Data: []byte(`{"mesos-gpu":99}`)}, nil, "version 99"},
		{"nothing to run", mesos.TaskInfo{TaskID: mesos.TaskID{Value: "t1"}}, nil, "neither data nor a command"},
		{"too few granted", info(t, task.TaskSpec{GPUs: 2}), grant([]int{3}, true, nil), "task holds 2 GPUs and the executor's devices cgroup grants 1 (nvidia3)"},
		{"too many granted", info(t, task.TaskSpec{GPUs: 0}), grant([]int{0, 1}, true, nil),
			"task holds 0 GPUs and the executor's devices cgroup grants 2 (nvidia0, nvidia1)"},
		{"docker without a cgroup", info(t, task.TaskSpec{GPUs: 1, Containerizer: job.Docker}), grant(nil, false, nil),
			"no device cgroup says which: run the agent as root with GPU isolation, or use"},
		{"cgroup unreadable", info(t, task.TaskSpec{GPUs: 1, Containerizer: job.Docker}),
			grant(nil, false, errors.New("read devices.list: permission denied")), "read devices.list"},
		{"gpus and gpu_ids differ", info(t, task.TaskSpec{GPUs: 2, DeviceIDs: []string{"GPU-a"}}), nil, "2 gpus and 1 gpu_ids"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				if tt.granted != nil {
					r.cfg.ReadGrantedGPUs = tt.granted
				}
				r.run()
				r.subscribed()
				r.launch(tt.info)
				s := r.update(mesos.TASK_FAILED)
				if got := s.GetMessage(); !strings.Contains(got, tt.want) {
					t.Errorf("message is %q, want %q in it", got, tt.want)
				}
				r.acknowledge(s)
				r.endedWell()
			})
		})
	}
}

func TestGrantedGPUsReachRuntime(t *testing.T) {
	noCgroup := errors.New("no cgroup v1 devices hierarchy")
	tests := []struct {
		name   string
		launch task.TaskSpec
		reach  gpu.DeviceAccess
		err    error
		want   int
	}{
		{"confined docker", task.TaskSpec{GPUs: 2, Containerizer: job.Docker}, gpu.DeviceAccess{Confined: true, Minors: []int{1, 3}}, nil, 2},
		{"confined mesos", task.TaskSpec{GPUs: 1}, gpu.DeviceAccess{Confined: true, Minors: []int{2}}, nil, 1},
		{"two slices of one GPU", task.TaskSpec{GPUs: 2}, gpu.DeviceAccess{Confined: true, Minors: []int{2}, Caps: []int{30, 31, 39, 40}}, nil, 1},
		{"unconfined mesos", task.TaskSpec{GPUs: 2}, gpu.DeviceAccess{}, nil, 0},
		{"unconfined docker without GPU", task.TaskSpec{Containerizer: job.Docker}, gpu.DeviceAccess{}, nil, 0},
		{"mesos without known devices", task.TaskSpec{GPUs: 2}, gpu.DeviceAccess{}, noCgroup, 0},
		{"docker without GPU, without known devices", task.TaskSpec{Containerizer: job.Docker}, gpu.DeviceAccess{}, noCgroup, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.cfg.ReadGrantedGPUs = func() (gpu.DeviceAccess, error) { return tt.reach, tt.err }
				r.run()
				r.subscribed()
				r.launch(info(t, tt.launch))
				r.running()
				if got := len(r.task.got.Minors); got != tt.want || len(r.task.got.Caps) != len(tt.reach.Caps) {
					t.Errorf("runtime was given %d minors and %d capabilities, want %d and %d", got, len(r.task.got.Caps), tt.want, len(tt.reach.Caps))
				}
				r.task.exit <- task.ExitStatus{}
				r.acknowledge(r.update(mesos.TASK_FINISHED))
				r.endedWell()
			})
		})
	}
}

func TestStartError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).run()
		r.subscribed()
		r.launch(info(t, task.TaskSpec{}))
		r.update(mesos.TASK_STARTING)
		r.task.start <- errors.New("image nope is not on this agent")
		s := r.update(mesos.TASK_FAILED)
		if s.GetMessage() != "image nope is not on this agent" || s.GetReason() != mesos.REASON_CONTAINER_LAUNCH_FAILED {
			t.Errorf("got message %q and reason %s", s.GetMessage(), s.GetReason())
		}
		r.acknowledge(s)
		r.endedWell()
	})
}

// The label shows the framework which launches may succeed on other agents.
func TestIncompatibleImageIsLabelled(t *testing.T) {
	_, unreadable := image.Examine(nil, []string{"NVIDIA_VISIBLE_DEVICES=all", "CUDA_VERSION=cu128"}, nil, image.HostDriver{})
	unfit := &image.IncompatibleError{
		Cause:      image.DriverMismatch,
		RequiredBy: "NVIDIA_REQUIRE_CUDA",
		Required:   "cuda>=13.0",
		Found:      "driver 535.104.05 with CUDA 12.2",
	}
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"by the driver", fmt.Errorf("image app: %w", unfit), "driver"},
		{"by the GPU", &image.IncompatibleError{Cause: image.GPUMismatch}, "gpu"},
		{"by any host", fmt.Errorf("image app: %w", unreadable), "any host"},
		{"by any host, an agent's answer", image.ParseAgentError(errors.New("launch container: 400 Bad Request: " + unreadable.Error())), "any host"},
		{"an agent's answer", image.ParseAgentError(errors.New("launch container: 400 Bad Request: " + unfit.Error())), "driver"},
		{"another error", errors.New("image app: NVIDIA_REQUIRE_CUDA: no value for cuda"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t).run()
				r.subscribed()
				r.launch(info(t, task.TaskSpec{}))
				r.update(mesos.TASK_STARTING)
				r.task.start <- tt.err
				s := r.update(mesos.TASK_FAILED)
				got := ""
				for _, l := range s.GetLabels().GetLabels() {
					if l.Key == "mesos-gpu.unfit" {
						got = l.GetValue()
					}
				}
				if got != tt.want || s.GetMessage() != tt.err.Error() || s.GetReason() != mesos.REASON_CONTAINER_LAUNCH_FAILED {
					t.Errorf("got label %q, message %q and reason %s; want label %q", got, s.GetMessage(), s.GetReason(), tt.want)
				}
				r.acknowledge(s)
				r.endedWell()
			})
		})
	}
}

func TestSecondTaskIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).run()
		r.subscribed()
		r.launch(info(t, task.TaskSpec{}))
		r.running()
		second := info(t, task.TaskSpec{})
		second.TaskID.Value = "t2"
		r.launch(second)
		s := r.update(mesos.TASK_FAILED)
		if s.TaskID.Value != "t2" || !strings.Contains(s.GetMessage(), "already has task t1") {
			t.Errorf("task %s failed with %q", s.TaskID.Value, s.GetMessage())
		}
		r.acknowledge(s)
		r.task.exit <- task.ExitStatus{}
		r.acknowledge(r.update(mesos.TASK_FINISHED))
		r.endedWell()
	})
}

func TestLaunchGroup(t *testing.T) {
	group := func(infos ...mesos.TaskInfo) executor.Event {
		return executor.Event{Type: executor.Event_LAUNCH_GROUP, LaunchGroup: &executor.Event_LaunchGroup{TaskGroup: mesos.TaskGroupInfo{Tasks: infos}}}
	}
	t.Run("a group of one task runs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t).run()
			r.subscribed()
			r.agent.send(group(info(t, task.TaskSpec{})))
			r.running()
			r.task.exit <- task.ExitStatus{}
			r.acknowledge(r.update(mesos.TASK_FINISHED))
			r.endedWell()
		})
	})
	t.Run("a group of two tasks is rejected", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t).run()
			r.subscribed()
			second := info(t, task.TaskSpec{})
			second.TaskID.Value = "t2"
			r.agent.send(group(info(t, task.TaskSpec{}), second))
			for range 2 {
				r.acknowledge(r.update(mesos.TASK_FAILED))
			}
			r.endedWell()
		})
	})
}

func TestMissingAcknowledgementTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.cfg.ackTimeout = 20 * time.Second
		r.run()
		r.subscribed()
		r.launch(info(t, task.TaskSpec{}))
		r.running()
		r.task.exit <- task.ExitStatus{}
		r.update(mesos.TASK_FINISHED)
		ended := time.Now()
		r.endedWell()
		if got := time.Since(ended); got != 20*time.Second {
			t.Errorf("executor waited %s for the acknowledgement, want 20s", got)
		}
	})
}
