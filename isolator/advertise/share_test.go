package advertise

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/gpu"
	rp "mesos-gpu/internal/resourceprovider"
	"mesos-gpu/isolator/share"
)

// A shared device is advertised as two scalars instead of a count of 1, with the same
// provider and role as other resources.
func TestSharedResources(t *testing.T) {
	h := host(t)
	m := MachineGPUs{Host: h, Shared: []gpu.DeviceShare{{UUID: h.Devices[1].UUID, MemMiB: 24000, Cores: 150}}, Role: "ml", ShareLimit: gpu.EnforcedByMPS}
	var got []string
	for _, r := range m.Resources("p") {
		if r.ProviderID.GetValue() != "p" || len(r.Reservations) != 1 {
			t.Errorf("%s has provider %s and %d reservations", r.Name, r.ProviderID, len(r.Reservations))
		}
		got = append(got, m.resourceFlag(r))
	}
	shared := h.Devices[1].UUID
	want := []string{
		"gpus(ml):2", "gpu_ids(ml):{" + h.Devices[0].UUID + "," + h.Devices[2].UUID + "}", "gpu_mem." + shared + "(ml):24000", "gpu_cores." + shared + "(ml):150",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	resources, attributes := m.AgentFlags(false)
	if resources != strings.Join(want, ";") || !strings.Contains(attributes, "gpu_share_limit:mps;") {
		t.Errorf("flags %s\n%s", resources, attributes)
	}
}

// fakeModes is a SharingModes that the test controls.
type fakeModes struct {
	mu      sync.Mutex
	shared  map[string]bool
	waiting bool
	settled []map[string]share.DeviceUse
	changed chan struct{}
}

func (f *fakeModes) ReconcileModes(held map[string]share.DeviceUse, known bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known {
		f.settled = append(f.settled, held)
	}
	return nil
}

func (f *fakeModes) SharedCapacity(uuid string) (gpu.DeviceShare, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return gpu.DeviceShare{UUID: uuid, MemMiB: 100, Cores: 100}, f.shared[uuid]
}

func (f *fakeModes) HasPending() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.waiting
}

func (f *fakeModes) Changes() <-chan struct{} { return f.changed }

func (f *fakeModes) set(uuid string, shared bool) {
	f.mu.Lock()
	f.shared[uuid] = shared
	f.mu.Unlock()
	f.changed <- struct{}{}
}

// names returns the resource names in the next state.
func (a *providerAgent) names() string {
	a.t.Helper()
	var words []string
	for _, r := range a.call(rp.CallUpdateState).UpdateState.Resources {
		words = append(words, MachineGPUs{}.resourceFlag(r))
	}
	return strings.Join(words, " ")
}

// A device that becomes shared is advertised so immediately, and an unhealthy device is
// withdrawn in either mode. While a mode change is pending, the daemon asks the agent
// which devices are in use.
func TestSharingModesChange(t *testing.T) {
	a := newAgent(t, plain)
	c, warned := config(t, a)
	f := &fakeModes{shared: map[string]bool{}, changed: make(chan struct{}, 1)}
	hosts := make(chan gpu.Host)
	c.HostUpdates, c.InUseInterval, c.Modes = hosts, time.Hour, f
	start(t, c, warned)
	a.subscribed("")
	x, y, z := c.Host.Devices[0].UUID, c.Host.Devices[1].UUID, c.Host.Devices[2].UUID
	check := func(want string) {
		t.Helper()
		if got := a.names(); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
	f.set(y, true)
	check("gpus:2 gpu_ids:{" + x + "," + z + "} gpu_mem." + y + ":100 gpu_cores." + y + ":100")
	hosts <- without(c.Host, 1)
	check("gpus:2 gpu_ids:{" + x + "," + z + "}")
	hosts <- without(c.Host, 0)
	check("gpus:1 gpu_ids:{" + z + "} gpu_mem." + y + ":100 gpu_cores." + y + ":100")
	f.set(y, false)
	check("gpus:2 gpu_ids:{" + y + "," + z + "}")
}

// The use of devices is reported with the mode in which tasks hold them.
func TestUseReachesSharingModes(t *testing.T) {
	held := map[string]share.DeviceUse{}
	scalar := func(name, provider string) mesos.Resource {
		return mesos.Resource{Name: name, ProviderID: providerIDMessage(provider), Type: mesos.SCALAR.Enum(), Scalar: &mesos.Value_Scalar{Value: 1}}
	}
	addHeldDevices(held, []mesos.Resource{
		scalar("gpu_mem.x", "p"), scalar("gpu_cores.x", "p"), scalar("gpu_mem.y", "q"), scalar("gpus", "p"),
		{Name: "gpu_ids", ProviderID: providerIDMessage("p"), Type: mesos.SET.Enum(), Set: &mesos.Value_Set{Item: []string{"z", "x"}}},
	}, "p")
	if diff := cmp.Diff(map[string]share.DeviceUse{"x": {Whole: true, Shared: true}, "z": {Whole: true}}, held); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
