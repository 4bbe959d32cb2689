package advertisetest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/advertise"
)

// TestDaemon is an advertise.Run that can be stopped and restarted.
type TestDaemon struct {
	t      testing.TB
	config advertise.ProviderConfig
	whole  gpu.Host
	hosts  chan gpu.Host
	stop   context.CancelFunc
	done   chan error
}

// StartDaemon advertises the host to the agent at a URL. It uses short
// intervals.
func StartDaemon(t testing.TB, agent string, h gpu.Host, change ...func(*advertise.ProviderConfig)) *TestDaemon {
	t.Helper()
	log := logrus.New()
	log.SetOutput(t.Output())
	d := &TestDaemon{t: t, whole: h, config: advertise.ProviderConfig{
		AgentURL: agent + "/slave(1)", StateDir: t.TempDir(), Host: h, Log: log,
		InUseInterval: 200 * time.Millisecond, AnswerTimeout: 5 * time.Second, BackoffMin: 200 * time.Millisecond, BackoffMax: time.Second,
	}}
	for _, c := range change {
		c(&d.config)
	}
	d.Restart()
	t.Cleanup(func() { d.stop() })
	return d
}

// Restart starts a stopped daemon.
func (d *TestDaemon) Restart() {
	ctx, stop := context.WithCancel(context.Background())
	d.hosts, d.stop, d.done = make(chan gpu.Host), stop, make(chan error, 1)
	config := d.config
	config.HostUpdates = d.hosts
	go func() { d.done <- advertise.Run(ctx, config) }()
}

// Stop ends the daemon.
func (d *TestDaemon) Stop() {
	d.t.Helper()
	d.stop()
	if err := <-d.done; err != nil {
		d.t.Errorf("the daemon ended: %v", err)
	}
}

// OfferOnly advertises only the devices with these UUIDs, now and after a
// restart. The others are withheld as unhealthy.
func (d *TestDaemon) OfferOnly(ids ...string) {
	d.t.Helper()
	h := d.whole
	h.Devices = slices.DeleteFunc(slices.Clone(h.Devices), func(x gpu.Device) bool { return !slices.Contains(ids, x.UUID) })
	for _, x := range d.whole.Devices {
		if !slices.Contains(ids, x.UUID) {
			h.Withheld = append(h.Withheld, gpu.WithheldDevice{UUID: x.UUID, Cause: gpu.WithheldUnhealthy, Note: "XID 79, of a test: {" + x.UUID + "}"})
		}
	}
	d.config.Host = h
	select {
	case d.hosts <- h:
	case err := <-d.done:
		d.t.Fatalf("the daemon ended: %v", err)
	}
}
