package watch

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/health"
)

// fakeDriver is a Source with configurable faults.
type fakeDriver struct {
	events chan health.DeviceEvent

	mu     sync.Mutex
	errs   map[string]error // returned instead of a sample
	values map[string]map[gpu.SampleField]float64
	stuck  map[string]chan struct{} // calls hang until the channel is closed
	counts map[string]int
	inside map[string]int // running calls
	most   int            // maximum number of concurrent calls for one device
	noise  error          // error that Wait returns
}

func newFakeDriver() *fakeDriver {
	return &fakeDriver{
		events: make(chan health.DeviceEvent, 10000), errs: map[string]error{}, values: map[string]map[gpu.SampleField]float64{}, stuck: map[string]chan struct{}{},
		counts: map[string]int{}, inside: map[string]int{},
	}
}

func (d *fakeDriver) Sample(uuid string) (gpu.Sample, error) {
	d.mu.Lock()
	d.counts[uuid]++
	d.inside[uuid]++
	d.most = max(d.most, d.inside[uuid])
	stuck := d.stuck[uuid]
	d.mu.Unlock()
	if stuck != nil {
		<-stuck
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inside[uuid]--
	values := map[gpu.SampleField]float64{gpu.Celsius: float64(d.counts[uuid])}
	maps.Copy(values, d.values[uuid])
	return gpu.Sample{At: time.Now(), Values: values, Processes: []gpu.DeviceProcess{{PID: 1, MemBytes: 2}}}, d.errs[uuid]
}

func (d *fakeDriver) Wait(ctx context.Context) (health.DeviceEvent, error) {
	d.mu.Lock()
	noise := d.noise
	d.mu.Unlock()
	if noise != nil {
		return health.DeviceEvent{}, noise
	}
	select {
	case <-ctx.Done():
		return health.DeviceEvent{}, ctx.Err()
	case e := <-d.events:
		return e, nil
	}
}

func (d *fakeDriver) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

func (d *fakeDriver) hang(uuid string) (release func()) {
	stuck := make(chan struct{})
	d.set(func() { d.stuck[uuid] = stuck })
	return func() {
		d.set(func() { delete(d.stuck, uuid) })
		close(stuck)
	}
}

func three() gpu.Host {
	return gpu.Host{Driver: "535", Devices: []gpu.Device{{UUID: "GPU-a"}, {UUID: "GPU-b", Minor: 1}, {UUID: "GPU-c", Minor: 2}}}
}

func quiet() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

func newWatcher(t *testing.T, h gpu.Host, source SampleSource, dir, boot string) *Watcher {
	t.Helper()
	w, err := New(WatcherConfig{Host: h, Source: source, StateDir: dir, Boot: boot, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// watched runs a watcher with fake time until the test ends.
func watched(t *testing.T, h gpu.Host, test func(*testing.T, *fakeDriver, *Watcher)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDriver()
		w := newWatcher(t, h, d, dir, "boot")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Run(ctx)
		}()
		synctest.Wait()
		test(t, d, w)
		cancel()
		<-done
	})
}

func (w *Watcher) mustBe(t *testing.T, uuid string, want gpu.Health) {
	t.Helper()
	synctest.Wait()
	if c, ok := w.DeviceCondition(uuid); !ok || c.Health != want {
		t.Errorf("%s is %s (%s), want %s", uuid, c.Health, c.Reason, want)
	}
}

func (w *Watcher) mustOffer(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := offered(w); !slices.Equal(got, want) {
		t.Errorf("offered %v, want %v", got, want)
	}
}

// offered returns the devices that are available to tasks, in the host's order.
func offered(w *Watcher) []string {
	var list []string
	for _, d := range w.DeviceStates() {
		if d.Condition.IsOffered() {
			list = append(list, d.Device.UUID)
		}
	}
	return list
}

func mustSave(t *testing.T, w *Watcher) {
	t.Helper()
	if err := w.saveFaults(); err != nil {
		t.Fatal(err)
	}
}

func uuids(h gpu.Host) []string {
	var list []string
	for _, d := range h.Devices {
		list = append(list, d.UUID)
	}
	return list
}

var errBroken = errors.New("unknown error")
