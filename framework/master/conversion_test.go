package master

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

func TestEveryMesosStateIsConverted(t *testing.T) {
	want := map[mesos.TaskState]job.State{
		mesos.TASK_STAGING: job.Staging, mesos.TASK_STARTING: job.Starting, mesos.TASK_RUNNING: job.Running, mesos.TASK_KILLING: job.Killing,
		mesos.TASK_FINISHED: job.Finished, mesos.TASK_FAILED: job.Failed, mesos.TASK_KILLED: job.Killed, mesos.TASK_ERROR: job.Refused,
		mesos.TASK_LOST: job.Lost, mesos.TASK_DROPPED: job.Lost, mesos.TASK_GONE: job.Lost, mesos.TASK_GONE_BY_OPERATOR: job.Lost,
		mesos.TASK_UNKNOWN: job.Lost, mesos.TASK_UNREACHABLE: job.Unreachable,
	}
	for n, name := range mesos.TaskState_name {
		if got := convertState(mesos.TaskState(n)); got != want[mesos.TaskState(n)] || got == "" {
			t.Errorf("%s is %q, want %q", name, got, want[mesos.TaskState(n)])
		}
	}
}

func TestConvertUpdate(t *testing.T) {
	text := func(s string) *string { return &s }
	state := func(s mesos.TaskState) *mesos.TaskState { return &s }
	reason := mesos.REASON_RECONCILIATION
	label := func(v string) *mesos.Labels {
		return &mesos.Labels{Labels: []mesos.Label{{Key: exitCodeLabel, Value: &v}}}
	}
	tests := map[string]struct {
		status  mesos.TaskStatus
		exit    string
		message string
	}{
		"label": {mesos.TaskStatus{State: state(mesos.TASK_FAILED), Labels: label("3"), Message: text("exited with status 4")},
			"3", "exited with status 4"},
		"bad label": {mesos.TaskStatus{State: state(mesos.TASK_FAILED), Labels: label("x")}, "", ""},
		"Mesos's message": {mesos.TaskStatus{State: state(mesos.TASK_FAILED), Message: text("Command exited with status 137")},
			"137", "Command exited with status 137"},
		"killed":          {mesos.TaskStatus{State: state(mesos.TASK_KILLED), Message: text("killed by signal 9 (SIGKILL)")}, "", "killed by signal 9 (SIGKILL)"},
		"not ended":       {mesos.TaskStatus{State: state(mesos.TASK_RUNNING), Labels: label("3")}, "", ""},
		"lost":            {mesos.TaskStatus{State: state(mesos.TASK_GONE), Message: text("no agent"), Reason: &reason}, "", "TASK_GONE: no agent"},
		"lost in silence": {mesos.TaskStatus{State: state(mesos.TASK_DROPPED)}, "", "TASK_DROPPED"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			u := convertUpdate(&tt.status)
			got := ""
			if u.ExitCode != nil {
				got = strconv.Itoa(*u.ExitCode)
			}
			if got != tt.exit || u.Message != tt.message || u.Reconciled != (tt.status.Reason != nil) {
				t.Errorf("exit %q message %q reconciled %t", got, u.Message, u.Reconciled)
			}
		})
	}
}

// TestExecutorThatDoesNotRegisterIsAMachineFault: an agent ends an executor that does not register in time.
func TestExecutorThatDoesNotRegisterIsAMachineFault(t *testing.T) {
	for reason, want := range map[mesos.TaskStatus_Reason]string{
		mesos.REASON_EXECUTOR_REGISTRATION_TIMEOUT:   job.NoExecutor,
		mesos.REASON_EXECUTOR_REREGISTRATION_TIMEOUT: "",
		mesos.REASON_EXECUTOR_TERMINATED:             "",
	} {
		u := convertUpdate(&mesos.TaskStatus{State: mesos.TASK_FAILED.Enum(), Reason: reason.Enum()})
		if u.MachineFault != want {
			t.Errorf("%s: got %q, want %q", reason, u.MachineFault, want)
		}
	}
}

// TestModuleMarksMachineFault: a container that the module refuses has no executor that could label the status. The mark in
// its message is read and removed, but only from an agent.
func TestModuleMarksMachineFault(t *testing.T) {
	const refusal = "Failed to launch container: the GPU daemon at /run/d.sock: prepare container c: GPU g is held by container b"
	message := job.MarkMachineFault(refusal, job.DeviceHeld)
	for source, want := range map[mesos.TaskStatus_Source]string{mesos.SOURCE_AGENT: job.DeviceHeld, mesos.SOURCE_EXECUTOR: ""} {
		u := convertUpdate(&mesos.TaskStatus{State: mesos.TASK_FAILED.Enum(), Source: &source, Message: &message})
		if u.MachineFault != want || u.Message != refusal {
			t.Errorf("%s: got fault %q and message %q; want %q and %q", source, u.MachineFault, u.Message, want, refusal)
		}
	}
}

func TestImageMismatchCause(t *testing.T) {
	labels := func(key, value string) *mesos.Labels {
		return &mesos.Labels{Labels: []mesos.Label{{Key: exitCodeLabel, Value: new("1")}, {Key: key, Value: &value}}}
	}
	for _, tt := range []struct {
		state  mesos.TaskState
		labels *mesos.Labels
		want   sched.ImageMismatch
	}{
		{mesos.TASK_FAILED, labels("mesos-gpu.unfit", "driver"), sched.MismatchDriver},
		{mesos.TASK_FAILED, labels("mesos-gpu.unfit", "gpu"), sched.MismatchGPU},
		{mesos.TASK_FAILED, labels("mesos-gpu.unfit", "any host"), sched.MismatchAnyAgent},
		{mesos.TASK_FAILED, labels("mesos-gpu.unfit", "firmware"), sched.MismatchGPU},
		{mesos.TASK_FAILED, labels("mesos-gpu.unfits", "driver"), ""},
		{mesos.TASK_FAILED, nil, ""},
		{mesos.TASK_FINISHED, labels("mesos-gpu.unfit", "driver"), ""},
		{mesos.TASK_RUNNING, labels("mesos-gpu.unfit", "driver"), ""},
	} {
		if got := convertUpdate(&mesos.TaskStatus{State: tt.state.Enum(), Labels: tt.labels}).Mismatch; got != tt.want {
			t.Errorf("%s with %v: got %q, want %q", tt.state, tt.labels, got, tt.want)
		}
	}
}

func TestOfferAttributes(t *testing.T) {
	host := gpu.Host{Driver: "535.104.05", CUDA: "12.2", Devices: []gpu.Device{{UUID: "GPU-a", Model: "Tesla V100-SXM2-16GB"}}}
	packed, err := gpu.EncodeInventory(host)
	if err != nil {
		t.Fatal(err)
	}
	attr := func(name, text string) mesos.Attribute {
		return mesos.Attribute{Name: name, Type: mesos.TEXT, Text: &mesos.Value_Text{Value: text}}
	}
	c := newTestClient(t)
	for range 2 { // the second one comes from the cache
		got, types := c.readHardware([]mesos.Attribute{attr(attrType, "V100"), attr(attrInventory, packed), attr("rack", "7")})
		if diff := cmp.Diff(host, got); diff != "" || len(types) != 1 || types[0] != "V100" {
			t.Errorf("types %v, host %s", types, diff)
		}
	}
	cuda := mesos.Attribute{Name: attrCUDA, Type: mesos.SCALAR, Scalar: &mesos.Value_Scalar{Value: 12.2}}
	got, _ := c.readHardware([]mesos.Attribute{attr(attrDriver, "535.104.05"), cuda, attr(attrInventory, "nonsense")})
	if diff := cmp.Diff(gpu.Host{Driver: "535.104.05", CUDA: "12.2"}, got); diff != "" {
		t.Errorf("an unreadable inventory: %s", diff)
	}
}

func TestAgentURLs(t *testing.T) {
	var plain, secure = ConnectionConfig{}, ConnectionConfig{TLS: &TLSFiles{}}
	text := func(s string) *string { return &s }
	if plain.agentURL(nil) != "" || plain.agentURLFromPID("nonsense") != "" {
		t.Error("an empty address was converted to a URL")
	}
	name, path := text("agent.example"), text("/slave(1)")
	for _, tt := range []struct {
		cfg  *ConnectionConfig
		url  mesos.URL
		want string
	}{
		{&plain, mesos.URL{Scheme: "https", Address: mesos.Address{Hostname: name, Port: 5051}}, "https://agent.example:5051"},
		{&plain, mesos.URL{Scheme: "http", Address: mesos.Address{Hostname: name, IP: text("10.0.0.1"), Port: 5051}, Path: path}, "http://10.0.0.1:5051/slave(1)"},
		{&secure,
			mesos.URL{Scheme: "http", Address: mesos.Address{Hostname: name, IP: text("10.0.0.1"), Port: 5051}, Path: path},
			"https://agent.example:5051/slave(1)"},
		{&plain, mesos.URL{Scheme: "http", Address: mesos.Address{IP: text("fd00::1"), Port: 5051}, Path: path}, "http://[fd00::1]:5051/slave(1)"},
	} {
		if got := tt.cfg.agentURL(&tt.url); got != tt.want {
			t.Errorf("%v is %s, want %s", tt.url, got, tt.want)
		}
	}
	for pid, want := range map[string]string{
		"slave(1)@127.0.0.1:5051": "http://127.0.0.1:5051/slave(1)",
		"slave(1)@[::1]:5051":     "http://[::1]:5051/slave(1)",
		"slave(1)@fd00::1:5051":   "http://[fd00::1]:5051/slave(1)",
	} {
		if got := plain.agentURLFromPID(pid); got != want {
			t.Errorf("%s is %s, want %s", pid, got, want)
		}
	}
}

// The report of Mesos about a memory limit keeps the two numbers, without the statistics of the cgroup.
func TestConvertMemoryLimit(t *testing.T) {
	for _, c := range []struct{ says, want string }{
		{"Memory limit exceeded: Requested: 288MB Maximum Used: 287.5MB\n\nMEMORY STATISTICS: \ncache 0\n",
			"out of memory: the limit is 288 MiB, the peak was 287.5 MiB, with the executor"},
		{"Memory limit exceeded: Requested: 33000KB Maximum Used: 1GB\n", "out of memory: the limit is 33000 KiB, the peak was 1 GiB, with the executor"},
		{"Memory limit exceeded: Requested: 512B Maximum Used: 512B", "out of memory: the limit is 512 B, the peak was 512 B, with the executor"},
		{"killed by signal 9 (SIGKILL): Memory limit exceeded: Requested: 288MB Maximum Used: 288MB; MEMORY STATISTICS: ; cache 0",
			"killed by signal 9 (SIGKILL): out of memory: the limit is 288 MiB, the peak was 288 MiB, with the executor"},
		{"Memory limit exceeded", "Memory limit exceeded"},
	} {
		s := mesos.TaskStatus{State: mesos.TASK_FAILED.Enum(), Reason: mesos.REASON_CONTAINER_LIMITATION_MEMORY.Enum(), Message: &c.says}
		if got := convertUpdate(&s).Message; got != c.want {
			t.Errorf("%q is %q, want %q", c.says, got, c.want)
		}
	}
	says := "Memory limit exceeded: Requested: 1MB Maximum Used: 1MB"
	if got := convertUpdate(&mesos.TaskStatus{State: mesos.TASK_FAILED.Enum(), Message: &says}).Message; got != says {
		t.Errorf("the message of a task is %q", got)
	}
}
