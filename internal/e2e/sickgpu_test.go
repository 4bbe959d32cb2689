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

// faulty is a driver whose events a test makes up.
type faulty struct {
	watch.SampleSource
	events chan health.DeviceEvent
}

func (f *faulty) Wait(ctx context.Context) (health.DeviceEvent, error) {
	select {
	case e := <-f.events:
		return e, nil
	case <-ctx.Done():
		return health.DeviceEvent{}, ctx.Err()
	}
}

// watched runs a daemon beside the agent, in this process, until the test
// ends. Where it provides no GPUs, the agent's flags do.
func (m *mesos) watched(t *testing.T, h gpu.Host, source watch.SampleSource, provider bool) {
	t.Helper()
	log := logrus.New()
	log.SetOutput(t.Output())
	d, err := daemon.New(daemon.DaemonConfig{
		AgentURL: "http://" + m.agent + "/slave(1)", StateDir: m.daemon, RuntimeDir: m.daemon, Socket: m.socket(), CgroupsRoot: "mesos-gpu-none", Provider: provider, Log: log,
		OpenHardware: func() (daemon.Hardware, error) {
			return daemon.Hardware{Host: h, Source: source, Close: func() {}}, nil
		},
		FaultPolicy:  health.FaultPolicy{FailedQuiet: time.Second, FailureWindow: time.Second},
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

// inventory counts the events of the API that tell of changed agents and GPUs.
func inventory(t *testing.T, c *cluster) <-chan time.Time {
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

// awaitGPU asks at each change of the inventory until the device is in that
// state for that reason, and returns what is said of it.
func awaitGPU(t *testing.T, c *cluster, heard <-chan time.Time, device string, state api.GPUState, reason api.GPUReason) string {
	t.Helper()
	began, late := time.Now(), time.After(patience)
	for {
		select {
		case at := <-heard:
			t.Logf("heard of a change %s after waiting for %s %s", at.Sub(began), state, reason)
		case <-late:
			t.Fatalf("GPU %s is not %s %s within %s:\n%s", device, state, reason, patience, c.must("gpus"))
		}
		var gpus []api.GPUView
		read(t, c.must("gpus", "-o", "json"), &gpus)
		i := slices.IndexFunc(gpus, func(g api.GPUView) bool { return g.UUID == device })
		if i >= 0 && gpus[i].State == state && gpus[i].Reason == reason {
			return gpus[i].Note
		}
	}
}

// A GPU fails under a task: the task's status says so while it goes on, the
// device is in no offer, the master lists it with what is wrong, and a job that
// wants all devices waits for it until an operator vouches for it.
func TestMesosFailedGPULeavesTheOffers(t *testing.T) {
	h, err := simulated.NewHost("2xV100", t.Name())
	if err != nil {
		t.Fatal(err)
	}
	_, attributes := advertise.MachineGPUs{Host: h}.AgentFlags(true)
	m := startMesos(t, "--isolation=cgroups/cpu,cgroups/mem,filesystem/linux,docker/runtime", "--resources=gpus:0", "--attributes="+attributes)
	driver := &faulty{simulated.NewIdleSource(h), make(chan health.DeviceEvent)}
	m.watched(t, h, driver, true)
	c := m.scheduler(t)

	c.must("submit", write(t, "victim", "name: victim\ngpus: 1\ncommand: echo up; exec sleep 1000\n"))
	ended := runningTask(t, c, "victim")
	var view api.JobView
	read(t, c.must("describe", "victim", "-o", "json"), &view)
	device := view.Tasks[0].DeviceIDs[0]
	heard := inventory(t, c)
	driver.events <- health.DeviceEvent{Device: device, XID: 79}
	if note := awaitGPU(t, c, heard, device, api.WithheldGPU, api.ReasonUnhealthy); !strings.HasPrefix(note, "GPU is sick: XID 79 (GPU has fallen off the bus) at ") {
		t.Errorf("what is told of it is %q", note)
	}
	failed := fmt.Sprintf("GPU %s failed: XID 79", device)
	c.await("victim", func(v *api.JobView) bool { return strings.Contains(v.Tasks[0].Message, failed) })
	for _, path := range []string{"/roles", "/state", "/slaves"} { // what the master tells people of a role that nobody has
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

	c.must("submit", write(t, "greedy", "name: greedy\ngpus: 2\ncommand: echo got both\n"))
	c.must("kill", "victim")
	<-ended
	c.await("greedy", func(v *api.JobView) bool { return strings.Contains(v.WaitReason, "GPU") })
	client := socket.NewDaemonClient(m.socket())
	defer client.Close()
	if err := client.CordonDevice(t.Context(), device, "new fans"); err != nil {
		t.Fatal(err)
	}
	if note := awaitGPU(t, c, heard, device, api.WithheldGPU, api.ReasonCordoned); note != "GPU is cordoned: new fans" {
		t.Errorf("what is told of it is %q", note)
	}
	if err := client.UncordonDevice(t.Context(), device); err != nil {
		t.Fatal(err)
	}
	c.awaitEnd("greedy")
}
