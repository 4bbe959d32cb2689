//go:build linux && cgo

package nvml

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/isolator/nvml/nvmltest"
)

func TestHost(t *testing.T) {
	_, l := opened(t, sliced(), Config{})
	got, err := l.Host()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sliced(), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestClosed(t *testing.T) {
	_, l := opened(t, v100s(1), Config{})
	for range 2 {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Sample(uuid(0)); !errors.Is(err, errClosed) {
		t.Errorf("Sample: %v", err)
	}
	if _, err := l.Host(); !errors.Is(err, errClosed) {
		t.Errorf("Host: %v", err)
	}
	if _, err := l.Wait(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("Wait: %v", err)
	}
}

// What a lost GPU says, it says at once; the others do not suffer; and it is
// found again, with its events, while somebody waits for those.
func TestLost(t *testing.T) {
	m, l := opened(t, v100s(3), Config{Retry: time.Millisecond})
	events := waiting(t, l)
	m.Lose(uuid(1))
	for range 3 {
		_, err := l.Sample(uuid(1))
		if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "GPU is lost") {
			t.Fatalf("got %v", err)
		}
		for _, other := range []string{uuid(0), uuid(2)} {
			if _, err := l.Sample(other); err != nil {
				t.Errorf("GPU %s, which is not lost: %v", other, err)
			}
		}
	}
	h, err := l.Host()
	if err != nil || len(h.Devices) != 2 {
		t.Errorf("the host has %v, %v, want 2 GPUs", h.Devices, err)
	}
	m.Return(uuid(1))
	eventually(t, "the GPU is back", func() bool { _, err := l.Sample(uuid(1)); return err == nil })
	m.XID(uuid(1), 13)
	if e := <-events; e.Device != uuid(1) || e.XID != 13 {
		t.Errorf("got %+v", e)
	}
	if h, err := l.Host(); err != nil || len(h.Devices) != 3 {
		t.Errorf("the host has %v, %v, want 3 GPUs", h.Devices, err)
	}
}

// A GPU that is lost is looked for ever more rarely: starting NVML anew costs
// the others.
func TestLostIsLookedForRarely(t *testing.T) {
	m, l := opened(t, v100s(2), Config{Retry: time.Minute})
	m.Lose(uuid(0))
	if _, err := l.Sample(uuid(0)); !errors.Is(err, ErrLost) {
		t.Fatalf("got %v", err)
	}
	c := l.targets[uuid(0)].card
	for _, want := range []time.Duration{2 * time.Minute, 4 * time.Minute, maxRetry, maxRetry} {
		c.retry = time.Now()
		if _, err := l.Sample(uuid(0)); !errors.Is(err, ErrLost) {
			t.Fatalf("got %v", err)
		}
		if next := time.Until(c.retry); next > want || next < want-time.Second {
			t.Errorf("looked for again in %s, want %s", next, want)
		}
	}
	m.Return(uuid(0))
	if _, err := l.Sample(uuid(0)); !errors.Is(err, ErrLost) {
		t.Errorf("before it is time: %v", err)
	}
	c.retry = time.Now()
	if _, err := l.Sample(uuid(0)); err != nil {
		t.Errorf("when it is time: %v", err)
	}
}

// The bus tells of a GPU that the driver still waits for.
func TestHang(t *testing.T) {
	m, l := opened(t, v100s(2), Config{Patience: 100 * time.Millisecond, Retry: time.Millisecond})
	m.Hang(uuid(0), "nvmlDeviceGetPowerUsage")
	for range 2 { // the second time the first call still hangs
		_, err := l.Sample(uuid(0))
		if !errors.Is(err, ErrNoAnswer) || errors.Is(err, ErrLost) || !strings.HasSuffix(err.Error(), "GPU does not answer within 100ms") {
			t.Fatalf("got %v", err)
		}
		if _, err := l.Sample(uuid(1)); err != nil {
			t.Errorf("the other GPU: %v", err)
		}
	}
	m.Unplug(uuid(0))
	if _, err := l.Sample(uuid(0)); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "off the PCI bus at 0000:10:00.0") {
		t.Errorf("off the bus: %v", err)
	}
	m.Resume()
	if _, err := l.Sample(uuid(0)); !errors.Is(err, ErrLost) {
		t.Errorf("off the bus still: %v", err)
	}
	m.Plug(uuid(0))
	eventually(t, "the GPU is back", func() bool { _, err := l.Sample(uuid(0)); return err == nil })
}

// The driver goes away and comes back, as when it is updated.
func TestDriverGone(t *testing.T) {
	m, l := opened(t, v100s(2), Config{Retry: time.Millisecond})
	m.Fail(nvmltest.Fail{Function: "nvmlDeviceGetMemoryInfo", Index: -1, Return: 1}, nvmltest.Fail{Function: "nvmlInit_v2", Index: -1, Return: 9})
	for range 3 {
		for i := range 2 {
			if _, err := l.Sample(uuid(i)); !errors.Is(err, ErrNoDriver) {
				t.Errorf("GPU %d: %v", i, err)
			}
		}
	}
	m.Fail()
	for i := range 2 {
		eventually(t, "the driver is back", func() bool { _, err := l.Sample(uuid(i)); return err == nil })
	}
}

// Slices come and go while the library is open.
func TestSlicesChange(t *testing.T) {
	h := sliced()
	m, l := opened(t, h, Config{})
	gone := h.Devices[2].UUID
	h.Devices = append(h.Devices[:2:2], h.Devices[3])
	h.Devices[0].UUID = "MIG-new"
	m.Become(h)
	got, err := l.Host()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(h, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := l.Sample("MIG-new"); err != nil {
		t.Error(err)
	}
	if _, err := l.Sample(gone); err == nil || !strings.Contains(err.Error(), "it is not among the 4 devices") {
		t.Errorf("the slice that went: %v", err)
	}
}

// Everything at once, for the race detector, with other libraries opened
// meanwhile: go-nvml keeps global state.
func TestConcurrently(t *testing.T) {
	m, l := opened(t, behindSwitches(4), Config{Retry: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				if _, err := l.Sample(uuid(i)); err != nil && !errors.Is(err, ErrLost) {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		for range 5 {
			if _, err := Discover(Config{Library: standIn(t), SysRoot: m.SysRoot}); err != nil {
				t.Error(err)
			}
			if _, err := l.Host(); err != nil {
				t.Error(err)
			}
			m.Lose(uuid(3))
			m.XID(uuid(2), 31)
			m.Return(uuid(3))
		}
		cancel()
	})
	all.Go(func() {
		for {
			if _, err := l.Wait(ctx); err != nil {
				return
			}
		}
	})
	all.Wait()
	if _, err := l.Sample(uuid(0)); err != nil {
		t.Error(err)
	}
}

// waiting gives what Wait returns until the test ends.
func waiting(t *testing.T, l *Library) <-chan Event {
	t.Helper()
	events := make(chan Event, 16)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			e, err := l.Wait(ctx)
			if err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				return
			}
			events <- e
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	return events
}
