package check

import (
	"strings"
	"testing"

	"github.com/gogo/protobuf/proto"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	"github.com/mesos/mesos-go/api/v1/lib/scheduler"

	"mesos-gpu/internal/minimesos/resource"
)

func rs(cpus, gpus float64, ids ...string) []mesos.Resource {
	out := []mesos.Resource{
		{Name: "cpus", Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: cpus}},
		{Name: "mem", Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: 100 * cpus}},
		{Name: "disk", Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: cpus}},
	}
	if gpus > 0 {
		out = append(out, mesos.Resource{Name: "gpus", Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: gpus}})
	}
	if len(ids) > 0 {
		out = append(out, mesos.Resource{Name: "gpu_ids", Type: mesos.SET.Enum(), Set: &mesos.Value_Set{Item: ids}})
	}
	return resource.Allocate(out, "r")
}

func command() mesos.TaskInfo {
	return mesos.TaskInfo{
		TaskID: mesos.TaskID{Value: "t"}, AgentID: mesos.AgentID{Value: "a"},
		Command: &mesos.CommandInfo{}, Resources: rs(1, 1, "A"),
	}
}

func executor(id string) mesos.ExecutorInfo {
	return mesos.ExecutorInfo{
		Type: mesos.ExecutorInfo_CUSTOM, ExecutorID: mesos.ExecutorID{Value: id}, FrameworkID: &mesos.FrameworkID{Value: "f"},
		Command: &mesos.CommandInfo{}, Resources: rs(1, 0),
	}
}

func custom() mesos.TaskInfo {
	t, e := command(), executor("e")
	t.Command, t.Executor = nil, &e
	return t
}

func onAgent() LaunchCheck {
	return LaunchCheck{
		Framework: mesos.FrameworkID{Value: "f"}, Agent: mesos.AgentID{Value: "a"}, Free: rs(2, 2, "A", "B"),
		HasTask: func(id string) bool { return id == "taken" },
		Executor: func(id string) (mesos.ExecutorInfo, bool) {
			e := executor("runs")
			e.Resources = rs(4, 0)
			return e, id == "runs"
		},
	}
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestValidateTask(t *testing.T) {
	for _, tc := range []struct {
		name   string
		task   mesos.TaskInfo
		change func(*mesos.TaskInfo)
		want   string
	}{
		{"command", command(), func(*mesos.TaskInfo) {}, ""},
		{"custom executor", custom(), func(*mesos.TaskInfo) {}, ""},
		{"running executor is not charged again", custom(), func(t *mesos.TaskInfo) {
			e, _ := onAgent().Executor("runs")
			t.Executor, t.Resources = &e, rs(2, 0)
		}, ""},
		{"no id", command(), func(t *mesos.TaskInfo) { t.TaskID.Value = "" }, "empty"},
		{"id with slash", command(), func(t *mesos.TaskInfo) { t.TaskID.Value = "a/b" }, "invalid characters"},
		{"id is a folder", command(), func(t *mesos.TaskInfo) { t.TaskID.Value = ".." }, "disallowed"},
		{"long id", command(), func(t *mesos.TaskInfo) { t.TaskID.Value = strings.Repeat("x", 256) }, "256 characters"},
		{"duplicate id", command(), func(t *mesos.TaskInfo) { t.TaskID.Value = "taken" }, "duplicate ID"},
		{"other agent", command(), func(t *mesos.TaskInfo) { t.AgentID.Value = "b" }, "agent a is expected"},
		{"no resources", command(), func(t *mesos.TaskInfo) { t.Resources = nil }, "no resources"},
		{"fractional GPUs", command(), func(t *mesos.TaskInfo) { t.Resources = rs(1, 0.5) }, "The 'gpus' resource must be an unsigned integer"},
		{"too many GPUs", command(), func(t *mesos.TaskInfo) { t.Resources = rs(1, 3) }, "more than available"},
		{"a GPU that is not offered", command(), func(t *mesos.TaskInfo) { t.Resources = rs(1, 1, "C") }, "more than available"},
		{"other role", command(), func(t *mesos.TaskInfo) { t.Resources = resource.Allocate(resource.Unallocate(rs(1, 0)), "q") }, "more than available"},
		{"two roles", command(), func(t *mesos.TaskInfo) {
			t.Resources[0].AllocationInfo = &mesos.Resource_AllocationInfo{Role: proto.String("q")}
		}, "multiple allocation roles"},
		{"GPU twice", command(), func(t *mesos.TaskInfo) { t.Resources = append(rs(1, 1, "A"), rs(0, 0, "A")[3:]...) }, "twice"},
		{"neither executor nor command", command(), func(t *mesos.TaskInfo) { t.Command = nil }, "not both"},
		{"executor and command", custom(), func(t *mesos.TaskInfo) { t.Command = &mesos.CommandInfo{} }, "not both"},
		{"with the executor too much", custom(), func(t *mesos.TaskInfo) { t.Resources = rs(1.5, 0) }, "more than available"},
		{"GPU of task and executor", custom(), func(t *mesos.TaskInfo) { t.Executor.Resources = rs(1, 1, "A") }, "overlapping"},
		{"executor without command", custom(), func(t *mesos.TaskInfo) { t.Executor.Command = nil }, "'ExecutorInfo.command'"},
		{"default executor", custom(), func(t *mesos.TaskInfo) { t.Executor.Type = mesos.ExecutorInfo_DEFAULT }, "CUSTOM"},
		{"executor of another framework", custom(), func(t *mesos.TaskInfo) { t.Executor.FrameworkID = &mesos.FrameworkID{Value: "g"} }, "expected: f"},
		{"executor without id", custom(), func(t *mesos.TaskInfo) { t.Executor.ExecutorID.Value = "" }, "executor id"},
		{"executor id that leaves its folder", custom(), func(t *mesos.TaskInfo) { t.Executor.ExecutorID.Value = "../x" }, "invalid characters"},
		{"executor differs from the running one", custom(), func(t *mesos.TaskInfo) { t.Executor.ExecutorID.Value = "runs" }, "not compatible"},
		{"executor's resources", custom(), func(t *mesos.TaskInfo) { t.Executor.Resources = rs(1, 0.5) }, "executor uses invalid resources"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.change(&tc.task)
			wantError(t, onAgent().ValidateTask(tc.task), tc.want)
		})
	}
}

func TestValidateFrameworkAndUpdate(t *testing.T) {
	base := mesos.FrameworkInfo{
		User:         "u",
		Roles:        []string{"a", "b"},
		Capabilities: []mesos.FrameworkInfo_Capability{{Type: mesos.FrameworkInfo_Capability_MULTI_ROLE}},
	}
	with := func(change func(*mesos.FrameworkInfo)) mesos.FrameworkInfo {
		f := base
		change(&f)
		return f
	}
	wantError(t, ValidateFramework(base), "")
	wantError(t, ValidateFramework(with(func(f *mesos.FrameworkInfo) { f.Roles = []string{"a", "a//b"} })), "invalid role")
	wantError(t, ValidateFramework(with(func(f *mesos.FrameworkInfo) { f.ID = &mesos.FrameworkID{Value: "a/b"} })), "framework id")
	wantError(t, ValidateSuppressed(base, []string{"b"}), "")
	wantError(t, ValidateSuppressed(base, []string{"c"}), `"c"`)
	wantError(t, ValidateUpdate(base, with(func(f *mesos.FrameworkInfo) { f.Principal = proto.String("p") }), false), "principal")
	user := with(func(f *mesos.FrameworkInfo) { f.User = "v" })
	wantError(t, ValidateUpdate(base, user, false), "")
	wantError(t, ValidateUpdate(base, user, true), "user")
	wantError(t, ValidateUpdate(base, with(func(f *mesos.FrameworkInfo) { f.Checkpoint = proto.Bool(true) }), true), "checkpoint")
}

// The error for a call without its message names the message.
func TestValidateCall(t *testing.T) {
	for number, name := range scheduler.Call_Type_name {
		call := &scheduler.Call{Type: scheduler.Call_Type(number), FrameworkID: &mesos.FrameworkID{Value: "f"}}
		want := "'" + strings.ToLower(name) + "'"
		switch call.Type {
		case scheduler.Call_UNKNOWN, scheduler.Call_TEARDOWN, scheduler.Call_REVIVE, scheduler.Call_SUPPRESS, scheduler.Call_REQUEST,
			scheduler.Call_ACKNOWLEDGE_OPERATION_STATUS, scheduler.Call_RECONCILE_OPERATIONS:
			want = ""
		}
		wantError(t, ValidateCall(call), want)
	}
}
