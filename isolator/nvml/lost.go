//go:build linux && cgo

package nvml

import (
	"fmt"
	"maps"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"mesos-gpu/gpu"
)

// maxRetry bounds the pause between two looks for a lost GPU. Each look
// starts NVML anew, and holds up the other GPUs' samples for as long.
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

// find looks for a lost card if it is time to, and reports whether it is back.
func (l *Library) find(c *card) bool {
	l.mu.Lock()
	due := !l.closed && !time.Now().Before(c.retry)
	l.mu.Unlock()
	if !due || c.onBus && l.bus.presence(c.pci) == absent {
		return false
	}
	if err := l.restart(); err != nil {
		l.c.Log.WithField("gpu", c.uuid).WithError(err).Warn("lost GPU not found")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.lost == nil {
		return true
	}
	c.pause = min(2*c.pause, maxRetry)
	c.retry = time.Now().Add(c.pause)
	return false
}

// restart starts NVML anew: it keeps to what it saw of a GPU when it was
// started, and keeps a lost GPU from being reset.
func (l *Library) restart() error {
	unlock, err := one.alone(l.c.Patience / 2)
	if err != nil {
		return err
	}
	defer unlock()
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	if closed {
		return errClosed
	}
	l.freeSet()
	_ = l.s.stop() // it fails where the driver went away
	if ret := l.s.Init(); ret != nvml.SUCCESS {
		err = fmt.Errorf("start %s: %w", l.c.Library, fault(ret))
		l.mu.Lock()
		for _, c := range l.cards {
			l.lose(c, err)
		}
		l.mu.Unlock()
		return err
	}
	_, wholes, err := l.s.host()
	l.createSet()
	l.adopt(wholes)
	return err
}

// adopt takes over what the session found: handles are the session's, and
// slices come and go. A card that was not found is lost.
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
