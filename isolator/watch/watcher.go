// Package watch looks after one machine's GPUs: it samples them, hears the
// driver's events, has health judge both, keeps the last minutes, remembers
// across restarts who was cordoned and what needs a reset, and tells whoever
// asks. It decides only what package health and the operator decide; acting on
// it is for others.
package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/health"
)

// ErrUnknownDevice is wrapped by errors about devices that the host does not have.
var ErrUnknownDevice = errors.New("no such device on this host")

// ErrCordoned is wrapped by errors about slices that cannot be uncordoned by
// themselves.
var ErrCordoned = errors.New("its whole GPU is cordoned")

// SampleSource is where samples and events come from.
type SampleSource interface {
	// Sample measures one device. The error of a lost one wraps
	// health.ErrLost. A call may hang in the driver; there is one at a time
	// for each device, and other devices go on. Of a slice's whole GPU, which
	// need not be a device of the host, there is one for each slice.
	Sample(uuid string) (gpu.Sample, error)
	// Wait returns the next event, or an error, at the latest when ctx ends.
	Wait(ctx context.Context) (health.DeviceEvent, error)
}

// WatcherConfig says what to watch and how closely.
type WatcherConfig struct {
	Host   gpu.Host
	Source SampleSource
	Policy health.FaultPolicy
	// StateDir keeps cordons and what needs a reset.
	StateDir string
	// Boot identifies this run of the machine, the text of
	// /proc/sys/kernel/random/boot_id: devices that needed a reset have had
	// one when it differs. Empty where it is not known.
	Boot string
	Log  logrus.FieldLogger

	// SampleInterval is the time between two samples of a device, 5 s. One that takes
	// longer than Timeout, 3 s, counts as an error. Keep is how long a sample
	// is kept, 10 min.
	SampleInterval, SampleTimeout, HistoryLength time.Duration
}

func (c WatcherConfig) withDefaults() (WatcherConfig, error) {
	switch {
	case c.Source == nil:
		return c, errors.New("no source of samples given")
	case c.StateDir == "":
		return c, errors.New("no state folder given: cordons must outlive the daemon")
	case c.Log == nil:
		return c, errors.New("no log given")
	case c.SampleInterval < 0 || c.SampleTimeout < 0 || c.HistoryLength < 0:
		return c, fmt.Errorf("sample every %s, for at most %s, kept for %s: none may be negative", c.SampleInterval, c.SampleTimeout, c.HistoryLength)
	}
	for value, fallback := range map[*time.Duration]time.Duration{
		&c.SampleInterval: 5 * time.Second, &c.SampleTimeout: 3 * time.Second, &c.HistoryLength: 10 * time.Minute,
	} {
		if *value == 0 {
			*value = fallback
		}
	}
	var err error
	c.Policy, err = c.Policy.WithDefaults()
	return c, err
}

// DeviceState is what is known of one device.
type DeviceState struct {
	Device    gpu.Device          `json:"device"`
	Condition gpu.DeviceCondition `json:"condition"`
	// Sample is the last one; its At is zero before the first.
	Sample gpu.Sample `json:"sample"`
	// XIDs counts the events by their numbers, under 0 those of ever more
	// numbers; SampleErrors the samples that could not be taken.
	XIDs         map[uint64]uint64 `json:"xids,omitempty"`
	SampleErrors uint64            `json:"sample_errors,omitempty"`
}

// Watcher is safe for use by many goroutines.
type Watcher struct {
	cfg  WatcherConfig
	file *stateFile // has a lock of its own, taken before mu
	// saveNeeded asks Run to write down what needs a reset; a slow disk keeps
	// nobody from hearing of a fault.
	saveNeeded chan struct{}

	mu      sync.Mutex
	devices []*watchedDevice // in the host's order
	cordons map[string]cordonRecord
	offered []string
	// withheld are all others, each with what was known first: a reason that
	// changes is no news to those who offer devices.
	withheld    []gpu.WithheldDevice
	hosts       map[chan gpu.Host]bool
	subscribers map[*changeSubscriber]bool
}

// watchedDevice is guarded by Watcher.mu, but for what never changes.
type watchedDevice struct {
	gpu.Device
	resample chan struct{} // samples before the time
	state    health.DeviceState
	sample   gpu.Sample
	history  sampleRing
	xids     map[uint64]uint64
	errors   uint64
}

// matchesName reports whether name is the device's own or its whole GPU's.
func (d *watchedDevice) matchesName(name string) bool {
	return d.UUID == name || d.MIG != nil && d.MIG.Parent == name
}

// New reads what an earlier daemon kept. All devices count as healthy that it
// has nothing against. Run does the watching.
func New(cfg WatcherConfig) (*Watcher, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("watch GPUs: %w", err)
	}
	file, kept, err := openStateFile(cfg.StateDir, cfg.Boot)
	if err != nil {
		return nil, fmt.Errorf("watch GPUs: %w", err)
	}
	w := &Watcher{
		cfg: cfg, file: file, saveNeeded: make(chan struct{}, 1), cordons: kept.Cordons,
		hosts: map[chan gpu.Host]bool{}, subscribers: map[*changeSubscriber]bool{},
	}
	size := int(cfg.HistoryLength/cfg.SampleInterval) + 1
	for _, d := range cfg.Host.Devices {
		w.devices = append(w.devices, &watchedDevice{
			Device: d, resample: make(chan struct{}, 1), state: health.New(time.Now(), kept.Faults[d.UUID]),
			history: newSampleRing(size), xids: map[uint64]uint64{},
		})
	}
	w.offered, w.withheld = w.splitOffered()
	return w, nil
}

// Run watches until ctx ends. Once that has, it waits at most Timeout for a
// call that hangs in the driver, or for a disk.
func (w *Watcher) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, d := range w.devices {
		all.Go(func() { w.sampleDevice(ctx, d) })
	}
	all.Go(func() { w.listenForEvents(ctx) })
	all.Go(func() { w.saveUntilDone(ctx) })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		all.Wait()
	}()
	<-ctx.Done()
	select {
	case <-ended:
	case <-time.After(w.cfg.SampleTimeout):
	}
}

// DeviceStates tells what is known of each device, in the host's order. Samples are
// shared: nobody may change one.
func (w *Watcher) DeviceStates() []DeviceState {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]DeviceState, len(w.devices))
	for i, d := range w.devices {
		list[i] = DeviceState{Device: d.Device, Condition: w.currentCondition(d), Sample: d.sample, XIDs: cloneCounts(d.xids), SampleErrors: d.errors}
	}
	return list
}

// DeviceCondition is one device's, and whether the host has it.
func (w *Watcher) DeviceCondition(uuid string) (gpu.DeviceCondition, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.devices {
		if d.UUID == uuid {
			return w.currentCondition(d), true
		}
	}
	return gpu.DeviceCondition{}, false
}

// SampleHistory is what was measured of a device in the last minutes, oldest first,
// without the processes, and whether the host has the device.
func (w *Watcher) SampleHistory(uuid string) ([]gpu.Sample, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.devices {
		if d.UUID == uuid {
			return d.history.samplesSince(time.Now().Add(-w.cfg.HistoryLength)), true
		}
	}
	return nil, false
}

// The functions below are called with mu held.

func (w *Watcher) currentCondition(d *watchedDevice) gpu.DeviceCondition {
	c := d.state.Condition()
	held, ok := w.cordons[d.UUID]
	if !ok && d.MIG != nil {
		held, ok = w.cordons[d.MIG.Parent]
	}
	c.Cordoned, c.Cordon = ok, held.Reason
	return c
}

func (w *Watcher) splitOffered() (offered []string, withheld []gpu.WithheldDevice) {
	for _, d := range w.devices {
		now, is := w.currentCondition(d).AsWithheld(d.UUID)
		if !is {
			offered = append(offered, d.UUID)
			continue
		}
		before := slices.IndexFunc(w.withheld, func(o gpu.WithheldDevice) bool { return o.UUID == d.UUID })
		if before >= 0 && now.Cause == gpu.WithheldUnhealthy && w.withheld[before].Cause == gpu.WithheldUnhealthy {
			now = w.withheld[before]
		}
		withheld = append(withheld, now)
	}
	return offered, withheld
}

func (w *Watcher) offeredHost() gpu.Host {
	h := w.cfg.Host
	h.Devices, h.Withheld = nil, w.withheld
	for _, d := range w.devices {
		if slices.Contains(w.offered, d.UUID) {
			h.Devices = append(h.Devices, d.Device)
		}
	}
	return h
}
