package framework

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/framework/api"
	"mesos-gpu/framework/master"
	"mesos-gpu/framework/sched"
	"mesos-gpu/gpu"
)

// TestFieldsOfAgents: constraints compare these, of an attribute that an agent
// has more than once the first.
func TestFieldsOfAgents(t *testing.T) {
	var f fields
	if got := f.of("a"); got["@zone"] != "" {
		t.Errorf("before the first list: got %v", got)
	}
	f.learn([]master.Agent{
		{ID: "a", Region: "eu", Zone: "eu-1", Host: gpu.Host{Driver: "535.1"}, Attributes: []sched.Attribute{{Name: "rack", Value: "1"}, {Name: "rack", Value: "2"}}},
		{ID: "b"},
	})
	want := map[string]string{"rack": "1", "@region": "eu", "@zone": "eu-1", "@driver": "535.1"}
	if diff := cmp.Diff(want, f.of("a")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f.learn(nil)
	if got := f.of("a"); got != nil {
		t.Errorf("of an agent that is gone: got %v", got)
	}
}

// TestStatesOfGPUs: an agent that offers by name offers what is well; of one
// that offers so many, nobody knows.
func TestStatesOfGPUs(t *testing.T) {
	named := &master.Agent{GPUs: 2, DeviceIDs: []string{"a", "b"}, DevicesHeld: []string{"b", "sick"}, Shared: []sched.Shared{{UUID: "c"}}}
	counted := &master.Agent{GPUs: 2}
	// A task holds one of those that it withholds, so that it counts it still.
	telling := &master.Agent{
		GPUs: 2, DeviceIDs: []string{"a"}, DevicesHeld: []string{"sick"},
		Withheld: []gpu.Withheld{{UUID: "sick", Cause: gpu.Sick}, {UUID: "cordoned", Cause: gpu.Cordoned}},
	}
	for _, test := range []struct {
		agent *master.Agent
		uuid  string
		want  api.GPUState
	}{
		{named, "a", api.FreeGPU},
		{named, "b", api.HeldGPU},
		{named, "c", api.FreeGPU},
		{named, "cordoned", api.WithheldGPU},
		{named, "sick", api.WithheldGPU}, // a task holds it still
		{named, "", ""},
		{telling, "a", api.FreeGPU},
		{telling, "sick", api.WithheldGPU},
		{telling, "cordoned", api.WithheldGPU},
		{telling, "", ""},
		{counted, "a", ""},
		{&master.Agent{}, "a", api.WithheldGPU}, // none is well
	} {
		if got := stateOf(test.agent, test.uuid); got != test.want {
			t.Errorf("%q of %+v: got %q, want %q", test.uuid, test.agent, got, test.want)
		}
	}
}

// TestSharedGPUs: what an agent's shared devices have together, and what of it
// is free.
func TestSharedGPUs(t *testing.T) {
	a := &master.Agent{
		GPUs: 1, Shared: []sched.Shared{{UUID: "a", MemMiB: 15360}, {UUID: "b", MemMiB: 15360}},
		SharedFree: []sched.Shared{{UUID: "a", MemMiB: 6144}, {UUID: "b", MemMiB: 15360}},
	}
	got := agentOf(a, nil).Shared
	if diff := cmp.Diff(&api.SharedGPUs{GPUs: 2, MemMiB: 30720, MemFreeMiB: 21504}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := agentOf(&master.Agent{GPUs: 2}, nil).Shared; got != nil {
		t.Errorf("of an agent that shares nothing: %+v", got)
	}
}

// TestReasonsOfGPUs: what a state does not say. A sick device is that first,
// whatever its agent.
func TestReasonsOfGPUs(t *testing.T) {
	plain, cordoned := &api.Agent{}, &api.Agent{Cordoned: "new fans"}
	sick, kept := &gpu.Withheld{UUID: "a", Cause: gpu.Sick, Note: "XID 79"}, &gpu.Withheld{UUID: "a", Cause: gpu.Cordoned}
	draining, drained := &api.Agent{Draining: true}, &api.Agent{Draining: true, Cordoned: "dust"}
	for _, test := range []struct {
		gpu   api.GPU
		agent *api.Agent
		told  *gpu.Withheld
		want  api.GPUReason
		note  string
	}{
		{api.GPU{State: api.FreeGPU}, plain, nil, "", ""},
		{api.GPU{State: api.HeldGPU, Task: "a.0"}, plain, nil, "", ""},
		{api.GPU{State: api.HeldGPU}, plain, nil, api.Foreign, "held by another framework"},
		{api.GPU{State: api.HeldGPU}, cordoned, nil, api.Foreign, "held by another framework"},
		{api.GPU{State: api.HeldGPU, Shared: &api.Shared{}}, plain, nil, "", ""}, // a part may be, and another free
		{api.GPU{State: api.WithheldGPU}, cordoned, nil, api.NotOffered, "sick, or cordoned there: mesos-gpu agent devices on its agent says which"},
		{api.GPU{State: api.WithheldGPU}, drained, sick, api.Sick, "GPU is sick: XID 79"},
		{api.GPU{State: api.WithheldGPU, Task: "a.0"}, cordoned, kept, api.Cordoned, "GPU is cordoned"}, // nobody said why
		{api.GPU{State: api.FreeGPU}, cordoned, nil, api.Cordoned, "agent is cordoned: new fans"},
		{api.GPU{State: api.HeldGPU, Task: "a.0"}, drained, nil, api.AgentDraining, "agent is being drained: dust"},
		{api.GPU{}, draining, nil, api.AgentDraining, "agent is being drained"}, // by Mesos, which gives no reason
	} {
		if got, note := reasonOf(&test.gpu, test.agent, test.told); got != test.want || note != test.note {
			t.Errorf("%+v of %+v: got %q, %q, want %q, %q", test.gpu, test.agent, got, note, test.want, test.note)
		}
	}
}

// TestWithheldIsListed: without an inventory a device that is withheld is known
// by what its agent says of it alone.
func TestWithheldIsListed(t *testing.T) {
	for _, test := range []struct {
		agent master.Agent
		want  []string
	}{
		{master.Agent{GPUs: 1, DeviceIDs: []string{"a"}, Withheld: []gpu.Withheld{{UUID: "b"}}}, []string{"a", "b"}},
		{master.Agent{GPUs: 2, DeviceIDs: []string{"a"}, Withheld: []gpu.Withheld{{UUID: "b"}}}, []string{"a", "b"}}, // held still
		{master.Agent{GPUs: 2, DeviceIDs: []string{"a"}}, []string{"a", ""}},
		{master.Agent{GPUs: 1, Host: gpu.Host{Devices: []gpu.Device{{UUID: "a"}, {UUID: "b"}}}, Withheld: []gpu.Withheld{{UUID: "b"}}}, []string{"a", "b"}},
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

// TestNoMasterIsNamed: people hear where no master is, not how it was asked.
func TestNoMasterIsNamed(t *testing.T) {
	refused := errors.New("dial tcp 127.0.0.1:5050: connect: connection refused")
	got := unlisted(fmt.Errorf("ask for the leading master: %w", &url.Error{Op: "Get", URL: "http://127.0.0.1:5050/master/redirect", Err: refused}))
	if want := "the scheduler reaches no Mesos master: dial tcp 127.0.0.1:5050: connect: connection refused: start one, or name another by the scheduler's --master"; got.Detail != want || got.Status != http.StatusBadGateway {
		t.Errorf("got %d %q, want %q", got.Status, got.Detail, want)
	}
	if got := unlisted(errors.New("parse its answer")); got.Detail != "parse its answer" {
		t.Errorf("got %q", got.Detail)
	}
}
