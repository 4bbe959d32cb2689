package metrics

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/simulated"
	"mesos-gpu/isolator/watch"
)

// From a simulated host through the watcher to the metrics page: its GPUs are healthy and
// marked as simulated.
func TestSimulatedHost(t *testing.T) {
	h, err := simulated.NewHost("2xV100", "agent1")
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	w, err := watch.New(watch.WatcherConfig{
		Host:     h,
		Source:   simulated.NewLoadSource(h, func() []simulated.Process { return nil }),
		StateDir: t.TempDir(),
		Log:      log,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	defer func() { cancel(); <-done }()
	c := ExporterConfig{Agent: "agent1", Host: h, Devices: w.DeviceStates, Holders: func() []gpu.ContainerDevices { return nil }}
	var body string
	for !strings.Contains(body, "mesos_gpu_temperature_celsius{") { // there is no event for the first sample
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
		body = scrapeText(t, c)
	}
	if want := `mesos_gpu_driver_info{agent="agent1",cuda="12.2",driver="535.104.05",simulated="true"} 1`; !strings.Contains(body, want) {
		t.Errorf("lacks %s", want)
	}
	for _, d := range h.Devices {
		if want := `mesos_gpu_health{agent="agent1",gpu="` + d.UUID + `",model="Tesla V100-SXM2-16GB",state="healthy"} 1`; !strings.Contains(body, want) {
			t.Errorf("lacks %s", want)
		}
	}
}
