package watch

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/health"
)

// maxListenPause bounds the pause before the next wait for events.
const maxListenPause = 30 * time.Second

// sampleResult is the sample of a device and the one that its health is judged
// by.
type sampleResult struct {
	sample, judged gpu.Sample
	err            error
}

// measureDevice samples a device. The health of a MIG device is judged by its
// whole GPU, because errors, energy and clocks exist only there.
func (w *Watcher) measureDevice(d gpu.Device) (a sampleResult) {
	a.sample, a.err = w.cfg.Source.Sample(d.UUID)
	a.judged = a.sample
	if a.err == nil && d.MIG != nil {
		a.judged, a.err = w.cfg.Source.Sample(d.MIG.Parent)
	}
	return a
}

// sampleDevice samples one device periodically. A call that hangs is not
// interrupted: until it returns, each round counts as an error.
func (w *Watcher) sampleDevice(ctx context.Context, d *watchedDevice) {
	tick := time.NewTicker(w.cfg.sampleInterval)
	defer tick.Stop()
	var pending chan sampleResult
	for {
		if pending == nil {
			pending = make(chan sampleResult, 1)
			go func(reply chan<- sampleResult) { reply <- w.measureDevice(d.Device) }(pending)
		}
		select {
		case a := <-pending:
			pending = nil
			w.recordSample(d, a)
		case <-time.After(sampleTimeout):
			w.recordSample(d, sampleResult{err: fmt.Errorf("the driver does not answer within %s", sampleTimeout)})
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-d.resample:
		}
	}
}

func (w *Watcher) recordSample(d *watchedDevice, a sampleResult) {
	o := health.Observation{Sample: &a.judged}
	if a.err != nil {
		o = health.Observation{Err: a.err}
	} else {
		w.mu.Lock()
		d.sample = a.sample
		d.history.addSample(a.sample)
		w.mu.Unlock()
	}
	w.applyObservation(o, func(other *watchedDevice) bool { return other == d })
}

// listenForEvents passes on the driver's events.
func (w *Watcher) listenForEvents(ctx context.Context) {
	for pause := time.Second; ; {
		event, err := w.cfg.Source.Wait(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			pause = time.Second
			w.applyEvent(event)
			continue
		}
		w.cfg.Log.WithError(err).WithField("retry_in", pause.String()).Warn("no GPU events from the driver; only samples detect faults")
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, maxListenPause)
	}
}

// applyEvent applies an event to its devices: to all devices if the event has
// none, and to every MIG device of a GPU.
func (w *Watcher) applyEvent(e health.DeviceEvent) {
	known := w.applyObservation(health.Observation{Event: &e}, func(d *watchedDevice) bool { return e.Device == "" || d.matchesName(e.Device) })
	if !known {
		w.cfg.Log.WithField("gpu", e.Device).WithField("xid", e.XID).Warn("the driver reports an error of an unknown GPU")
	}
}

// applyObservation updates the health of the chosen devices, notifies
// subscribers, and requests a save if needed. It reports whether a device was
// chosen.
func (w *Watcher) applyObservation(o health.Observation, chosen func(*watchedDevice) bool) (known bool) {
	var changed []ConditionUpdate
	save := false
	w.mu.Lock()
	now := time.Now()
	for _, d := range w.devices {
		if !chosen(d) {
			continue
		}
		known = true
		d.countErrors(o)
		kept := d.state.SavedState()
		next, differs := w.cfg.Policy.ApplyObservation(now, d.state, o)
		d.state = next
		save = save || kept.NeedsRewrite(next.SavedState())
		if differs {
			changed = append(changed, ConditionUpdate{Device: d.UUID, Condition: w.currentCondition(d)})
		}
	}
	w.notifySubscribers(changed)
	w.mu.Unlock()
	w.logChanges(changed)
	if save {
		select {
		case w.saveNeeded <- struct{}{}:
		default:
		}
	}
	return known
}

// countErrors updates the counters that health does not need.
func (d *watchedDevice) countErrors(o health.Observation) {
	switch {
	case o.Err != nil:
		d.errors++
	case o.Event != nil && o.Event.XID != 0:
		countXID(d.xids, o.Event.XID)
	}
}

func (w *Watcher) logChanges(changed []ConditionUpdate) {
	for _, u := range changed {
		entry := w.cfg.Log.WithFields(logrus.Fields{"gpu": u.Device, "health": u.Condition.Health, "reason": u.Condition.Reason})
		if u.Condition.Health == gpu.Failed {
			entry.Warn("GPU failed")
		} else {
			entry.Info("GPU health changed")
		}
	}
}
