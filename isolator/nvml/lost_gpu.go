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

// maxRetryPause bounds the pause before a lost GPU is asked again.
const maxRetryPause = 5 * time.Minute

// lostReason tells why a card is known to be lost; nil while it is not. It asks
// the PCI bus, which answers where the driver hangs, and not NVML.
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

// markLost remembers that a card is lost, and reports whether that is news. The
// caller holds l.mu.
func (l *Library) markLost(c *gpuState, why error) bool {
	if c.lostErr != nil {
		return false
	}
	c.lostErr, c.retryPause = why, l.c.RetryPause
	c.retryAt = time.Now().Add(c.retryPause)
	return true
}

// shouldRetry reports whether it is worth asking a lost card: it is time to, and
// the bus does not say that it is gone. Where no card is well, so that none can
// be held up, it starts NVML anew: NVML may keep to what it saw of a card.
func (l *Library) shouldRetry(c *gpuState) bool {
	l.mu.Lock()
	due := !time.Now().Before(c.retryAt)
	if due {
		c.retryPause = min(2*c.retryPause, maxRetryPause)
		c.retryAt = time.Now().Add(c.retryPause)
	}
	anew := l.areAllLost()
	l.mu.Unlock()
	if !due || c.seenOnBus && l.bus.readPresence(c.pci) == presenceAbsent {
		return false
	}
	if anew {
		if err := l.restartNVML(); err != nil {
			l.c.Log.WithField("gpu", c.uuid).WithError(err).Warn("lost GPU not found")
			return false
		}
	}
	return true
}

// areAllLost is called with l.mu held.
func (l *Library) areAllLost() bool {
	return !slices.ContainsFunc(l.gpus, func(c *gpuState) bool { return c.lostErr == nil })
}

// restartNVML starts NVML anew, if still no card is well once all calls have left
// it: a card that hangs meanwhile keeps all others out.
func (l *Library) restartNVML() error {
	unlock, err := nvmlGate.enterAlone(l.c.SampleTimeout / 2)
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
	_, wholes, err := l.session.describeHost()
	l.createEventSet()
	l.adoptGPUs(wholes)
	return err
}

// dropHandles forgets the session's handles. It is called with l.mu held.
func (l *Library) dropHandles() {
	for uuid, t := range l.targets {
		t.handle = nil
		l.targets[uuid] = t
	}
}

// adoptGPUs takes over what the session found: slices come and go. A card that was
// not found is lost.
func (l *Library) adoptGPUs(wholes []physicalGPU) {
	for _, c := range l.updateHandles(wholes) {
		l.registerEvents(c)
	}
}

// updateHandles is adopt but for the events: it lists the cards to ask for them.
func (l *Library) updateHandles(wholes []physicalGPU) (unregistered []*gpuState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[*gpuState]bool{}
	for _, w := range wholes {
		c := l.gpuStateOf(w.device)
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
	for _, c := range l.gpus {
		if !found[c] {
			l.markLost(c, fmt.Errorf("%w: NVML does not describe it", ErrLost))
		}
	}
	return unregistered
}

func (l *Library) gpuStateOf(d gpu.Device) *gpuState {
	for _, c := range l.gpus {
		if c.uuid == d.UUID {
			return c
		}
	}
	c := &gpuState{uuid: d.UUID, pci: d.PCI, token: make(chan struct{}, 1), seenOnBus: l.bus.readPresence(d.PCI) == presencePresent}
	l.gpus = append(l.gpus, c)
	return c
}
