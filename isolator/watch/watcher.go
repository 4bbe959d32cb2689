// Package watch monitors one machine's GPUs. It samples them, receives the
// driver's events, lets package health judge both, and keeps a history of some
// minutes. It stores cordons and faults that need a reset across restarts, and
// notifies subscribers. Package health and the operator make the decisions;
// subscribers act on them.
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

// ErrUnknownDevice is wrapped by errors about devices that are not on the
// host.
var ErrUnknownDevice = errors.New("no such device on this host")

// ErrCordoned is wrapped by errors about MIG devices that cannot be uncordoned
// alone.
var ErrCordoned = errors.New("its whole GPU is cordoned")

// SampleSource provides samples and events.
type SampleSource interface {
	// Sample measures one device. If the device is lost, the error wraps
	// health.ErrLost. A call may hang in the driver; there is at most one at a
	// time for each device, and calls for other devices continue. The whole
	// GPU of MIG devices, which need not be a device of the host, may have one
	// call for each of them.
	Sample(uuid string) (gpu.Sample, error)
	// Wait returns the next event or an error. It returns when ctx ends.
	Wait(ctx context.Context) (health.DeviceEvent, error)
}

// WatcherConfig configures a Watcher.
type WatcherConfig struct {
	// Host has the devices. Those that are in Host.Lost, too, count as failed until their first sample.
	Host   gpu.Host
	Source SampleSource
	Policy health.FaultPolicy
	// StateDir has the file with cordons and faults that need a reset.
	StateDir string
	// Boot identifies the current boot of the machine, the content of
	// /proc/sys/kernel/random/boot_id. If it has changed, devices have been
	// reset. It is empty if unknown.
	Boot string
	Log  logrus.FieldLogger

	// sampleInterval (5 s) is the time between two samples of a device.
	sampleInterval time.Duration
}

const (
	// sampleTimeout is the time after which a sample counts as an error.
	sampleTimeout = 3 * time.Second
	// historyLength is how long samples are kept.
	historyLength = 10 * time.Minute
)

func (c WatcherConfig) withDefaults() (WatcherConfig, error) {
	switch {
	case c.Source == nil:
		return c, errors.New("no source of samples given")
	case c.StateDir == "":
		return c, errors.New("no state folder given: cordons must outlive the daemon")
	case c.Log == nil:
		return c, errors.New("no log given")
	}
	if c.sampleInterval == 0 {
		c.sampleInterval = 5 * time.Second
	}
	c.Policy = c.Policy.WithDefaults()
	return c, nil
}

// DeviceState is the state of one device.
type DeviceState struct {
	Device    gpu.Device          `json:"device"`
	Condition gpu.DeviceCondition `json:"condition"`
	// Sample is the last one. Its At is zero before the first.
	Sample gpu.Sample `json:"sample"`
	// XIDs counts events by number; 0 counts those beyond maxXIDs distinct
	// numbers. SampleErrors counts failed samples.
	XIDs         map[uint64]uint64 `json:"xids,omitempty"`
	SampleErrors uint64            `json:"sample_errors,omitempty"`
}

// Watcher may be used concurrently.
type Watcher struct {
	cfg WatcherConfig
	// file stores cordons and faults. It has its own lock, which is taken
	// before mu.
	file *stateFile
	// saveNeeded requests a save from Run, so that a slow disk does not delay
	// notifications. It holds one token at most.
	saveNeeded chan struct{}

	// mu guards all fields below and the changing fields of the devices.
	mu sync.Mutex
	// devices has the devices of WatcherConfig.Host, in its order. The list never
	// changes: after a repartitioning the daemon creates another Watcher.
	devices []*watchedDevice
	// cordons is indexed by the UUID that the operator named, of a device or of
	// a GPU with all its MIG devices. It changes after the file was written.
	cordons map[string]cordonRecord
	// holders describe, by device, containers that hold it and are none of the agent's tasks.
	holders map[string]string
	// noDriver is why the machine has no usable driver files, "" if it has.
	noDriver string
	// offered are the UUIDs of the devices that tasks may get, as WatchHosts
	// last sent them.
	offered []string
	// withheld are all other devices, each with the reason that was observed
	// first. A changed reason alone causes no notification.
	withheld []gpu.WithheldDevice
	// hosts are the channels of WatchHosts. Each holds at most one state, the
	// latest; a newer one replaces it.
	hosts map[chan gpu.Host]bool
	// subscribers are the readers of WatchConditions.
	subscribers map[*changeSubscriber]bool
}

// watchedDevice is guarded by Watcher.mu, except for constant fields.
type watchedDevice struct {
	gpu.Device
	// resample requests a sample without waiting for the interval, for example
	// after an uncordon. It holds one token at most.
	resample chan struct{}
	// state is package health's assessment. Each sample, error and event
	// replaces it.
	state health.DeviceState
	// sample is the last successful sample; zero before the first. A failed
	// sample leaves it as it is.
	sample gpu.Sample
	// history has the samples of the last historyLength.
	history sampleRing
	// xids counts events by number since the daemon's start; 0 counts those
	// beyond maxXIDs distinct numbers.
	xids map[uint64]uint64
	// errors counts failed samples since the daemon's start.
	errors uint64
}

// matchesName reports whether name is the UUID of the device or of its whole
// GPU.
func (d *watchedDevice) matchesName(name string) bool {
	return d.UUID == name || d.MIG != nil && d.MIG.Parent == name
}

// New reads the saved state. Devices without saved faults count as healthy.
// Run does the monitoring.
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
	size := int(historyLength/cfg.sampleInterval) + 1
	for _, d := range cfg.Host.Devices {
		w.devices = append(w.devices, &watchedDevice{
			Device: d, resample: make(chan struct{}, 1), state: cfg.initialState(d.UUID, kept.Faults[d.UUID]),
			history: newSampleRing(size), xids: map[uint64]uint64{},
		})
	}
	w.offered, w.withheld = w.splitOffered()
	return w, nil
}

// initialState returns the state of a device before its first sample.
func (c WatcherConfig) initialState(uuid string, saved health.SavedState) health.DeviceState {
	now := time.Now()
	s := health.New(now, saved)
	for _, l := range c.Host.Lost {
		if l.Device.UUID == uuid {
			s, _ = c.Policy.ApplyObservation(now, s, health.Observation{Err: fmt.Errorf("%w: %s", health.ErrLost, l.Reason)})
		}
	}
	return s
}

// Run monitors until ctx ends. Then it waits at most SampleTimeout for a
// hanging call or a slow disk.
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
	case <-time.After(sampleTimeout):
	}
}

// DeviceStates returns the state of each device in the host's order. The
// samples are shared: callers must not modify them.
func (w *Watcher) DeviceStates() []DeviceState {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := make([]DeviceState, len(w.devices))
	for i, d := range w.devices {
		list[i] = DeviceState{Device: d.Device, Condition: w.currentCondition(d), Sample: d.sample, XIDs: cloneCounts(d.xids), SampleErrors: d.errors}
	}
	return list
}

// DeviceCondition returns the condition of a device, and whether the host has
// it.
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

// SampleHistory returns the samples of a device in the last minutes without
// processes, oldest first, and whether the host has the device.
func (w *Watcher) SampleHistory(uuid string) ([]gpu.Sample, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.devices {
		if d.UUID == uuid {
			return d.history.samplesSince(time.Now().Add(-historyLength)), true
		}
	}
	return nil, false
}

// The callers of the functions below hold mu.

func (w *Watcher) currentCondition(d *watchedDevice) gpu.DeviceCondition {
	c := d.state.Condition()
	held, ok := w.cordons[d.UUID]
	if !ok && d.MIG != nil {
		held, ok = w.cordons[d.MIG.Parent]
	}
	c.Cordoned, c.Cordon, c.Holder = ok, held.Reason, w.holders[d.UUID]
	c.NoDriver = w.noDriver
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
