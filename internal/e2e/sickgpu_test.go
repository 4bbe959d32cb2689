//go:build mesos

package e2e

import (
	"context"
	"fmt"
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
	watch.Source
	events chan health.Event
}

func (f *faulty) Wait(ctx context.Context) (health.Event, error) {
	select {
	case e := <-f.events:
		return e, nil
	case <-ctx.Done():
		return health.Event{}, ctx.Err()
	}
}

// watched runs a daemon beside the agent, in this process, until the test
// ends. Where it provides no GPUs, the agent's flags do.
func (m *mesos) watched(t *testing.T, h gpu.Host, source watch.Source, provider bool) {
	t.Helper()
	log := logrus.New()
	log.SetOutput(t.Output())
	d, err := daemon.New(daemon.Config{
		AgentURL: "http://" + m.agent + "/slave(1)", StateDir: m.daemon, RuntimeDir: m.daemon, Socket: m.socket(), CgroupsRoot: "mesos-gpu-none", Provider: provider, Log: log,
		Open: func() (daemon.Hardware, error) {
			return daemon.Hardware{Host: h, Source: source, Close: func() {}}, nil
		},
		Policy:      health.Policy{Quiet: time.Second, Memory: time.Second},
		Volume:      func(context.Context) (string, error) { return "", nil },
		NeedsDriver: func(map[string]string, map[string]string) (bool, error) { return false, nil },
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

// A GPU fails under a task: the task's status says so while it goes on, the
// device is in no offer, and a job that wants all devices waits for it until
// an operator vouches for it.
func TestMesosFailedGPULeavesTheOffers(t *testing.T) {
	h, err := simulated.Host("2xV100", t.Name())
	if err != nil {
		t.Fatal(err)
	}
	_, attributes := advertise.Machine{Host: h}.Flags(true)
	m := startMesos(t, "--isolation=cgroups/cpu,cgroups/mem,filesystem/linux,docker/runtime", "--resources=gpus:0", "--attributes="+attributes)
	driver := &faulty{simulated.NewSource(h), make(chan health.Event)}
	m.watched(t, h, driver, true)
	c := m.scheduler(t)

	c.must("submit", write(t, "victim", "name: victim\ngpus: 1\ncommand: echo up; exec sleep 1000\n"))
	ended := runningTask(t, c, "victim")
	var view api.JobView
	read(t, c.must("describe", "victim", "-o", "json"), &view)
	device := view.Tasks[0].DeviceIDs[0]
	driver.events <- health.Event{Device: device, XID: 79}
	failed := fmt.Sprintf("GPU %s failed: XID 79", device)
	c.await("victim", func(v *api.JobView) bool { return strings.Contains(v.Tasks[0].Message, failed) })

	c.must("submit", write(t, "greedy", "name: greedy\ngpus: 2\ncommand: echo got both\n"))
	c.must("kill", "victim")
	<-ended
	c.await("greedy", func(v *api.JobView) bool { return strings.Contains(v.Waits, "GPU") })
	client := socket.NewClient(m.socket())
	defer client.Close()
	if err := client.Uncordon(t.Context(), device); err != nil {
		t.Fatal(err)
	}
	c.awaitEnd("greedy")
}
