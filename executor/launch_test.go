package executor

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
	"mesos-gpu/job"
)

func ptr[T any](v T) *T { return &v }

func resources() []mesos.Resource {
	return []mesos.Resource{
		{Name: "cpus", Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: 1.5}},
		{Name: "mem", Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: 64}},
		{Name: "gpus", Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: 1}},
		{Name: "gpus", Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: 1}},
		{Name: "gpu_ids", Type: mesos.SET.Enum(), Set: &mesos.Value_Set{Item: []string{"GPU-a", "GPU-b"}}},
	}
}

func dockerInfo(change func(*mesos.ContainerInfo)) *mesos.ContainerInfo {
	c := &mesos.ContainerInfo{Type: mesos.ContainerInfo_DOCKER.Enum(), Docker: &mesos.ContainerInfo_DockerInfo{Image: "debian:12"}}
	if change != nil {
		change(c)
	}
	return c
}

func TestParseTaskCommand(t *testing.T) {
	shell := &mesos.CommandInfo{
		Value:       ptr("echo $A"),
		Environment: &mesos.Environment{Variables: []mesos.Environment_Variable{{Name: "A", Value: ptr("b")}, {Name: "SECRET"}}},
	}
	argv := &mesos.CommandInfo{Shell: ptr(false), Value: ptr("/bin/echo"), Arguments: []string{"hi"}}
	base := task.TaskSpec{
		ID: "t1", Job: "n", Containerizer: job.Mesos, CPUs: 1.5, MemMiB: 64, GPUs: 2, DeviceIDs: []string{"GPU-a", "GPU-b"}, KillGrace: 5 * time.Second,
	}
	with := func(change func(*task.TaskSpec)) task.TaskSpec {
		w := base
		w.Env = map[string]string{}
		change(&w)
		return w
	}
	docker := func(change func(*task.TaskSpec)) task.TaskSpec {
		return with(func(w *task.TaskSpec) {
			w.Containerizer, w.Image, w.MesosContainer = job.Docker, "debian:12", dockerInfo(nil)
			change(w)
		})
	}
	ours := marshal(t, job.LaunchData{Version: job.LaunchVersion, Job: "train", Index: 3, Command: []string{"train"}, Env: map[string]string{"A": "b"}})
	own, second := &mesos.HealthCheck{Type: mesos.HealthCheck_TCP, TCP: &mesos.HealthCheck_TCPCheckInfo{Port: 80}}, mesos.HealthCheck{
		Type: mesos.HealthCheck_HTTP,
		HTTP: &mesos.HealthCheck_HTTPCheckInfo{Port: 443, Scheme: ptr("https"), Path: ptr("/")},
	}
	rich, err := job.LaunchData{Job: "train", Command: []string{"-v"}, ImageEntrypoint: true, HealthChecks: []json.RawMessage{marshal(t, &second)}}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		info mesos.TaskInfo
		want task.TaskSpec
	}{
		{
			"the image's entrypoint and two health checks", mesos.TaskInfo{Data: rich, HealthCheck: own},
			with(func(w *task.TaskSpec) {
				w.Job, w.Argv, w.Env, w.ImageEntrypoint = "train", []string{"-v"}, nil, true
				w.HealthChecks = []*mesos.HealthCheck{own, &second}
			}),
		},
		{
			"shell by mesos", mesos.TaskInfo{Command: shell, Data: []byte("the framework's own")},
			with(func(w *task.TaskSpec) { w.Command = shell; w.Env = map[string]string{"A": "b"} }),
		},
		{
			"kill policy", mesos.TaskInfo{Command: argv, KillPolicy: &mesos.KillPolicy{GracePeriod: &mesos.DurationInfo{Nanoseconds: 9e9}}},
			with(func(w *task.TaskSpec) { w.Command = argv; w.KillGrace = 9 * time.Second }),
		},
		{
			"argv by docker", mesos.TaskInfo{Command: argv, Container: dockerInfo(nil)},
			docker(func(w *task.TaskSpec) { w.Command = argv; w.Argv = []string{"/bin/echo", "hi"} }),
		},
		{
			"shell by docker", mesos.TaskInfo{Command: &mesos.CommandInfo{Value: ptr("echo hi")}, Container: dockerInfo(nil)},
			docker(func(w *task.TaskSpec) {
				w.Command = &mesos.CommandInfo{Value: ptr("echo hi")}
				w.Entrypoint, w.Argv = []string{"/bin/sh"}, []string{"-c", "echo hi"}
			}),
		},
		{
			"image's own command, and the framework's own data", mesos.TaskInfo{Container: dockerInfo(nil), Data: []byte(`{"version": 1}`)},
			docker(func(w *task.TaskSpec) { w.Command = &mesos.CommandInfo{} }),
		},
		{
			"a job's in docker", mesos.TaskInfo{Container: dockerInfo(nil), Data: ours},
			docker(func(w *task.TaskSpec) {
				w.Job, w.Index, w.Argv, w.Env = "train", 3, []string{"train"}, map[string]string{"A": "b"}
			}),
		},
		{
			"a job's by mesos", mesos.TaskInfo{Data: ours, Labels: &mesos.Labels{Labels: []mesos.Label{{Key: "team", Value: ptr("vision")}}}},
			with(func(w *task.TaskSpec) {
				w.Job, w.Index, w.Argv, w.Env = "train", 3, []string{"train"}, map[string]string{"A": "b"}
				w.Labels = map[string]string{"team": "vision"}
			}),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.info.Name, tt.info.TaskID.Value, tt.info.Resources = "n", "t1", resources()
			got, err := parseTask(tt.info)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("task (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseTaskRejects(t *testing.T) {
	tests := []struct {
		name, want string
		info       mesos.TaskInfo
	}{
		{"no image", "no docker.image", mesos.TaskInfo{Container: dockerInfo(func(c *mesos.ContainerInfo) { c.Docker = nil })}},
		{"uris", "command.uris", mesos.TaskInfo{Command: &mesos.CommandInfo{URIs: []mesos.CommandInfo_URI{{}}}, Container: dockerInfo(nil)}},
		{"secret", "variable TOKEN is a secret", mesos.TaskInfo{Container: dockerInfo(nil), Command: &mesos.CommandInfo{
			Environment: &mesos.Environment{Variables: []mesos.Environment_Variable{{Name: "TOKEN"}}}}}},
		{"second health check without its port", "health_check of type HTTP has no field",
			mesos.TaskInfo{Data: []byte(`{"mesos-gpu":3,"command":["x"],"health_checks":[{"type":"TCP","tcp":{"port":1}},{"type":"HTTP"}]}`)}},
		{"unreadable health check", "read health check 1 of the task data", mesos.TaskInfo{Data: []byte(`{"mesos-gpu":3,"command":["x"],"health_checks":["x"]}`)}},
		{"empty check", "check of type UNKNOWN has no field for that type", mesos.TaskInfo{Check: &mesos.CheckInfo{}, Container: dockerInfo(nil)}},
		{"check without its port", "check of type TCP has no field", mesos.TaskInfo{
			Check:   &mesos.CheckInfo{Type: mesos.CheckInfo_TCP},
			Command: &mesos.CommandInfo{},
		}},
		{"health check without its command", "health_check of type COMMAND has no field", mesos.TaskInfo{
			HealthCheck: &mesos.HealthCheck{Type: mesos.HealthCheck_COMMAND},
			Command:     &mesos.CommandInfo{},
		}},
		{"check by another user", "has user daemon", mesos.TaskInfo{Command: &mesos.CommandInfo{}, Check: &mesos.CheckInfo{Type: mesos.CheckInfo_COMMAND,
			Command: &mesos.CheckInfo_Command{Command: mesos.CommandInfo{Value: ptr("true"), User: ptr("daemon")}}}}},
		{"health check by another user, in docker", "has user daemon", mesos.TaskInfo{
			Container: dockerInfo(nil),
			HealthCheck: &mesos.HealthCheck{Type: mesos.HealthCheck_COMMAND,
				Command: &mesos.CommandInfo{Value: ptr("true"), User: ptr("daemon")}},
		}},
		{"health check with a secret", "variable TOKEN of health_check's command is a secret", mesos.TaskInfo{
			Command: &mesos.CommandInfo{},
			HealthCheck: &mesos.HealthCheck{Type: mesos.HealthCheck_COMMAND,
				Command: &mesos.CommandInfo{Value: ptr("true"), Environment: &mesos.Environment{Variables: []mesos.Environment_Variable{{Name: "TOKEN"}}}}},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := parseTask(tt.info)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %v, want %q in it", err, tt.want)
			}
		})
	}
}

// Resources of a task other than cpus, mem and GPUs are passed to the runtime.
func TestParseTaskLimits(t *testing.T) {
	ports := []mesos.Value_Range{{Begin: 31000, End: 31001}}
	got, err := parseTask(mesos.TaskInfo{
		Container: dockerInfo(nil), Limits: map[string]mesos.Value_Scalar{"mem": {Value: 96}, "cpus": {Value: math.Inf(1)}},
		Resources: []mesos.Resource{
			{Name: "ports", Type: mesos.RANGES.Enum(), Ranges: &mesos.Value_Ranges{Range: ports}, AllocationInfo: &mesos.Resource_AllocationInfo{Role: ptr("research")}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]float64{"mem": 96, "cpus": math.Inf(1)}, got.Limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(ports, got.Ports); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
	if role := got.Environment()["MESOS_ALLOCATION_ROLE"]; role != "research" {
		t.Errorf("role in the environment is %q", role)
	}
}
