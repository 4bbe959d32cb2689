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
	// waitMillis is how long NVML itself waits.
	waitMillis = 10
	// busInterval is how often the PCI bus is asked for each GPU.
	busInterval = time.Second
	// maxEvents bounds what one poll takes from NVML.
	maxEvents = 64
)

const watchedEvents = nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError | nvml.EventTypeSingleBitEccError

// WaitEvent returns the next thing that befell a device, of those that were
// there when the library was opened or that Host found since. It returns
// ctx's error when ctx ends. Where NVML has no events to tell of, Wait still
// sees a GPU fall off the bus. It is for one caller at a time.
func (l *Library) WaitEvent(ctx context.Context) (DeviceEvent, error) {
	tick := time.NewTimer(0)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return DeviceEvent{}, ctx.Err()
		case <-tick.C:
		}
		if err := l.pollEvents(); err != nil {
			return DeviceEvent{}, err
		}
		if e, ok := l.nextEvent(); ok {
			return e, nil
		}
		tick.Reset(pollInterval)
	}
}

func (l *Library) nextEvent() (DeviceEvent, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) == 0 {
		return DeviceEvent{}, false
	}
	e := l.events[0]
	l.events = l.events[1:]
	return e, true
}

// pollEvents queues what has happened. It passes while NVML is being started.
func (l *Library) pollEvents() error {
	l.checkBus(time.Now())
	if !nvmlGate.tryEnter() {
		return nil
	}
	defer nvmlGate.leave()
	l.mu.Lock()
	set, closed, queued := l.eventSet, l.closed, len(l.events)
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
		data, ret := set.Wait(waitMillis)
		if ret != nvml.SUCCESS {
			return nil
		}
		l.queueEvent(data, time.Now())
	}
	return nil
}

// checkBus queues an event for each device whose GPU fell off the bus.
func (l *Library) checkBus(now time.Time) {
	l.mu.Lock()
	cards := l.gpus
	due := !l.closed && now.Sub(l.busCheckedAt) >= busInterval
	if due {
		l.busCheckedAt = now
	}
	l.mu.Unlock()
	if !due {
		return
	}
	for _, c := range cards {
		if !c.seenOnBus || l.bus.readPresence(c.pci) != presenceAbsent {
			continue
		}
		l.mu.Lock()
		if l.markLost(c, offBusError(c)) {
			for _, uuid := range l.affectedDevices(c, math.MaxUint32, math.MaxUint32) {
				l.events = append(l.events, DeviceEvent{Device: uuid, Lost: true, At: now})
			}
		}
		l.mu.Unlock()
	}
}

// queueEvent puts NVML's event into the package's words.
func (l *Library) queueEvent(data nvml.EventData, now time.Time) {
	e := DeviceEvent{At: now}
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
	for _, c := range l.gpus {
		if c.handle == data.Device {
			uuids = l.affectedDevices(c, data.GpuInstanceId, data.ComputeInstanceId)
		}
	}
	for _, e.Device = range uuids {
		l.events = append(l.events, e)
	}
}

// affectedDevices lists whom an event of a GPU befalls: the GPU, or its slices with
// those ids. MaxUint32 is NVML's word for all. The caller holds l.mu.
func (l *Library) affectedDevices(c *gpuState, gi, ci uint32) []string {
	var uuids []string
	for uuid, t := range l.targets {
		if t.gpu == c && t.mig != nil && matchesID(gi, t.mig.GPUInstance) && matchesID(ci, t.mig.ComputeInstance) {
			uuids = append(uuids, uuid)
		}
	}
	if len(uuids) == 0 {
		return []string{c.uuid}
	}
	slices.Sort(uuids)
	return uuids
}

func matchesID(id uint32, mine int) bool { return id == math.MaxUint32 || int(id) == mine }

// createEventSet makes what NVML puts events into. The caller is alone in one.
func (l *Library) createEventSet() {
	if !l.session.hasAll("nvmlEventSetCreate", "nvmlEventSetFree", "nvmlEventSetWait", "nvmlDeviceGetSupportedEventTypes", "nvmlDeviceRegisterEvents") {
		return
	}
	set, ret := l.session.EventSetCreate()
	if ret != nvml.SUCCESS {
		l.c.Log.WithError(newNVMLError(ret)).Warn("no events of GPUs")
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.eventSet = set
}

// freeEventSet is createEventSet undone: no card's events are asked for any more. The
// caller is alone in one.
func (l *Library) freeEventSet() {
	l.mu.Lock()
	set := l.eventSet
	l.eventSet = nil
	for _, c := range l.gpus {
		c.registered = false
	}
	l.mu.Unlock()
	if set != nil {
		_ = set.Free()
	}
}

// registerEvents asks for a card's events. The caller is in one.
func (l *Library) registerEvents(c *gpuState) {
	l.mu.Lock()
	handle, set := c.handle, l.eventSet
	l.mu.Unlock()
	types, ret := handle.GetSupportedEventTypes()
	if ret == nvml.SUCCESS {
		ret = handle.RegisterEvents(types&watchedEvents, set)
	}
	if ret != nvml.SUCCESS {
		l.c.Log.WithField("gpu", c.uuid).WithError(newNVMLError(ret)).Warn("no events of this GPU")
	}
}
