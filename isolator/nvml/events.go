//go:build linux && cgo

package nvml

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const (
	// pollInterval bounds how late an event is. Between two polls nobody is
	// in NVML for the sake of events, so that it can be started anew.
	pollInterval = 200 * time.Millisecond
	// pollMillis is how long NVML itself waits.
	pollMillis = 10
	// busInterval is how often the PCI bus is asked for each GPU.
	busInterval = time.Second
	// maxEvents bounds what one poll takes from NVML.
	maxEvents = 64
)

const watched = nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError | nvml.EventTypeSingleBitEccError

// Wait returns the next thing that befell a device, of those that were
// there when the library was opened or that Host found since. It returns
// ctx's error when ctx ends. Where NVML has no events to tell of, Wait still
// sees a GPU fall off the bus. It is for one caller at a time.
func (l *Library) Wait(ctx context.Context) (Event, error) {
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return Event{}, ctx.Err()
		case <-tick.C:
		}
		if err := l.poll(); err != nil {
			return Event{}, err
		}
		if e, ok := l.next(); ok {
			return e, nil
		}
		tick.Reset(pollInterval)
	}
}

func (l *Library) next() (Event, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) == 0 {
		return Event{}, false
	}
	e := l.events[0]
	l.events = l.events[1:]
	return e, true
}

// poll queues what has happened. It passes while NVML is being started.
func (l *Library) poll() error {
	l.lookAtBus(time.Now())
	if !one.tryEnter() {
		return nil
	}
	defer one.leave()
	l.mu.Lock()
	set, closed, queued := l.set, l.closed, len(l.events)
	l.mu.Unlock()
	if closed {
		return fmt.Errorf("wait for events: %w", errClosed)
	}
	if set == nil || queued > 0 {
		return nil
	}
	for range maxEvents {
		// Other errors than a timeout are about a GPU, whose next sample
		// tells of it.
		data, ret := set.Wait(pollMillis)
		if ret != nvml.SUCCESS {
			return nil
		}
		l.queue(data, time.Now())
	}
	return nil
}

// lookAtBus queues an event for each device whose GPU fell off the bus.
func (l *Library) lookAtBus(now time.Time) {
	l.mu.Lock()
	cards := l.cards
	due := !l.closed && now.Sub(l.looked) >= busInterval
	if due {
		l.looked = now
	}
	l.mu.Unlock()
	if !due {
		return
	}
	for _, c := range cards {
		if !c.onBus || l.bus.presence(c.pci) != absent {
			continue
		}
		l.mu.Lock()
		if l.lose(c, offBus(c)) {
			for _, uuid := range l.befallen(c, math.MaxUint32, math.MaxUint32) {
				l.events = append(l.events, Event{Device: uuid, Lost: true, At: now})
			}
		}
		l.mu.Unlock()
	}
}

// queue puts NVML's event into the package's words.
func (l *Library) queue(data nvml.EventData, now time.Time) {
	e := Event{At: now}
	switch data.EventType {
	case nvml.EventTypeXidCriticalError:
		e.XID = data.EventData
	case nvml.EventTypeDoubleBitEccError:
		e.ECC = true
	case nvml.EventTypeSingleBitEccError:
		e.ECC, e.Corrected = true, true
	default:
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	uuids := []string{""}
	for _, c := range l.cards {
		if c.handle == data.Device {
			uuids = l.befallen(c, data.GpuInstanceId, data.ComputeInstanceId)
		}
	}
	for _, e.Device = range uuids {
		l.events = append(l.events, e)
	}
}

// befallen lists whom an event of a GPU befalls: the GPU, or its slices with
// those ids. MaxUint32 is NVML's word for all. The caller holds l.mu.
func (l *Library) befallen(c *card, gi, ci uint32) []string {
	var uuids []string
	for uuid, t := range l.targets {
		if t.card == c && t.mig != nil && matches(gi, t.mig.GPUInstance) && matches(ci, t.mig.ComputeInstance) {
			uuids = append(uuids, uuid)
		}
	}
	if len(uuids) == 0 {
		return []string{c.uuid}
	}
	slices.Sort(uuids)
	return uuids
}

func matches(id uint32, mine int) bool { return id == math.MaxUint32 || int(id) == mine }

// createSet makes what NVML puts events into. The caller is alone in one.
func (l *Library) createSet() {
	if !l.s.hasAll("nvmlEventSetCreate", "nvmlEventSetFree", "nvmlEventSetWait", "nvmlDeviceGetSupportedEventTypes", "nvmlDeviceRegisterEvents") {
		return
	}
	set, ret := l.s.EventSetCreate()
	if ret != nvml.SUCCESS {
		l.c.Log.WithError(fault(ret)).Warn("no events of GPUs")
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.set = set
}

// freeSet is createSet undone: no card's events are asked for any more. The
// caller is alone in one.
func (l *Library) freeSet() {
	l.mu.Lock()
	set := l.set
	l.set = nil
	for _, c := range l.cards {
		c.registered = false
	}
	l.mu.Unlock()
	if set != nil {
		_ = set.Free()
	}
}

// register asks for a card's events. The caller is in one.
func (l *Library) register(c *card) {
	l.mu.Lock()
	handle, set := c.handle, l.set
	l.mu.Unlock()
	types, ret := handle.GetSupportedEventTypes()
	if ret == nvml.SUCCESS {
		ret = handle.RegisterEvents(types&watched, set)
	}
	if ret != nvml.SUCCESS {
		l.c.Log.WithField("gpu", c.uuid).WithError(fault(ret)).Warn("no events of this GPU")
	}
}
