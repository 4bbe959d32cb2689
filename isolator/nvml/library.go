//go:build linux && cgo

package nvml

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"mesos-gpu/gpu"
)

// Library is NVML, held open. Its methods may be called at the same time; a
// GPU whose driver hangs holds up calls about itself alone.
//
// Lock ordering: one, then Library.mu.
type Library struct {
	c    Config
	bus  bus
	s    *session
	host chan struct{} // held by who describes the host

	mu      sync.Mutex
	cards   []*card
	targets map[string]target // by UUID, of GPUs and slices
	set     nvml.EventSet     // nil where events are not supported
	events  []Event           // not yet waited for
	looked  time.Time         // when the PCI bus was
	closed  bool
}

// card is one GPU of the machine, whether or not it answers. Its fields are
// guarded by Library.mu, but for what never changes.
type card struct {
	uuid, pci string
	busy      chan struct{} // held by who samples it or a slice of it
	onBus     bool          // sysfs once told that it is there

	handle     nvml.Device
	registered bool  // for events
	lost       error // what it said, if that was final and it is not back
	retry      time.Time
	pause      time.Duration
}

// target is what a UUID names: a card or a slice of it.
type target struct {
	card   *card
	handle nvml.Device // nil where NVML was started anew without it
	mig    *gpu.MIG
}

var errClosed = errors.New("NVML is closed")

// Open loads the library and keeps it until Close. Returns ErrNoDriver where
// there is no driver, and ErrNoAnswer where that hangs for longer than
// Config.Starting.
func Open(c Config) (*Library, error) {
	c = c.withDefaults()
	return starting(c, "open NVML", open, func(l *Library) { _ = l.Close() })
}

func open(c Config) (*Library, error) {
	unlock, err := one.alone(startPatience)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s, err := start(c)
	if err != nil {
		return nil, err
	}
	l := &Library{c: c, bus: bus{c.SysRoot}, s: s, host: make(chan struct{}, 1), targets: map[string]target{}}
	_, wholes, err := s.host()
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	l.createSet()
	l.adopt(wholes)
	return l, nil
}

// Close gives the library back. A call that hangs in the driver keeps it
// open: the error then says so.
func (l *Library) Close() error {
	unlock, err := one.alone(startPatience)
	if err != nil {
		return fmt.Errorf("close NVML: %w", err)
	}
	defer unlock()
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return nil
	}
	l.freeSet()
	return l.s.stop()
}

// Host describes the machine as it is now, with slices that came and without
// GPUs that are lost. From then on Sample knows those devices too.
func (l *Library) Host() (gpu.Host, error) {
	return bounded(l.host, startPatience, "describe the host", func() (gpu.Host, error) {
		one.enter()
		defer one.leave()
		l.mu.Lock()
		closed := l.closed
		l.mu.Unlock()
		if closed {
			return gpu.Host{}, fmt.Errorf("describe the host: %w", errClosed)
		}
		h, wholes, err := l.s.host()
		if err == nil {
			l.adopt(wholes)
		}
		return h, err
	})
}

// Sample measures a device of the host: a GPU or a MIG device. Within
// Config.Patience it returns an error that is ErrLost where the GPU is lost,
// ErrNoAnswer where its driver is busy that long. A lost GPU is asked again now
// and then; NVML is started anew for it only where no other answers.
func (l *Library) Sample(uuid string) (gpu.Sample, error) {
	l.mu.Lock()
	t, ok := l.targets[uuid]
	count := len(l.targets)
	l.mu.Unlock()
	if !ok {
		return gpu.Sample{}, fmt.Errorf("sample GPU %s: it is not among the %d devices of this host", uuid, count)
	}
	what := "sample GPU " + uuid
	sample, err := bounded(t.card.busy, l.c.Patience, what, func() (gpu.Sample, error) { return l.sample(uuid, t.card) })
	if errors.Is(err, ErrNoAnswer) {
		if lost := l.whyLost(t.card); lost != nil {
			return gpu.Sample{}, fmt.Errorf("%s: %w", what, lost)
		}
	}
	return sample, err
}

// bounded runs a call that may hang in the driver, and that no context could
// end. While one does, its token stays taken and no second one is begun.
func bounded[T any](token chan struct{}, patience time.Duration, what string, call func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	timer := time.NewTimer(patience)
	defer timer.Stop()
	late := func() (T, error) { return none, fmt.Errorf("%s: %w within %s", what, ErrNoAnswer, patience) }
	select {
	case token <- struct{}{}:
	case <-timer.C:
		return late()
	}
	done := make(chan result, 1)
	go func() {
		value, err := call()
		<-token
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-timer.C:
		return late()
	}
}

// sample is Sample by who holds card.busy.
func (l *Library) sample(uuid string, c *card) (gpu.Sample, error) {
	what := "sample GPU " + uuid
	if err := l.whyLost(c); err != nil && !l.mayBeBack(c) {
		return gpu.Sample{}, fmt.Errorf("%s: %w", what, err)
	}
	one.enter()
	defer one.leave()
	l.mu.Lock()
	t, ok := l.targets[uuid]
	lost, closed := c.lost, l.closed
	l.mu.Unlock()
	switch {
	case closed:
		return gpu.Sample{}, fmt.Errorf("%s: %w", what, errClosed)
	case !ok:
		return gpu.Sample{}, fmt.Errorf("%s: the MIG device is no more", what)
	case t.handle == nil: // NVML was started anew without it
		return gpu.Sample{}, fmt.Errorf("%s: %w", what, lost)
	}
	s, err := l.s.read(t.handle, t.mig != nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && lost != nil:
		c.lost = nil
	case final(err):
		l.lose(c, err)
	}
	if err != nil {
		return gpu.Sample{}, fmt.Errorf("%s: %w", what, err)
	}
	return s, nil
}
