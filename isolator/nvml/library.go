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

// Library is an open NVML. Its methods may be called concurrently. A GPU whose driver hangs
// blocks only calls for that GPU.
//
// Lock order: nvmlGate, then Library.mu.
type Library struct {
	c         LibraryConfig
	bus       pciBus
	session   *nvmlSession
	hostToken chan struct{} // held by who describes the host

	mu           sync.Mutex
	gpus         []*gpuState
	targets      map[string]deviceHandle // by UUID, of GPUs and slices
	eventSet     nvml.EventSet           // nil where events are not supported
	events       []DeviceEvent           // not yet waited for
	busCheckedAt time.Time               // when the PCI bus was
	closed       bool
}

// gpuState is the state of one GPU of the host, whether or not it responds. Its fields are
// guarded by Library.mu, except those that never change.
type gpuState struct {
	uuid, pci string
	// token is held during each call about the GPU or one of its MIG devices.
	token chan struct{}
	// seenOnBus is set if sysfs listed the GPU when it was discovered. Only then does a missing
	// entry mean that the GPU has left the bus. It never changes.
	seenOnBus bool

	// handle is NVML's, which a restart of NVML replaces.
	handle nvml.Device
	// registered is set once NVML reports the GPU's events.
	registered bool
	// lostErr is the driver's error that the GPU is lost; nil while it responds.
	lostErr error
	// retryAt is when a lost GPU is tried again, and retryPause the pause before that, which
	// doubles with each attempt.
	retryAt    time.Time
	retryPause time.Duration
}

// deviceHandle is the GPU or MIG device that a UUID names.
type deviceHandle struct {
	gpu    *gpuState
	handle nvml.Device // nil if NVML does not list it
	mig    *gpu.MIG
}

var errClosed = errors.New("NVML is closed")

// Open loads the library and keeps it open until Close. It returns ErrNoDriver if there is no
// driver, and ErrNoAnswer if the driver hangs for longer than LibraryConfig.startTimeout.
func Open(c LibraryConfig) (*Library, error) {
	c = c.withDefaults()
	return startWithTimeout(c, "open NVML", openLibrary, func(l *Library) { _ = l.Close() })
}

func openLibrary(c LibraryConfig) (*Library, error) {
	unlock, err := nvmlGate.enterAlone(loadTimeout)
	if err != nil {
		return nil, err
	}
	defer unlock()
	s, err := startSession(c)
	if err != nil {
		return nil, err
	}
	l := &Library{c: c, bus: pciBus{c.SysRoot}, session: s, hostToken: make(chan struct{}, 1), targets: map[string]deviceHandle{}}
	h, wholes, err := s.describeHost()
	if err != nil {
		return nil, errors.Join(err, s.stop())
	}
	l.createEventSet()
	l.adoptGPUs(wholes, h.Lost)
	return l, nil
}

// Close closes the library. It returns an error, and leaves the library open, if a call hangs
// in the driver.
func (l *Library) Close() error {
	unlock, err := nvmlGate.enterAlone(loadTimeout)
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
	l.freeEventSet()
	return l.session.stop()
}

// DescribeHost describes the host as it is now, with new MIG devices; lost GPUs are in Host.Lost.
// SampleDevice knows those devices afterwards. Of a lost one that was described before it returns
// ErrLost until DescribeHost finds it.
func (l *Library) DescribeHost() (gpu.Host, error) {
	return callWithTimeout(l.hostToken, loadTimeout, "describe the host", func() (gpu.Host, error) {
		nvmlGate.enter()
		defer nvmlGate.leave()
		l.mu.Lock()
		closed := l.closed
		l.mu.Unlock()
		if closed {
			return gpu.Host{}, fmt.Errorf("describe the host: %w", errClosed)
		}
		h, wholes, err := l.session.describeHost()
		if err == nil {
			l.adoptGPUs(wholes, h.Lost)
		}
		return h, err
	})
}

// SampleDevice samples a device of the host: a GPU or a MIG device. It returns within
// LibraryConfig.sampleTimeout. The error is ErrLost if the GPU is lost, and ErrNoAnswer if its
// driver is busy for that long. A lost GPU is tried again from time to time; NVML is restarted
// for it only if all GPUs are lost.
func (l *Library) SampleDevice(uuid string) (gpu.Sample, error) {
	l.mu.Lock()
	t, ok := l.targets[uuid]
	count := len(l.targets)
	l.mu.Unlock()
	if !ok {
		return gpu.Sample{}, fmt.Errorf("sample GPU %s: it is not among the %d devices of this host", uuid, count)
	}
	what := "sample GPU " + uuid
	sample, err := callWithTimeout(t.gpu.token, l.c.sampleTimeout, what, func() (gpu.Sample, error) { return l.sampleWithToken(uuid, t.gpu) })
	if errors.Is(err, ErrNoAnswer) {
		if lost := l.lostReason(t.gpu); lost != nil {
			return gpu.Sample{}, fmt.Errorf("%s: %w", what, lost)
		}
	}
	return sample, err
}

// callWithTimeout runs a call that may hang in the driver and that a context cannot end. While
// the call hangs it keeps its token, so that no second call is started.
func callWithTimeout[T any](token chan struct{}, patience time.Duration, what string, call func() (T, error)) (T, error) {
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

// sampleWithToken is SampleDevice for a caller that holds the GPU's token.
func (l *Library) sampleWithToken(uuid string, c *gpuState) (gpu.Sample, error) {
	what := "sample GPU " + uuid
	if err := l.lostReason(c); err != nil && !l.shouldRetry(c) {
		return gpu.Sample{}, fmt.Errorf("%s: %w", what, err)
	}
	nvmlGate.enter()
	defer nvmlGate.leave()
	l.mu.Lock()
	t, ok := l.targets[uuid]
	lost, closed := c.lostErr, l.closed
	l.mu.Unlock()
	switch {
	case closed:
		return gpu.Sample{}, fmt.Errorf("%s: %w", what, errClosed)
	case !ok:
		return gpu.Sample{}, fmt.Errorf("%s: the MIG device no longer exists", what)
	case t.handle == nil: // NVML does not list it
		return gpu.Sample{}, fmt.Errorf("%s: %w", what, lost)
	}
	s, err := l.session.readSample(t.handle, t.mig != nil)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil && lost != nil:
		c.lostErr = nil
	case isFinal(err):
		l.markLost(c, err)
	}
	if err != nil {
		return gpu.Sample{}, fmt.Errorf("%s: %w", what, err)
	}
	return s, nil
}
