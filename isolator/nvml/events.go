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
	// pollInterval bounds the delay of an event. Between two polls no goroutine calls NVML for
	// events, so that it can be restarted.
	pollInterval = 200 * time.Millisecond
	// waitMillis is how long NVML itself waits.
	waitMillis = 10
	// busInterval is how often the PCI bus is checked for each GPU.
	busInterval = time.Second
	// maxEvents bounds how many events one poll reads from NVML.
	maxEvents = 64
)

const watchedEvents = nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError | nvml.EventTypeSingleBitEccError

// WaitEvent returns the next event of the devices that existed when the library was opened or
// that DescribeHost found since. It returns ctx's error when ctx ends. If NVML does not support
// events, WaitEvent still detects that a GPU has fallen off the bus. It must not be called
// concurrently.
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

// pollEvents queues new events. It does nothing while NVML is being restarted.
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
		// Errors other than a timeout concern a GPU, whose next sample
		// reports them.
		data, ret := set.Wait(waitMillis)
		if ret != nvml.SUCCESS {
			return nil
		}
		l.queueEvent(data, time.Now())
	}
	return nil
}

// checkBus queues an event for each device whose GPU has fallen off the bus.
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

// queueEvent queues an event of NVML.
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

// affectedDevices returns the devices that an event of a GPU affects: the GPU, or its MIG
// devices with those ids. NVML uses MaxUint32 for all ids. The caller holds l.mu.
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

// createEventSet creates NVML's event set. The caller holds nvmlGate alone.
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

// freeEventSet undoes createEventSet. No GPU is registered for events afterwards. The caller
// holds nvmlGate alone.
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

// registerEvents registers a GPU for events. The caller has entered nvmlGate.
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
