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

// maxRetry bounds the pause before a lost GPU is asked again.
const maxRetry = 5 * time.Minute

// whyLost tells why a card is known to be lost; nil while it is not. It asks
// the PCI bus, which answers where the driver hangs, and not NVML.
func (l *Library) whyLost(c *card) error {
	gone := c.onBus && l.bus.presence(c.pci) == absent
	l.mu.Lock()
	defer l.mu.Unlock()
	if gone {
		l.lose(c, offBus(c))
	}
	return c.lost
}

func offBus(c *card) error {
	return fmt.Errorf("%w: it is off the PCI bus at %s", ErrLost, c.pci)
}

// lose remembers that a card is lost, and reports whether that is news. The
// caller holds l.mu.
func (l *Library) lose(c *card, why error) bool {
	if c.lost != nil {
		return false
	}
	c.lost, c.pause = why, l.c.Retry
	c.retry = time.Now().Add(c.pause)
	return true
}

// mayBeBack reports whether it is worth asking a lost card: it is time to, and
// the bus does not say that it is gone. Where no card is well, so that none can
// be held up, it starts NVML anew: NVML may keep to what it saw of a card.
func (l *Library) mayBeBack(c *card) bool {
	l.mu.Lock()
	due := !time.Now().Before(c.retry)
	if due {
		c.pause = min(2*c.pause, maxRetry)
		c.retry = time.Now().Add(c.pause)
	}
	anew := l.noneIsWell()
	l.mu.Unlock()
	if !due || c.onBus && l.bus.presence(c.pci) == absent {
		return false
	}
	if anew {
		if err := l.restart(); err != nil {
			l.c.Log.WithField("gpu", c.uuid).WithError(err).Warn("lost GPU not found")
			return false
		}
	}
	return true
}

// noneIsWell is called with l.mu held.
func (l *Library) noneIsWell() bool {
	return !slices.ContainsFunc(l.cards, func(c *card) bool { return c.lost == nil })
}

// restart starts NVML anew, if still no card is well once all calls have left
// it: a card that hangs meanwhile keeps all others out.
func (l *Library) restart() error {
	unlock, err := one.alone(l.c.Patience / 2)
	if err != nil {
		return err
	}
	defer unlock()
	l.mu.Lock()
	closed, needed := l.closed, l.noneIsWell()
	if needed && !closed {
		l.dropHandles()
	}
	l.mu.Unlock()
	if closed || !needed {
		return nil
	}
	l.freeSet()
	_ = l.s.stop() // it fails where the driver went away
	if ret := l.s.Init(); ret != nvml.SUCCESS {
		return fmt.Errorf("start %s: %w", l.c.Library, fault(ret))
	}
	_, wholes, err := l.s.host()
	l.createSet()
	l.adopt(wholes)
	return err
}

// dropHandles forgets the session's handles. It is called with l.mu held.
func (l *Library) dropHandles() {
	for uuid, t := range l.targets {
		t.handle = nil
		l.targets[uuid] = t
	}
}

// adopt takes over what the session found: slices come and go. A card that was
// not found is lost.
func (l *Library) adopt(wholes []whole) {
	for _, c := range l.take(wholes) {
		l.register(c)
	}
}

// take is adopt but for the events: it lists the cards to ask for them.
func (l *Library) take(wholes []whole) (unregistered []*card) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[*card]bool{}
	for _, w := range wholes {
		c := l.card(w.device)
		c.handle, c.lost = w.handle, nil
		found[c] = true
		maps.DeleteFunc(l.targets, func(_ string, t target) bool { return t.card == c })
		l.targets[c.uuid] = target{c, w.handle, nil}
		for _, slice := range w.slices {
			l.targets[slice.device.UUID] = target{c, slice.handle, slice.device.MIG}
		}
		if l.set != nil && !c.registered {
			c.registered = true
			unregistered = append(unregistered, c)
		}
	}
	for _, c := range l.cards {
		if !found[c] {
			l.lose(c, fmt.Errorf("%w: NVML does not describe it", ErrLost))
		}
	}
	return unregistered
}

func (l *Library) card(d gpu.Device) *card {
	for _, c := range l.cards {
		if c.uuid == d.UUID {
			return c
		}
	}
	c := &card{uuid: d.UUID, pci: d.PCI, busy: make(chan struct{}, 1), onBus: l.bus.presence(d.PCI) == present}
	l.cards = append(l.cards, c)
	return c
}
