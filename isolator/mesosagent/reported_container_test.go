package mesosagent

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"

	"mesos-gpu/gpu"
)

// A container has the devices of its executor and of its tasks that have not ended, and uses those
// of tasks beyond TASK_STARTING.
func TestListContainers(t *testing.T) {
	state := func(t mesos.Task, s mesos.TaskState) mesos.Task {
		t.State = &s
		return t
	}
	share := []mesos.Resource{
		{Name: "gpu_mem.GPU-s", Scalar: &mesos.Value_Scalar{Value: 100}}, {Name: "gpu_cores.GPU-s", Scalar: &mesos.Value_Scalar{Value: 30}},
	}
	nested, first := container("c1.child", "e"), container("c1", "e")
	nested.ContainerID.Parent = &mesos.ContainerID{Value: "c1"}
	pid := uint32(4711)
	first.ContainerStatus = &mesos.ContainerStatus{ExecutorPID: &pid}
	got := listContainers(agentState{
		containers: &agent.Response_GetContainers{Containers: []agent.Response_GetContainers_Container{first, nested, container("c2", "e2"), container("c3", "e3")}},
		executors:  &agent.Response_GetExecutors{Executors: []agent.Response_GetExecutors_Executor{executor("e", resources(1, "GPU-e"))}},
		tasks: &agent.Response_GetTasks{
			LaunchedTasks: []mesos.Task{
				state(task("t1", "e", "train", resources(1, "GPU-a")), mesos.TASK_RUNNING), state(task("t2", "e", "train", share), mesos.TASK_STARTING),
				state(task("t3", "e", "train", resources(1, "GPU-b")), mesos.TASK_KILLED), state(task("t", "e2", "train", share), mesos.TASK_KILLING),
			},
			QueuedTasks: []mesos.Task{state(task("t4", "e", "train", resources(1, "GPU-c")), mesos.TASK_STAGING)},
		},
	})
	shares := []gpu.DeviceShare{{UUID: "GPU-s", MemMiB: 100, Cores: 30}}
	want := []ReportedContainer{
		{
			ContainerDevices: gpu.ContainerDevices{
				Container: "c1",
				Framework: "F",
				Executor:  "e",
				Devices:   []string{"GPU-e", "GPU-c", "GPU-a", "GPU-s"},
				Shares:    shares,
			},
			PID: 4711, Used: []string{"GPU-e", "GPU-a"},
		},
		{
			ContainerDevices: gpu.ContainerDevices{Container: "c2", Framework: "F", Executor: "e2", Task: "t", Job: "train", Devices: []string{"GPU-s"}, Shares: shares},
			Used:             []string{"GPU-s"}, UsedShares: shares,
		},
		{ContainerDevices: gpu.ContainerDevices{Container: "c3", Framework: "F", Executor: "e3"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
