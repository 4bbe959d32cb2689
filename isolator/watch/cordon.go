package watch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"mesos-gpu/isolator/health"
)

// MaxReason bounds an operator's text in bytes.
const MaxReason = 1024

// saveRetry is the pause after a failed save.
const saveRetry = 5 * time.Second

// cordonRecord is an operator's decision that tasks must not get a device.
type cordonRecord struct {
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

// CordonDevice keeps a device out of the offers until UncordonDevice, also
// after restarts. A GPU's UUID means all its MIG devices. Tasks that hold the
// device keep running. The error wraps ErrUnknownDevice if the host has no
// such device.
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

// UncordonDevice removes a cordon and clears the faults that need a reset,
// because the operator has checked the device. A device that fails again is
// still withheld. The error wraps ErrUnknownDevice if there is neither such a
// device nor a cordon, and ErrCordoned if the whole GPU of a MIG device is
// cordoned.
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

// cordonedParent returns the GPU of a MIG device if that GPU is cordoned, else
// "". The caller holds mu.
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

// setCordons saves the changed cordons before they take effect.
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
	w.changeConditions(func() { w.cordons = next })
	return nil
}

// saveUntilDone saves the faults that need a reset: after each change, again
// after a failed save, and at the end, with the energy that the devices have
// used until then.
func (w *Watcher) saveUntilDone(ctx context.Context) {
	var again <-chan time.Time // set after a failed attempt
	for ended := false; !ended; {
		select {
		case <-w.saveNeeded:
		case <-again:
		case <-ctx.Done():
			ended = true
		}
		err := w.saveFaults()
		if err != nil && again == nil {
			w.cfg.Log.WithError(err).Error("GPU faults not saved: after a restart it is unknown which GPU needs a reset")
		}
		again = nil
		if err != nil {
			again = time.After(saveRetry)
		}
	}
}

// saveFaults saves the faults that need a reset.
func (w *Watcher) saveFaults() error {
	w.file.Lock()
	defer w.file.Unlock()
	w.mu.Lock()
	content := w.currentContent(w.cordons)
	w.mu.Unlock()
	return w.file.writeContent(content)
}

// currentContent returns the content of the file, including the faults of
// devices that are missing at the moment. The caller holds mu.
func (w *Watcher) currentContent(cordons map[string]cordonRecord) stateContent {
	c := stateContent{Cordons: cordons, Faults: maps.Clone(w.file.savedFaults)}
	for _, d := range w.devices {
		if s := d.state.SavedState(); !s.IsEmpty() {
			c.Faults[d.UUID] = s
		} else {
			delete(c.Faults, d.UUID)
		}
	}
	return c
}
