package advertise

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	mesos "github.com/mesos/mesos-go/api/v1/lib"
	operator "github.com/mesos/mesos-go/api/v1/lib/agent"

	"mesos-gpu/gpu"
	rp "mesos-gpu/internal/resourceprovider"
)

// without returns the host without the devices at those indices.
func without(h gpu.Host, places ...int) gpu.Host {
	kept := gpu.Host{Driver: h.Driver, CUDA: h.CUDA}
	for i, d := range h.Devices {
		if !slices.Contains(places, i) {
			kept.Devices = append(kept.Devices, d)
		}
	}
	return kept
}

// wantState waits for UPDATE_STATE and compares its resources.
func (a *providerAgent) wantState(gpus int, devices []gpu.Device) {
	a.t.Helper()
	got := a.call(rp.CallUpdateState).UpdateState.Resources
	var ids []string
	for _, d := range devices {
		ids = append(ids, d.UUID)
	}
	if diff := cmp.Diff(MachineGPUs{}.buildResources(ids, gpus, "provider-1"), got); diff != "" {
		a.t.Errorf("(-want +got):\n%s", diff)
	}
}

// quiet checks that no further call was made, once the daemon has ended.
func (a *providerAgent) quiet() {
	a.t.Helper()
	select {
	case got := <-a.calls:
		a.t.Errorf("one call too many: %s", got)
	default:
	}
}

// live starts a daemon whose host state a test can change.
func live(t *testing.T, a *providerAgent) (*daemon, chan gpu.Host) {
	t.Helper()
	c, warned := config(t, a)
	hosts := make(chan gpu.Host)
	c.HostUpdates, c.InUseInterval = hosts, time.Hour
	return start(t, c, warned), hosts
}

// A changed state is sent to the agent immediately; an equal one is not sent.
func TestDeviceChangesAreAdvertised(t *testing.T) {
	a := newAgent(t, plain)
	d, hosts := live(t, a)
	a.subscribed("")
	h := d.config.Host
	hosts <- without(h, 1)
	a.wantState(2, without(h, 1).Devices)
	turned := without(h, 1)
	slices.Reverse(turned.Devices)
	hosts <- turned
	hosts <- gpu.Host{}
	a.wantState(0, nil)
	hosts <- gpu.Host{Driver: "another"}
	hosts <- h
	a.wantState(3, h.Devices)
	close(hosts) // no further updates: the state stays
	d.end(t)
	a.quiet()
}

// Withheld devices are reported and not offered. A changed cause is reported
// again although the offers stay the same.
func TestWithheldDevicesAreReported(t *testing.T) {
	a := newAgent(t, plain)
	d, hosts := live(t, a)
	a.subscribed("")
	h := without(d.config.Host, 1)
	device := d.config.Host.Devices[1].UUID
	role := gpu.WithheldRole
	for _, w := range []gpu.WithheldDevice{
		{UUID: device, Cause: gpu.WithheldUnhealthy, Note: "XID 79: it fell off"},
		{UUID: device, Cause: gpu.WithheldCordoned},
	} {
		h.Withheld = []gpu.WithheldDevice{w}
		hosts <- h
		hosts <- h // equal state
		want := append(MachineGPUs{Host: h}.Resources("provider-1"), mesos.Resource{
			Name: "gpu_withheld", Type: mesos.SET.Enum(), Set: &mesos.Value_Set{Item: []string{w.SetItem()}}, ProviderID: &mesos.ResourceProviderID{Value: "provider-1"},
			Reservations: []mesos.Resource_ReservationInfo{{Type: mesos.Resource_ReservationInfo_STATIC.Enum(), Role: &role}},
		})
		if diff := cmp.Diff(want, a.call(rp.CallUpdateState).UpdateState.Resources); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	hosts <- d.config.Host
	a.wantState(3, d.config.Host.Devices)
	d.end(t)
	a.quiet()
}

// A role reserves the devices; the withheld resource is still offered to no
// framework.
func TestWithheldResourceIsNotOffered(t *testing.T) {
	m := MachineGPUs{Role: "live", Withheld: []gpu.WithheldDevice{{UUID: "GPU-a", Cause: gpu.WithheldUnhealthy}}}
	got := m.buildResources([]string{"GPU-b"}, 1, "p")
	for i, want := range []string{"live", "live", gpu.WithheldRole} {
		if role := got[i].ReservationRole(); role != want {
			t.Errorf("%s is reserved for %q, want %q", got[i].Name, role, want)
		}
	}
	if flags, _ := m.AgentFlags(false); flags != "" {
		t.Errorf("flags are %q, and cannot change later", flags)
	}
}

// After a reconnection the agent first receives the changes that it missed.
func TestChangesWhileAway(t *testing.T) {
	a := newAgent(t, plain)
	d, hosts := live(t, a)
	stream := a.subscribed("")
	h := d.config.Host
	a.set(func() { a.refuse[rp.CallSubscribe] = slices.Repeat([]int{http.StatusServiceUnavailable}, 1_000_000) })
	stream.Close()
	d.warned.want(t, "the agent answers SUBSCRIBE with 503")
	for i := range h.Devices { // updates do not wait for the agent
		hosts <- without(h, i)
	}
	a.set(func() { a.refuse[rp.CallSubscribe] = nil })
	a.call(rp.CallSubscribe)
	a.wantState(2, without(h, 2).Devices)
	d.end(t)
}

// A withdrawn device in use is counted until it is free: otherwise the scalar would be
// smaller than the number of names in use.
func TestWithdrawnDevicesInUseAreCounted(t *testing.T) {
	a := newAgent(t, plain)
	c, warned := config(t, a)
	hosts := make(chan gpu.Host)
	c.HostUpdates, c.InUseInterval = hosts, time.Millisecond
	d := start(t, c, warned)
	a.subscribed("")
	h := c.Host
	a.set(func() { a.inUse = []string{h.Devices[0].UUID, h.Devices[1].UUID} })
	hosts <- without(h, 0)
	a.wantState(3, without(h, 0).Devices)
	hosts <- without(h, 0, 1)
	a.wantState(3, without(h, 0, 1).Devices)
	a.set(func() { a.inUse = a.inUse[:1] })
	a.wantState(2, without(h, 0, 1).Devices)
	a.set(func() { a.inUse = nil })
	a.wantState(1, without(h, 0, 1).Devices)
	d.end(t)
	a.quiet()
}

// A restarted daemon determines which withdrawn devices are in use.
func TestWithdrawnDevicesInUseAfterRestart(t *testing.T) {
	a := newAgent(t, plain)
	d, _ := live(t, a)
	a.subscribed("")
	d.end(t)
	h := d.config.Host
	a.set(func() { a.inUse = []string{h.Devices[2].UUID} })
	d.config.Host = without(h, 2)
	d = start(t, d.config, d.warned)
	a.call(rp.CallSubscribe)
	a.wantState(3, without(h, 2).Devices)
	d.end(t)
}

// The devices are advertised even if the agent rejects this caller's operator
// calls.
func TestAgentThatRefusesCaller(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound} {
		a := newAgent(t, plain)
		a.mute = status
		d, hosts := live(t, a)
		stream := a.subscribed("")
		d.warned.want(t, "cannot read the agent's id")
		h := d.config.Host
		hosts <- without(h, 0)
		a.wantState(2, without(h, 0).Devices)
		stream.Close()
		a.subscribed("provider-1")
		d.end(t)
		if got, err := os.ReadFile(filepath.Join(d.config.StateDir, "provider_id")); string(got) != "provider-1\n\n" {
			t.Errorf("checkpoint %q, %v", got, err)
		}
	}
}

// publish sends PUBLISH_RESOURCES for those devices and checks the status of the
// response.
func (a *providerAgent) publish(stream interface{ Send(*rp.ProviderEvent) }, want rp.PublishStatus, ids ...string) {
	a.t.Helper()
	stream.Send(&rp.ProviderEvent{Type: rp.EventPublishResources, PublishResources: &rp.PublishResources{
		UUID:      newUUID(),
		Resources: []mesos.Resource{{Name: ResourceGPUIDs, Type: mesos.SET.Enum(), Set: &mesos.Value_Set{Item: ids}}},
	}})
	if got := a.call(rp.CallUpdatePublishResourcesStatus).UpdatePublishResourcesStatus; got.Status != want {
		a.t.Errorf("publish %v: got %s, want %s", ids, got.Status, want)
	}
}

// A device that was in use when it was withdrawn does not fail launches; one
// that was free does.
func TestPublishOfWithdrawn(t *testing.T) {
	a := newAgent(t, plain)
	d, hosts := live(t, a)
	s := senderFunc{a.subscribed("")}
	h := d.config.Host
	one, two, three := h.Devices[0].UUID, h.Devices[1].UUID, h.Devices[2].UUID
	a.publish(s, rp.PublishOK, one)
	hosts <- without(h, 0, 1)
	a.wantState(1, without(h, 0, 1).Devices)
	a.publish(s, rp.PublishOK, one, three)
	a.publish(s, rp.PublishFailed, one, two, three)
	a.publish(s, rp.PublishOK, three)
	a.publish(s, rp.PublishFailed, one, three)
	d.end(t)
}

// After a restart of the daemon the devices in use are not known, so the first request is
// accepted with any devices.
func TestPublishOfWithdrawnAfterRestart(t *testing.T) {
	a := newAgent(t, plain)
	c, warned := config(t, a)
	h := c.Host
	c.Host = without(h, 0)
	d := start(t, c, warned)
	s := senderFunc{a.subscribed("")}
	a.publish(s, rp.PublishOK, h.Devices[0].UUID, h.Devices[1].UUID)
	a.publish(s, rp.PublishFailed, h.Devices[0].UUID, h.Devices[1].UUID, "GPU-never-seen")
	d.end(t)
}

// An agent with a new ID gets a new provider immediately; with its old ID it gets the old
// provider.
func TestAnotherAgentID(t *testing.T) {
	a := newAgent(t, plain)
	d, _ := live(t, a)
	stream := a.subscribed("")
	stream.Close()
	stream = a.subscribed("provider-1")
	a.set(func() { a.id = "agent-2"; a.known = map[string]bool{"provider-1 of agent-1": true} })
	stream.Close()
	a.subscribed("")
	d.end(t)
	if got, err := os.ReadFile(filepath.Join(d.config.StateDir, "provider_id")); string(got) != "provider-2\nagent-2\n" {
		t.Errorf("checkpoint %q, %v", got, err)
	}
	d = start(t, d.config, d.warned)
	a.subscribed("provider-2")
	d.end(t)
}

// A checkpoint without an agent ID is completed with the current one.
func TestCheckpointWithoutAgentID(t *testing.T) {
	a := newAgent(t, plain)
	a.known["old"] = true
	c, warned := config(t, a)
	file := filepath.Join(c.StateDir, "provider_id")
	if err := os.WriteFile(file, []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := start(t, c, warned)
	a.subscribed("old")
	d.end(t)
	if got, err := os.ReadFile(file); string(got) != "old\nagent-1\n" {
		t.Errorf("checkpoint %q, %v", got, err)
	}
}

// An agent that has not registered has no ID to checkpoint, so the daemon waits.
func TestWaitsForRegistration(t *testing.T) {
	a := newAgent(t, plain)
	a.id = ""
	d, _ := live(t, a)
	d.warned.want(t, "it has not registered with a master")
	a.set(func() { a.id, a.mute = "agent-1", http.StatusServiceUnavailable })
	d.warned.want(t, "the agent answers GET_AGENT with 503 Service Unavailable: not to you")
	a.set(func() { a.mute = 0 })
	a.subscribed("")
	d.end(t)
}

// If the agent's ID changes while the provider subscribes, the provider ID may belong to
// either, so it is not saved.
func TestAgentIDChangesUnderway(t *testing.T) {
	a := newAgent(t, plain)
	first := true
	a.onSubscribe = func() {
		if first {
			first, a.id = false, "agent-2"
		}
	}
	d, _ := live(t, a)
	a.call(rp.CallSubscribe)
	d.warned.want(t, "agent agent-1 became agent-2 while the provider subscribed")
	call := a.call(rp.CallSubscribe)
	if id := call.Subscribe.ResourceProviderInfo.ID.GetValue(); id != "" {
		t.Errorf("came back as %q, want a new provider", id)
	}
	a.call(rp.CallUpdateState)
	d.end(t)
	if got, err := os.ReadFile(filepath.Join(d.config.StateDir, "provider_id")); string(got) != "provider-2\nagent-2\n" {
		t.Errorf("checkpoint %q, %v", got, err)
	}
}

// Requests to the operator API carry the daemon's credentials.
func TestAsksWithAuthorization(t *testing.T) {
	a := newAgent(t, plain)
	a.token = "Bearer token"
	c, warned := config(t, a)
	c.Authorization = a.token
	d := start(t, c, warned)
	a.subscribed("")
	d.end(t)
	a.set(func() {
		if a.asked[operator.Call_GET_AGENT] != 2 || a.asked[operator.Call_GET_STATE] != 1 {
			t.Errorf("got calls %v, want GET_AGENT before and after SUBSCRIBE and GET_STATE once", a.asked)
		}
	})
}
