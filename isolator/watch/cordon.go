package watch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/health"
)

// MaxReason bounds what an operator may write, in bytes.
const MaxReason = 1024

// saveRetry is how soon what could not be written down is tried again.
const saveRetry = 5 * time.Second

// cordonRecord is an operator's word that a device is not to be given to tasks.
type cordonRecord struct {
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

// CordonDevice keeps a device out of the offers until Uncordon, over restarts too. A
// GPU's name stands for all its slices. Tasks that hold the device go on. The
// error wraps ErrUnknownDevice where the host has no such device.
func (w *Watcher) CordonDevice(uuid, reason string) error {
	if len(reason) > MaxReason {
		return fmt.Errorf("cordon device %s: the reason has %d bytes, at most %d are kept", uuid, len(reason), MaxReason)
	}
	if !w.hasDevice(uuid) {
		return fmt.Errorf("cordon device %s: %w", uuid, ErrUnknownDevice)
	}
	err := w.setCordons(func(cordons map[string]cordonRecord) {
		cordons[uuid] = cordonRecord{Reason: reason, Since: time.Now()}
	})
	if err != nil {
		return fmt.Errorf("cordon device %s: %w", uuid, err)
	}
	return nil
}

// UncordonDevice takes a cordon back, and vouches for the device: what would need a
// reset is forgotten. One that fails still stays out of the offers. The error
// wraps ErrUnknownDevice where the host has no such device and none is cordoned,
// ErrCordoned where a slice's whole GPU is.
func (w *Watcher) UncordonDevice(uuid string) error {
	w.mu.Lock()
	_, cordoned := w.cordons[uuid]
	parent := w.cordonedParent(uuid)
	w.mu.Unlock()
	switch {
	case parent != "":
		return fmt.Errorf("uncordon device %s: %w, with all its slices: uncordon GPU %s", uuid, ErrCordoned, parent)
	case !cordoned && !w.hasDevice(uuid):
		return fmt.Errorf("uncordon device %s: %w", uuid, ErrUnknownDevice)
	}
	if err := w.setCordons(func(cordons map[string]cordonRecord) { delete(cordons, uuid) }); err != nil {
		return fmt.Errorf("uncordon device %s: %w", uuid, err)
	}
	w.applyObservation(health.Observation{ClearedByOperator: true}, func(d *watchedDevice) bool { return d.matchesName(uuid) })
	for _, d := range w.devices {
		if d.matchesName(uuid) {
			select {
			case d.resample <- struct{}{}:
			default:
			}
		}
	}
	return nil
}

// cordonedParent names a slice's GPU where that is cordoned. It is called with
// mu held.
func (w *Watcher) cordonedParent(uuid string) string {
	for _, d := range w.devices {
		if d.UUID == uuid && d.MIG != nil {
			if _, cordoned := w.cordons[d.MIG.Parent]; cordoned {
				return d.MIG.Parent
			}
		}
	}
	return ""
}

func (w *Watcher) hasDevice(uuid string) bool {
	return slices.ContainsFunc(w.devices, func(d *watchedDevice) bool { return d.matchesName(uuid) })
}

// setCordons writes the changed cordons down before they count.
func (w *Watcher) setCordons(change func(map[string]cordonRecord)) error {
	w.file.Lock()
	defer w.file.Unlock()
	w.mu.Lock()
	next := maps.Clone(w.cordons)
	change(next)
	content := w.currentContent(next)
	w.mu.Unlock()
	if err := w.file.writeContent(content); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before := make([]gpu.DeviceCondition, len(w.devices))
	for i, d := range w.devices {
		before[i] = w.currentCondition(d)
	}
	w.cordons = next
	var changed []ConditionUpdate
	for i, d := range w.devices {
		if c := w.currentCondition(d); c != before[i] {
			changed = append(changed, ConditionUpdate{Device: d.UUID, Condition: c})
		}
	}
	w.notifySubscribers(changed)
	return nil
}

// saveUntilDone writes down what needs a reset: whenever it has changed, again after a
// while where that did not succeed, and in the end, with the energy that the
// devices have used by then.
func (w *Watcher) saveUntilDone(ctx context.Context) {
	var again <-chan time.Time // set while the last try failed
	for ended := false; !ended; {
		select {
		case <-w.saveNeeded:
		case <-again:
		case <-ctx.Done():
			ended = true
		}
		err := w.saveFaults()
		if err != nil && again == nil {
			w.cfg.Log.WithError(err).Error("GPU faults not written down: a restart would forget which GPU needs a reset")
		}
		again = nil
		if err != nil {
			again = time.After(saveRetry)
		}
	}
}

// saveFaults writes down what needs a reset.
func (w *Watcher) saveFaults() error {
	w.file.Lock()
	defer w.file.Unlock()
	w.mu.Lock()
	content := w.currentContent(w.cordons)
	w.mu.Unlock()
	return w.file.writeContent(content)
}

// currentContent is called with mu held. It keeps what belongs to devices that are
// away.
func (w *Watcher) currentContent(cordons map[string]cordonRecord) stateContent {
	c := stateContent{Cordons: cordons, Faults: maps.Clone(w.file.savedFaults)}
	for _, d := range w.devices {
		if s := d.state.SavedState(); len(s.Faults) > 0 {
			c.Faults[d.UUID] = s
		} else {
			delete(c.Faults, d.UUID)
		}
	}
	return c
}
