package watch

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/health"
)

// maxListenPause bounds the wait before events are asked for again.
const maxListenPause = 30 * time.Second

// answer is what was measured of a device, and by what it is judged.
type answer struct {
	sample, judged gpu.Sample
	err            error
}

// measure samples a device. A slice is judged by its whole GPU: no slice has
// errors, energy and clocks of its own.
func (w *Watcher) measure(d gpu.Device) (a answer) {
	a.sample, a.err = w.cfg.Source.Sample(d.UUID)
	a.judged = a.sample
	if a.err == nil && d.MIG != nil {
		a.judged, a.err = w.cfg.Source.Sample(d.MIG.Parent)
	}
	return a
}

// probe samples one device. A call that hangs is left to itself: until it
// comes back, each round is an error.
func (w *Watcher) probe(ctx context.Context, d *device) {
	tick := time.NewTicker(w.cfg.Every)
	defer tick.Stop()
	var pending chan answer
	for {
		if pending == nil {
			pending = make(chan answer, 1)
			go func(reply chan<- answer) { reply <- w.measure(d.Device) }(pending)
		}
		select {
		case a := <-pending:
			pending = nil
			w.sampled(d, a)
		case <-time.After(w.cfg.Timeout):
			w.sampled(d, answer{err: fmt.Errorf("the driver does not answer within %s", w.cfg.Timeout)})
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-d.kick:
		}
	}
}

func (w *Watcher) sampled(d *device, a answer) {
	o := health.Observation{Sample: &a.judged}
	if a.err != nil {
		o = health.Observation{Err: a.err}
	} else {
		w.mu.Lock()
		d.sample = a.sample
		d.history.add(a.sample)
		w.mu.Unlock()
	}
	w.observe(o, func(other *device) bool { return other == d })
}

// listen hands events on as they come.
func (w *Watcher) listen(ctx context.Context) {
	for pause := time.Second; ; {
		event, err := w.cfg.Source.Wait(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			pause = time.Second
			w.happened(event)
			continue
		}
		w.cfg.Log.WithError(err).WithField("retry_in", pause.String()).Warn("no GPU events from the driver; samples alone tell of faults")
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, maxListenPause)
	}
}

// happened applies an event to the devices it is about: to all where the
// driver does not say, and to every slice of a GPU.
func (w *Watcher) happened(e health.Event) {
	known := w.observe(health.Observation{Event: &e}, func(d *device) bool { return e.Device == "" || d.is(e.Device) })
	if !known {
		w.cfg.Log.WithField("gpu", e.Device).WithField("xid", e.XID).Warn("the driver reports an error of a GPU that is not watched")
	}
}

// observe steps the devices chosen, tells who listens and has written down
// what must outlive the daemon. It reports whether a device was chosen.
func (w *Watcher) observe(o health.Observation, chosen func(*device) bool) (known bool) {
	var changed []Update
	save := false
	w.mu.Lock()
	now := time.Now()
	for _, d := range w.devices {
		if !chosen(d) {
			continue
		}
		known = true
		d.note(o)
		kept := d.state.Saved()
		next, differs := w.cfg.Policy.Step(now, d.state, o)
		d.state = next
		save = save || kept.Outdated(next.Saved())
		if differs {
			changed = append(changed, Update{Device: d.UUID, Condition: w.condition(d)})
		}
	}
	w.tell(changed)
	w.mu.Unlock()
	w.log(changed)
	if save {
		select {
		case w.dirty <- struct{}{}:
		default:
		}
	}
	return known
}

// note keeps the figures that health has no use for.
func (d *device) note(o health.Observation) {
	switch {
	case o.Err != nil:
		d.errors++
	case o.Event != nil && o.Event.XID != 0:
		count(d.xids, o.Event.XID)
	}
}

func (w *Watcher) log(changed []Update) {
	for _, u := range changed {
		entry := w.cfg.Log.WithFields(logrus.Fields{"gpu": u.Device, "health": u.Condition.Health, "reason": u.Condition.Reason})
		if u.Condition.Health == gpu.Failed {
			entry.Warn("GPU failed")
		} else {
			entry.Info("GPU health changed")
		}
	}
}
