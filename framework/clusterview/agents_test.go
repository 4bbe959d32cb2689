package clusterview

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched"
	"mesos-gpu/framework/sched/quota"
	"mesos-gpu/gpu"
)

// TestAgentFieldsForConstraints: the fields that constraints compare; of several
// attributes with the same name the first one has precedence.
func TestAgentFieldsForConstraints(t *testing.T) {
	var f AgentFieldCache
	if got := f.FieldsOf("a"); got["@zone"] != "" {
		t.Errorf("before the first list: got %v", got)
	}
	f.UpdateAgents([]master.ListedAgent{
		{ID: "a", Region: "eu", Zone: "eu-1", Host: gpu.Host{Driver: "535.1"}, Attributes: []sched.Attribute{{Name: "rack", Value: "1"}, {Name: "rack", Value: "2"}}},
		{ID: "b"},
	})
	want := map[string]string{"rack": "1", "@region": "eu", "@zone": "eu-1", "@driver": "535.1"}
	if diff := cmp.Diff(want, f.FieldsOf("a")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.UpdateAgents(nil)
	if got := f.FieldsOf("a"); got != nil {
		t.Errorf("of an agent that is gone: got %v", got)
	}
}

// TestGPUStates: an agent that offers GPUs by name offers the healthy ones; the states of
// GPUs that are offered by count are unknown.
func TestGPUStates(t *testing.T) {
	named := &master.ListedAgent{GPUs: 2, DeviceIDs: []string{"a", "b"}, DevicesHeld: []string{"b", "sick"}, Shared: []sched.SharedDevice{{UUID: "c"}, {UUID: "d"}, {UUID: "e"}}}
	named.SharedFree = []sched.SharedDevice{{UUID: "c", MemMiB: 1}, {UUID: "d", Cores: 1}, {UUID: "e"}}
	counted := &master.ListedAgent{GPUs: 2}
	// A task holds one of the withheld GPUs, so the agent's count still includes it.
	telling := &master.ListedAgent{
		GPUs: 2, DeviceIDs: []string{"a"}, DevicesHeld: []string{"sick"},
		Withheld: []gpu.WithheldDevice{{UUID: "sick", Cause: gpu.WithheldUnhealthy}, {UUID: "cordoned", Cause: gpu.WithheldCordoned}},
	}
	for _, test := range []struct {
		agent *master.ListedAgent
		uuid  string
		want  api.GPUState
	}{
		{named, "a", api.FreeGPU},
		{named, "b", api.HeldGPU},
		{named, "c", api.FreeGPU},
		{named, "d", api.FreeGPU},
		{named, "e", api.HeldGPU}, // tasks hold all of the shared device
		{named, "cordoned", api.WithheldGPU},
		{named, "sick", api.WithheldGPU}, // a task still holds it
		{named, "", ""},
		{telling, "a", api.FreeGPU},
		{telling, "sick", api.WithheldGPU},
		{telling, "cordoned", api.WithheldGPU},
		{telling, "", ""},
		{counted, "a", ""},
		{&master.ListedAgent{}, "a", api.WithheldGPU}, // no GPU is healthy
	} {
		if got := gpuStateOf(test.agent, test.uuid); got != test.want {
			t.Errorf("%q of %+v: got %q, want %q", test.uuid, test.agent, got, test.want)
		}
	}
}

// TestSharedGPUs: the total and the free capacity of an agent's shared devices.
func TestSharedGPUs(t *testing.T) {
	a := &master.ListedAgent{
		GPUs: 1, Shared: []sched.SharedDevice{{UUID: "a", MemMiB: 15360}, {UUID: "b", MemMiB: 15360}},
		SharedFree: []sched.SharedDevice{{UUID: "a", MemMiB: 6144}, {UUID: "b", MemMiB: 15360}},
	}
	got := agentView(a, nil).Shared
	if diff := cmp.Diff(&api.SharedGPUs{GPUs: 2, MemMiB: 30720, MemFreeMiB: 21504}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := agentView(&master.ListedAgent{GPUs: 2}, nil).Shared; got != nil {
		t.Errorf("agent without shared devices: %+v", got)
	}
}

// TestGPUReasons: the reasons for states. The reason of an unhealthy device has precedence
// over its agent's.
func TestGPUReasons(t *testing.T) {
	plain, cordoned := &api.AgentSummary{}, &api.AgentSummary{Cordoned: "new fans"}
	sick, kept := &gpu.WithheldDevice{UUID: "a", Cause: gpu.WithheldUnhealthy, Note: "XID 79"}, &gpu.WithheldDevice{UUID: "a", Cause: gpu.WithheldCordoned}
	draining, drained := &api.AgentSummary{Draining: true}, &api.AgentSummary{Draining: true, Cordoned: "dust"}
	for _, test := range []struct {
		gpu   api.GPUView
		agent *api.AgentSummary
		told  *gpu.WithheldDevice
		want  api.GPUReason
		note  string
	}{
		{api.GPUView{State: api.FreeGPU}, plain, nil, "", ""},
		{api.GPUView{State: api.HeldGPU, Task: "a.0"}, plain, nil, "", ""},
		{api.GPUView{State: api.HeldGPU}, plain, nil, api.ReasonForeignTask, "held by another framework"},
		{api.GPUView{State: api.HeldGPU}, cordoned, nil, api.ReasonForeignTask, "held by another framework"},
		{api.GPUView{State: api.HeldGPU, Shared: &api.SharedCapacity{}}, plain, nil, "", ""}, // it may be partly free
		{api.GPUView{State: api.WithheldGPU}, cordoned, nil, api.ReasonNotOffered, "unhealthy, or cordoned on its agent: mesos-gpu agent devices there shows which"},
		{api.GPUView{State: api.WithheldGPU}, drained, sick, api.ReasonUnhealthy, "GPU is sick: XID 79"},
		{api.GPUView{State: api.WithheldGPU}, plain, &gpu.WithheldDevice{Cause: gpu.WithheldHeld, Note: "container c"},
			api.ReasonHeldByContainer, "a container that is no task of the agent holds it: container c"},
		{api.GPUView{State: api.WithheldGPU, Task: "a.0"}, cordoned, kept, api.ReasonCordoned, "GPU is cordoned"}, // no reason was given
		{api.GPUView{State: api.FreeGPU}, cordoned, nil, api.ReasonCordoned, "agent is cordoned: new fans"},
		{api.GPUView{State: api.HeldGPU, Task: "a.0"}, drained, nil, api.ReasonDraining, "agent is being drained: dust"},
		{api.GPUView{}, draining, nil, api.ReasonDraining, "agent is being drained"}, // drained through Mesos, which gives no reason
	} {
		if got, note := gpuReasonOf(&test.gpu, test.agent, test.told); got != test.want || note != test.note {
			t.Errorf("%+v of %+v: got %q, %q, want %q, %q", test.gpu, test.agent, got, note, test.want, test.note)
		}
	}
}

// TestWithheldDeviceIsListed: without an inventory a withheld device is listed because of
// its agent's record only.
func TestWithheldDeviceIsListed(t *testing.T) {
	for _, test := range []struct {
		agent master.ListedAgent
		want  []string
	}{
		{master.ListedAgent{GPUs: 1, DeviceIDs: []string{"a"}, Withheld: []gpu.WithheldDevice{{UUID: "b"}}}, []string{"a", "b"}},
		{master.ListedAgent{GPUs: 2, DeviceIDs: []string{"a"}, Withheld: []gpu.WithheldDevice{{UUID: "b"}}}, []string{"a", "b"}}, // still held
		{master.ListedAgent{GPUs: 2, DeviceIDs: []string{"a"}}, []string{"a", ""}},
		{master.ListedAgent{
			GPUs:     1,
			Host:     gpu.Host{Devices: []gpu.Device{{UUID: "a"}, {UUID: "b"}}},
			Withheld: []gpu.WithheldDevice{{UUID: "b"}},
		}, []string{"a", "b"}},
	} {
		var got []string
		for _, d := range devicesOf(&test.agent) {
			got = append(got, d.UUID)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", test.agent, diff)
		}
	}
}

// TestUnreachableMasterProblem: the problem contains the master's address, but not the HTTP request.
func TestUnreachableMasterProblem(t *testing.T) {
	refused := errors.New("dial tcp 127.0.0.1:5050: connect: connection refused")
	got := agentListProblem(fmt.Errorf("ask for the leading master: %w", &url.Error{Op: "Get", URL: "http://127.0.0.1:5050/master/redirect", Err: refused}))
	if want := "the scheduler reaches no Mesos master: dial tcp 127.0.0.1:5050: connect: connection refused: start one, " +
		"or name another by the scheduler's --master"; got.Detail != want ||
		got.Status != http.StatusBadGateway {
		t.Errorf("got %d %q, want %q", got.Status, got.Detail, want)
	}
	if got := agentListProblem(errors.New("parse its answer")); got.Detail != "parse its answer" {
		t.Errorf("got %q", got.Detail)
	}
}

func TestUnknownGPUTypes(t *testing.T) {
	agents := []master.ListedAgent{
		{GPUs: 3, Types: []string{"V100"}},
		{Host: gpu.Host{Devices: []gpu.Device{{Model: "Tesla K80"}, {Model: "NVIDIA Prototype 7"}}}},
		{GPUs: 2, Types: []string{"T4", "P4"}}, // which GPU has which type is unknown
		{},
	}
	for name, want := range map[string]string{
		"V1000":     `gpu_type "V1000": no agent has it and no NVIDIA GPU has that name; this cluster has V100 (3), K80 (1), Prototype (1), P4, T4; did you mean V100?`,
		"v10o":      `gpu_type "v10o": no agent has it and no NVIDIA GPU has that name; this cluster has V100 (3), K80 (1), Prototype (1), P4, T4; did you mean V100?`,
		"X9000":     `gpu_type "X9000": no agent has it and no NVIDIA GPU has that name; this cluster has V100 (3), K80 (1), Prototype (1), P4, T4`,
		"Prototype": "", "h100": "", "K80": "",
	} {
		err := CheckUnknownTypes(UnknownTypes(gpu.TypeSelector{Include: []string{name}}), agents)
		if got := fmt.Sprint(err); err != nil && got != want || err == nil && want != "" {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if err := CheckUnknownTypes([]string{"X"}, nil); err == nil || !strings.Contains(err.Error(), "no GPU") {
		t.Errorf("empty cluster: %v", err)
	}
}

// TestQuotaTypeWarnings: a quota for a missing type causes a warning with the existing types.
func TestQuotaTypeWarnings(t *testing.T) {
	agents := []master.ListedAgent{{GPUs: 4, Types: []string{"V100"}}, {Host: gpu.Host{Devices: []gpu.Device{{Model: "NVIDIA Prototype 7"}}}}}
	for text, want := range map[string][]string{
		"V100=8, *=16, prototype=1, Tesla V100-SXM2-16GB=1": nil,
		"H100=8": {"quota: no agent has H100 yet; this cluster has V100 (4), Prototype (1)"},
		"V10O=2": {`quota: "V10O" bounds nothing: no agent has it and no NVIDIA GPU has that name; this cluster has V100 (4), Prototype (1); did you mean V100?`},
		"X9000=2, h100=1": {
			`quota: "X9000" bounds nothing: no agent has it and no NVIDIA GPU has that name; this cluster has V100 (4), Prototype (1)`,
			"quota: no agent has h100 yet; this cluster has V100 (4), Prototype (1)",
		},
	} {
		q := quota.Quota{}
		for part := range strings.SplitSeq(text, ", ") {
			name, _, _ := strings.Cut(part, "=")
			q[name] = 1
		}
		if diff := cmp.Diff(want, QuotaTypeWarnings(q, agents)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	if got := QuotaTypeWarnings(quota.Quota{"V100": 1}, nil); len(got) != 1 || got[0] != "quota: no agent has V100 yet; this cluster has no GPU" {
		t.Errorf("before the machines come: %q", got)
	}
}
