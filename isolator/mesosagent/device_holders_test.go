package mesosagent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/agent"

	"mesos-gpu/gpu"
)

func readRecorded(t *testing.T, name string) *agent.Response {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	response := new(agent.Response)
	if err := json.Unmarshal(text, response); err != nil {
		t.Fatal(err)
	}
	return response
}

// Responses of an Apache Mesos 1.12 agent about two command tasks, which have no executor
// ID. The tasks are the master's record while they ran.
func TestRecordedResponses(t *testing.T) {
	got := listHolders(agentState{containers: readRecorded(t, "GET_CONTAINERS").GetContainers, tasks: readRecorded(t, "GET_TASKS").GetTasks})
	want := []gpu.ContainerDevices{
		{
			Container: "a75080a6-2e1b-40e0-b3fd-fb2ff769b2c3", Framework: "ee518ef3-63c5-4d4e-a899-a44f362b9560-0004",
			Executor: "t-7ebfc8", Task: "t-7ebfc8", Devices: []string{"GPU-b"},
		},
		{
			Container: "6b19d2e8-4292-4b55-a7e7-316fec72f9cd", Framework: "ee518ef3-63c5-4d4e-a899-a44f362b9560-0003",
			Executor: "t-3613ae", Task: "t-3613ae", Devices: []string{"GPU-b"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func container(id, executor string) agent.Response_GetContainers_Container {
	return agent.Response_GetContainers_Container{
		FrameworkID: &mesos.FrameworkID{Value: "F"}, ExecutorID: &mesos.ExecutorID{Value: executor},
		ContainerID: mesos.ContainerID{Value: id},
	}
}

func resources(count float64, ids ...string) []mesos.Resource {
	list := []mesos.Resource{{Name: "cpus", Scalar: &mesos.Value_Scalar{Value: 3}}}
	if count > 0 {
		list = append(list, mesos.Resource{Name: "gpus", Scalar: &mesos.Value_Scalar{Value: count}})
	}
	if len(ids) > 0 {
		list = append(list, mesos.Resource{Name: "gpu_ids", Set: &mesos.Value_Set{Item: ids}})
	}
	return list
}

func task(id, executor, job string, r []mesos.Resource) mesos.Task {
	t := mesos.Task{TaskID: mesos.TaskID{Value: id}, FrameworkID: mesos.FrameworkID{Value: "F"}, Resources: r}
	if executor != "" {
		t.ExecutorID = &mesos.ExecutorID{Value: executor}
	}
	if job != "" {
		t.Labels = &mesos.Labels{Labels: []mesos.Label{{Key: "other"}, {Key: jobLabelKey, Value: &job}}}
	}
	return t
}

func executor(id string, r []mesos.Resource) agent.Response_GetExecutors_Executor {
	return agent.Response_GetExecutors_Executor{ExecutorInfo: mesos.ExecutorInfo{
		ExecutorID: mesos.ExecutorID{Value: id}, FrameworkID: &mesos.FrameworkID{Value: "F"}, Resources: r,
	}}
}

func newTestHolder(container, executor, task, job string, devices ...string) gpu.ContainerDevices {
	return gpu.ContainerDevices{Container: container, Framework: "F", Executor: executor, Task: task, Job: job, Devices: devices}
}

func TestListHolders(t *testing.T) {
	nested := container("c1.child", "e")
	nested.ContainerID.Parent = &mesos.ContainerID{Value: "c1"}
	for name, c := range map[string]struct {
		containers []agent.Response_GetContainers_Container
		executors  []agent.Response_GetExecutors_Executor
		launched   []mesos.Task
		queued     []mesos.Task
		want       []gpu.ContainerDevices
	}{
		"our own": {
			containers: []agent.Response_GetContainers_Container{container("c1", "e"), nested},
			executors:  []agent.Response_GetExecutors_Executor{executor("e", resources(0))},
			launched:   []mesos.Task{task("t", "e", "train", resources(2, "GPU-a", "GPU-b"))},
			want:       []gpu.ContainerDevices{newTestHolder("c1", "e", "t", "train", "GPU-a", "GPU-b")},
		},
		"not launched yet": {
			containers: []agent.Response_GetContainers_Container{container("c1", "e")},
			queued:     []mesos.Task{task("t", "e", "", resources(1, "GPU-a"))},
			want:       []gpu.ContainerDevices{newTestHolder("c1", "e", "t", "", "GPU-a")},
		},
		"a task group": {
			containers: []agent.Response_GetContainers_Container{container("c1", "e")},
			executors:  []agent.Response_GetExecutors_Executor{executor("e", resources(1, "GPU-c"))},
			launched: []mesos.Task{
				task("t1", "e", "j", resources(1, "GPU-a")), task("t2", "e", "j", resources(1, "GPU-b")), task("t3", "e", "j", resources(0)),
			},
			want: []gpu.ContainerDevices{
				newTestHolder("c1", "e", "t1", "j", "GPU-a"), newTestHolder("c1", "e", "t2", "j", "GPU-b"), newTestHolder("c1", "e", "", "", "GPU-c"),
			},
		},
		"the executor's are its one task's": {
			containers: []agent.Response_GetContainers_Container{container("c1", "e")},
			executors:  []agent.Response_GetExecutors_Executor{executor("e", resources(1, "GPU-c"))},
			launched:   []mesos.Task{task("t1", "e", "", resources(0))},
			want:       []gpu.ContainerDevices{newTestHolder("c1", "e", "t1", "", "GPU-c")},
		},
		"a name and a number": {
			containers: []agent.Response_GetContainers_Container{container("c1", "t")},
			launched:   []mesos.Task{task("t", "", "", resources(2, "GPU-a"))},
			want:       []gpu.ContainerDevices{newTestHolder("c1", "t", "t", "", "GPU-a")},
		},
		"a number alone": {
			containers: []agent.Response_GetContainers_Container{container("c1", "t")},
			launched:   []mesos.Task{task("t", "", "", resources(1))},
		},
		"tasks of another framework's executor of that name": {
			containers: []agent.Response_GetContainers_Container{container("c1", "e")},
			launched: []mesos.Task{{
				TaskID: mesos.TaskID{Value: "t"}, FrameworkID: mesos.FrameworkID{Value: "G"}, ExecutorID: &mesos.ExecutorID{Value: "e"}, Resources: resources(1, "GPU-a"),
			}},
		},
		"nothing": {},
	} {
		t.Run(name, func(t *testing.T) {
			got := listHolders(agentState{
				containers: &agent.Response_GetContainers{Containers: c.containers},
				executors:  &agent.Response_GetExecutors{Executors: c.executors},
				tasks: &agent.Response_GetTasks{
					LaunchedTasks: c.launched, QueuedTasks: c.queued,
					CompletedTasks: []mesos.Task{task("old", "e", "", resources(1, "GPU-z"))}, TerminatedTasks: []mesos.Task{task("old", "e", "", resources(1, "GPU-z"))},
				},
			})
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := listHolders(agentState{}); len(got) != 0 {
		t.Errorf("of no answers: %v", got)
	}
}

func TestMergeHolders(t *testing.T) {
	bare := func(container string, devices ...string) gpu.ContainerDevices {
		return gpu.ContainerDevices{Container: container, Devices: devices}
	}
	for name, c := range map[string]struct{ allocations, agent, want []gpu.ContainerDevices }{
		"nothing":          {},
		"allocations only": {[]gpu.ContainerDevices{bare("c", "a")}, nil, []gpu.ContainerDevices{bare("c", "a")}},
		"agent only": {nil, []gpu.ContainerDevices{newTestHolder("d", "e", "t", "j", "b"), newTestHolder("c", "e", "t", "j", "a")},
			[]gpu.ContainerDevices{newTestHolder("c", "e", "t", "j", "a"), newTestHolder("d", "e", "t", "j", "b")}},
		"devices come from allocations, owners from the agent": {
			[]gpu.ContainerDevices{bare("c", "a", "s")}, []gpu.ContainerDevices{newTestHolder("c", "e", "t", "j", "a")}, []gpu.ContainerDevices{
				newTestHolder("c", "e", "t", "j", "a", "s"),
			},
		},
		"allocations have precedence": {
			[]gpu.ContainerDevices{newTestHolder("c", "E", "T", "J", "a")},
			[]gpu.ContainerDevices{newTestHolder("c", "e", "t", "j", "b")},
			[]gpu.ContainerDevices{newTestHolder("c", "E", "T", "J", "a")},
		},
		"several tasks in one container": {
			[]gpu.ContainerDevices{bare("c", "a", "b", "s")},
			[]gpu.ContainerDevices{newTestHolder("c", "e", "t2", "j", "b"), newTestHolder("c", "e", "t1", "j", "a"), newTestHolder("c", "e", "t3", "j", "gone")},
			[]gpu.ContainerDevices{bare("c", "s"), newTestHolder("c", "e", "t1", "j", "a"), newTestHolder("c", "e", "t2", "j", "b")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, MergeHolders(c.allocations, c.agent)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
