//go:build mesos

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/framework/api"
	"mesos-gpu/gpu"
	"mesos-gpu/isolator/advertise"
	"mesos-gpu/isolator/daemon"
	"mesos-gpu/isolator/health"
	"mesos-gpu/isolator/simulated"
	"mesos-gpu/isolator/socket"
	"mesos-gpu/isolator/watch"
)

// faultySource is a driver that reports the events of a test.
type faultySource struct {
	watch.SampleSource
	events chan health.DeviceEvent
}

func (f *faultySource) Wait(ctx context.Context) (health.DeviceEvent, error) {
	select {
	case e := <-f.events:
		return e, nil
	case <-ctx.Done():
		return health.DeviceEvent{}, ctx.Err()
	}
}

// startHealthDaemon runs a GPU daemon for the agent in this process until the test ends. If
// provider is false, the agent offers the GPUs by its flags.
func (m *mesos) startHealthDaemon(t *testing.T, h gpu.Host, source watch.SampleSource, provider bool) {
	t.Helper()
	log := logrus.New()
	log.SetOutput(t.Output())
	d, err := daemon.New(daemon.DaemonConfig{
		AgentURL:    "http://" + m.agent + "/slave(1)",
		StateDir:    m.daemonDir,
		RuntimeDir:  m.daemonDir,
		Socket:      m.socketPath(),
		CgroupsRoot: "mesos-gpu-none",
		Provider:    provider,
		Log:         log,
		OpenHardware: func() (daemon.Hardware, error) {
			return daemon.Hardware{Host: h, Source: source, Close: func() {}}, nil
		},
		FaultPolicy:  health.FaultPolicy{FailedQuiet: time.Second},
		DriverVolume: func(context.Context) (string, error) { return "", nil },
		NeedsDriver:  func(map[string]string, map[string]string) (bool, error) { return false, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		if err := d.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		ended.Wait()
	})
}

// watchInventory returns the times at which the API reports changed agents or GPUs.
func watchInventory(t *testing.T, c *cluster) <-chan time.Time {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.api+"/v1/events?state=live&inventory=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	heard := make(chan time.Time, 1000)
	go func() {
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if lines.Text() == "event: inventory" {
				heard <- time.Now()
			}
		}
	}()
	return heard
}

// awaitGPUState waits until the device has the state and the reason, and returns its note. It
// reads the list after each change of the inventory.
func awaitGPUState(t *testing.T, c *cluster, heard <-chan time.Time, device string, state api.GPUState, reason api.GPUReason) string {
	t.Helper()
	began, late := time.Now(), time.After(waitTimeout)
	for {
		select {
		case at := <-heard:
			t.Logf("inventory event after %s; waiting for %s %s", at.Sub(began), state, reason)
		case <-late:
			t.Fatalf("GPU %s is not %s %s within %s:\n%s", device, state, reason, waitTimeout, c.mustRun("gpus"))
		}
		var gpus []api.GPUView
		decodeJSON(t, c.mustRun("gpus", "-o", "json"), &gpus)
		i := slices.IndexFunc(gpus, func(g api.GPUView) bool { return g.UUID == device })
		if i >= 0 && gpus[i].State == state && gpus[i].Reason == reason {
			return gpus[i].Note
		}
	}
}

// TestMesosFailedGPUIsRemovedFromOffers lets a GPU fail while a task uses it. The task keeps
// running and its status reports the failure. The device is in no offer, the master lists it
// with the reason, and a job that needs all devices waits until an operator uncordons the GPU.
func TestMesosFailedGPUIsRemovedFromOffers(t *testing.T) {
	h, err := simulated.NewHost("2xV100", t.Name())
	if err != nil {
		t.Fatal(err)
	}
	_, attributes := advertise.MachineGPUs{Host: h}.AgentFlags(true)
	m := startMesos(t, "--isolation=cgroups/cpu,cgroups/mem,filesystem/linux,docker/runtime", "--resources=gpus:0", "--attributes="+attributes)
	driver := &faultySource{simulated.NewLoadSource(h, func() []simulated.Process { return nil }), make(chan health.DeviceEvent)}
	m.startHealthDaemon(t, h, driver, true)
	c := m.startScheduler(t)

	c.mustRun("submit", writeJobFile(t, "victim", "name: victim\ngpus: 1\ncommand: echo up; exec sleep 1000\n"))
	ended := awaitRunningTask(t, c, "victim")
	var view api.JobView
	decodeJSON(t, c.mustRun("describe", "victim", "-o", "json"), &view)
	device := view.Tasks[0].DeviceIDs[0]
	heard := watchInventory(t, c)
	driver.events <- health.DeviceEvent{Device: device, XID: 79}
	if note := awaitGPUState(t, c, heard, device, api.WithheldGPU, api.ReasonUnhealthy); !strings.HasPrefix(note,
		"GPU is sick: XID 79 (GPU has fallen off the bus) at ") {
		t.Errorf("the GPU's note is %q", note)
	}
	failed := fmt.Sprintf("GPU %s failed: XID 79", device)
	c.awaitJob("victim", func(v *api.JobView) bool { return strings.Contains(v.Tasks[0].Message, failed) })
	for _, path := range []string{"/roles", "/state", "/slaves"} { // pages of the master that show a role without frameworks
		res, err := http.Get("http://" + m.master + path)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(page), gpu.WithheldRole) {
			t.Errorf("%s: %s, %v: %.2000s", path, res.Status, err, page)
		}
	}

	c.mustRun("submit", writeJobFile(t, "greedy", "name: greedy\ngpus: 2\ncommand: echo got both\n"))
	c.mustRun("kill", "victim")
	<-ended
	c.awaitJob("greedy", func(v *api.JobView) bool { return strings.Contains(v.WaitReason, "GPU") })
	client := socket.NewDaemonClient(m.socketPath())
	defer client.Close()
	if err := client.CordonDevice(t.Context(), device, "new fans"); err != nil {
		t.Fatal(err)
	}
	if note := awaitGPUState(t, c, heard, device, api.WithheldGPU, api.ReasonCordoned); note != "GPU is cordoned: new fans" {
		t.Errorf("the GPU's note is %q", note)
	}
	if err := client.UncordonDevice(t.Context(), device); err != nil {
		t.Fatal(err)
	}
	c.awaitJobEnd("greedy")
}
