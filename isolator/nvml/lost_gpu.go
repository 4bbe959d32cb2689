//go:build linux && cgo

package nvml

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"mesos-gpu/gpu"
)

// maxRetryPause bounds the pause before a lost GPU is tried again.
const maxRetryPause = 5 * time.Minute

// lostReason returns why a GPU is lost, nil if it is not known to be. It reads the PCI bus,
// which responds even if the driver hangs, and does not call NVML.
func (l *Library) lostReason(c *gpuState) error {
	gone := c.seenOnBus && l.bus.readPresence(c.pci) == presenceAbsent
	l.mu.Lock()
	defer l.mu.Unlock()
	if gone {
		l.markLost(c, offBusError(c))
	}
	return c.lostErr
}

func offBusError(c *gpuState) error {
	return fmt.Errorf("%w: it is off the PCI bus at %s", ErrLost, c.pci)
}

// markLost records that a GPU is lost, and reports whether that was not known before. The
// caller holds l.mu.
func (l *Library) markLost(c *gpuState, why error) bool {
	if c.lostErr != nil {
		return false
	}
	c.lostErr, c.retryPause = why, l.c.retryPause
	c.retryAt = time.Now().Add(c.retryPause)
	return true
}

// shouldRetry reports whether to try a lost GPU again: its pause is over, and it is not off the
// bus. If all GPUs are lost, so that none can be blocked, it restarts NVML, which may cache the
// loss of a GPU.
func (l *Library) shouldRetry(c *gpuState) bool {
	l.mu.Lock()
	due := !time.Now().Before(c.retryAt)
	if due {
		c.retryPause = min(2*c.retryPause, maxRetryPause)
		c.retryAt = time.Now().Add(c.retryPause)
	}
	restart := l.areAllLost()
	l.mu.Unlock()
	if !due || c.seenOnBus && l.bus.readPresence(c.pci) == presenceAbsent {
		return false
	}
	if restart {
		if err := l.restartNVML(); err != nil {
			l.c.Log.WithField("gpu", c.uuid).WithError(err).Warn("lost GPU not found")
			return false
		}
	}
	return true
}

// areAllLost reports whether all GPUs are lost. The caller holds l.mu.
func (l *Library) areAllLost() bool {
	return !slices.ContainsFunc(l.gpus, func(c *gpuState) bool { return c.lostErr == nil })
}

// restartNVML restarts NVML if all GPUs are still lost once all callers have left it. A GPU
// that hangs meanwhile blocks the others.
func (l *Library) restartNVML() error {
	unlock, err := nvmlGate.enterAlone(l.c.sampleTimeout / 2)
	if err != nil {
		return err
	}
	defer unlock()
	l.mu.Lock()
	closed, needed := l.closed, l.areAllLost()
	if needed && !closed {
		l.dropHandles()
	}
	l.mu.Unlock()
	if closed || !needed {
		return nil
	}
	l.freeEventSet()
	_ = l.session.stop() // it fails where the driver went away
	if ret := l.session.Init(); ret != nvml.SUCCESS {
		return fmt.Errorf("start %s: %w", l.c.Library, newNVMLError(ret))
	}
	h, wholes, err := l.session.describeHost()
	l.createEventSet()
	l.adoptGPUs(wholes, h.Lost)
	return err
}

// dropHandles clears the session's handles. The caller holds l.mu.
func (l *Library) dropHandles() {
	for uuid, t := range l.targets {
		t.handle = nil
		l.targets[uuid] = t
	}
}

// adoptGPUs takes over what the session found, with MIG devices that appeared and without those
// that disappeared. A GPU that was not found is lost, whether the session or LibraryConfig.Known had
// it.
func (l *Library) adoptGPUs(wholes []physicalGPU, lost []gpu.LostDevice) {
	for _, c := range l.updateHandles(wholes, lost) {
		l.registerEvents(c)
	}
}

// updateHandles is adoptGPUs without the events. It returns the GPUs to register for events.
func (l *Library) updateHandles(wholes []physicalGPU, lost []gpu.LostDevice) (unregistered []*gpuState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[*gpuState]bool{}
	for _, w := range wholes {
		c := l.gpuStateOf(w.device.UUID, w.device.PCI)
		c.handle, c.lostErr = w.handle, nil
		found[c] = true
		maps.DeleteFunc(l.targets, func(_ string, t deviceHandle) bool { return t.gpu == c })
		l.targets[c.uuid] = deviceHandle{c, w.handle, nil}
		for _, slice := range w.slices {
			l.targets[slice.device.UUID] = deviceHandle{c, slice.handle, slice.device.MIG}
		}
		if l.eventSet != nil && !c.registered {
			c.registered = true
			unregistered = append(unregistered, c)
		}
	}
	for _, d := range lost {
		if !d.IsKnown() {
			continue
		}
		c := l.gpuStateOf(physicalUUID(d.Device), d.Device.PCI)
		l.markLost(c, fmt.Errorf("%w: %s", ErrLost, d.Reason))
		if _, has := l.targets[d.Device.UUID]; !has {
			l.targets[d.Device.UUID] = deviceHandle{c, nil, d.Device.MIG}
		}
	}
	for _, c := range l.gpus {
		if !found[c] {
			l.markLost(c, fmt.Errorf("%w: NVML does not describe it", ErrLost))
		}
	}
	return unregistered
}

func (l *Library) gpuStateOf(uuid, pci string) *gpuState {
	for _, c := range l.gpus {
		if c.uuid == uuid {
			return c
		}
	}
	c := &gpuState{uuid: uuid, pci: pci, token: make(chan struct{}, 1), seenOnBus: l.bus.readPresence(pci) == presencePresent}
	l.gpus = append(l.gpus, c)
	return c
}
