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

	"mesos-gpu/internal/testing/nvmltest"
)

func TestDescribeHost(t *testing.T) {
	_, l := openStandIn(t, hostWithMIG(), LibraryConfig{})
	got, err := l.DescribeHost()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hostWithMIG(), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCallsAfterClose(t *testing.T) {
	_, l := openStandIn(t, v100s(1), LibraryConfig{})
	for range 2 {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.SampleDevice(uuid(0)); !errors.Is(err, errClosed) {
		t.Errorf("Sample: %v", err)
	}
	if _, err := l.DescribeHost(); !errors.Is(err, errClosed) {
		t.Errorf("Host: %v", err)
	}
	if _, err := l.WaitEvent(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("Wait: %v", err)
	}
}

// Calls for a lost GPU return immediately and do not affect other GPUs. When the GPU is
// back, it is found again, with its events, while a caller waits for events.
func TestLostGPUIsFoundAgain(t *testing.T) {
	m, l := openStandIn(t, v100s(3), LibraryConfig{retryPause: time.Millisecond})
	events := waitForEvents(t, l)
	m.LoseGPU(uuid(1))
	for range 3 {
		_, err := l.SampleDevice(uuid(1))
		if !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "GPU is lost") {
			t.Fatalf("got %v", err)
		}
		for _, other := range []string{uuid(0), uuid(2)} {
			if _, err := l.SampleDevice(other); err != nil {
				t.Errorf("GPU %s, which is not lost: %v", other, err)
			}
		}
	}
	h, err := l.DescribeHost()
	if err != nil || len(h.Devices) != 2 {
		t.Errorf("the host has %v, %v, want 2 GPUs", h.Devices, err)
	}
	m.ReturnGPU(uuid(1))
	eventually(t, "the GPU is back", func() bool { _, err := l.SampleDevice(uuid(1)); return err == nil })
	m.ReportXID(uuid(1), 13)
	if e := <-events; e.Device != uuid(1) || e.XID != 13 {
		t.Errorf("got %+v", e)
	}
	if h, err := l.DescribeHost(); err != nil || len(h.Devices) != 3 {
		t.Errorf("the host has %v, %v, want 3 GPUs", h.Devices, err)
	}
}

// A lookup of a lost GPU that hangs in the driver, or a driver that fails to restart,
// does not delay calls for other GPUs.
func TestLostGPUDoesNotBlockOthers(t *testing.T) {
	for _, function := range []string{"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetMemoryInfo"} {
		t.Run(function, func(t *testing.T) {
			m, l := openStandIn(t, v100s(3), LibraryConfig{sampleTimeout: time.Second, retryPause: time.Millisecond})
			m.SetFailures(nvmltest.FunctionFailure{Function: "nvmlInit_v2", Index: -1, Return: 999})
			m.LoseGPU(uuid(1))
			if _, err := l.SampleDevice(uuid(1)); !errors.Is(err, ErrLost) {
				t.Fatalf("got %v", err)
			}
			m.ReturnGPU(uuid(1))
			m.HangFunction(uuid(1), function)
			card := l.targets[uuid(1)].gpu
			for range 3 {
				l.mu.Lock()
				card.retryAt = time.Time{} // the retry is due
				l.mu.Unlock()
				_, err := l.SampleDevice(uuid(1))
				if function == "nvmlDeviceGetMemoryInfo" && !errors.Is(err, ErrLost) {
					t.Errorf("the lost GPU: %v", err)
				}
				for _, other := range []string{uuid(0), uuid(2)} {
					if _, err := l.SampleDevice(other); err != nil {
						t.Errorf("a GPU that is well: %v", err)
					}
				}
			}
			m.ResumeCalls()
			eventually(t, "the GPU is back", func() bool { _, err := l.SampleDevice(uuid(1)); return err == nil })
		})
	}
}

// If NVML keeps reporting a GPU as lost, NVML is restarted once no other GPU works, and
// finds it again. Callers still get an answer in time.
func TestNVMLRestartsWhenAllGPUsAreLost(t *testing.T) {
	m, l := openStandIn(t, v100s(2), LibraryConfig{sampleTimeout: time.Second, retryPause: time.Millisecond})
	m.LoseUntilRestart(uuid(0))
	if _, err := l.SampleDevice(uuid(0)); !errors.Is(err, ErrLost) {
		t.Fatalf("got %v", err)
	}
	m.ReturnGPU(uuid(0))
	card := l.targets[uuid(0)].gpu
	for range 3 {
		l.mu.Lock()
		card.retryAt = time.Time{} // the retry is due
		l.mu.Unlock()
		if _, err := l.SampleDevice(uuid(0)); !errors.Is(err, ErrLost) {
			t.Errorf("while the other is well: %v", err)
		}
	}
	m.LoseGPU(uuid(1))
	if _, err := l.SampleDevice(uuid(1)); !errors.Is(err, ErrLost) {
		t.Fatalf("got %v", err)
	}
	m.HangFunction(uuid(0), "nvmlDeviceGetHandleByIndex_v2") // called only during the restart
	for range 3 {
		for i := range 2 {
			begun := time.Now()
			if _, err := l.SampleDevice(uuid(i)); !errors.Is(err, ErrLost) {
				t.Errorf("GPU %d: %v", i, err)
			}
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("GPU %d: an answer after %s", i, took)
			}
		}
	}
	m.ReturnGPU(uuid(1))
	m.ResumeCalls()
	for i := range 2 {
		eventually(t, "GPUs are back", func() bool { _, err := l.SampleDevice(uuid(i)); return err == nil })
	}
}

// The wait for a driver that hangs at start is bounded, and its late result is discarded.
func TestStartTimeout(t *testing.T) {
	m := nvmltest.ReportHost(t, v100s(2))
	c := LibraryConfig{Library: buildStandIn(t), SysRoot: m.SysRoot, startTimeout: 50 * time.Millisecond}
	for what, start := range map[string]func() error{
		"open NVML":     func() error { _, err := Open(c); return err },
		"discover GPUs": func() error { _, err := DiscoverHost(c); return err },
	} {
		m.HangFunction(uuid(1), "nvmlDeviceGetName")
		err := start()
		if want := what + ": GPU does not answer within 50ms: dmesg names"; !errors.Is(err, ErrNoAnswer) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		m.ResumeCalls()
		leave, err := nvmlGate.enterAlone(time.Minute) // once the late call has ended
		if err != nil {
			t.Fatal(err)
		}
		leave()
	}
	finish, away := make(chan struct{}), make(chan int)
	_, err := startWithTimeout(c, "x", func(LibraryConfig) (int, error) { <-finish; return 7, nil }, func(n int) { away <- n })
	if !errors.Is(err, ErrNoAnswer) {
		t.Errorf("got %v", err)
	}
	close(finish)
	if n := <-away; n != 7 {
		t.Errorf("put away %d", n)
	}
}

// The retry interval of a lost GPU grows.
func TestLostGPURetryBacksOff(t *testing.T) {
	m, l := openStandIn(t, v100s(2), LibraryConfig{retryPause: time.Minute})
	m.LoseGPU(uuid(0))
	if _, err := l.SampleDevice(uuid(0)); !errors.Is(err, ErrLost) {
		t.Fatalf("got %v", err)
	}
	c := l.targets[uuid(0)].gpu
	for _, want := range []time.Duration{2 * time.Minute, 4 * time.Minute, maxRetryPause, maxRetryPause} {
		c.retryAt = time.Now()
		if _, err := l.SampleDevice(uuid(0)); !errors.Is(err, ErrLost) {
			t.Fatalf("got %v", err)
		}
		if next := time.Until(c.retryAt); next > want || next < want-30*time.Second {
			t.Errorf("looked for again in %s, want %s", next, want)
		}
	}
	m.ReturnGPU(uuid(0))
	if _, err := l.SampleDevice(uuid(0)); !errors.Is(err, ErrLost) {
		t.Errorf("before it is time: %v", err)
	}
	c.retryAt = time.Now()
	if _, err := l.SampleDevice(uuid(0)); err != nil {
		t.Errorf("when it is time: %v", err)
	}
}

// The PCI bus shows that a GPU is gone while the driver still waits for it.
func TestBusShowsLossOfHungGPU(t *testing.T) {
	m, l := openStandIn(t, v100s(2), LibraryConfig{sampleTimeout: time.Second, retryPause: time.Millisecond})
	m.HangFunction(uuid(0), "nvmlDeviceGetPowerUsage")
	for range 2 { // the second time the first call still hangs
		_, err := l.SampleDevice(uuid(0))
		if !errors.Is(err, ErrNoAnswer) || errors.Is(err, ErrLost) || !strings.HasSuffix(err.Error(), "GPU does not answer within 1s") {
			t.Fatalf("got %v", err)
		}
		if _, err := l.SampleDevice(uuid(1)); err != nil {
			t.Errorf("the other GPU: %v", err)
		}
	}
	m.UnplugGPU(uuid(0))
	if _, err := l.SampleDevice(uuid(0)); !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "off the PCI bus at 0000:10:00.0") {
		t.Errorf("off the bus: %v", err)
	}
	m.ResumeCalls()
	if _, err := l.SampleDevice(uuid(0)); !errors.Is(err, ErrLost) {
		t.Errorf("off the bus still: %v", err)
	}
	m.PlugGPU(uuid(0))
	eventually(t, "the GPU is back", func() bool { _, err := l.SampleDevice(uuid(0)); return err == nil })
}

// The driver is unloaded and loaded again, as during an update.
func TestDriverUnloaded(t *testing.T) {
	m, l := openStandIn(t, v100s(2), LibraryConfig{retryPause: time.Millisecond})
	m.SetFailures(nvmltest.FunctionFailure{Function: "nvmlDeviceGetMemoryInfo", Index: -1, Return: 1}, nvmltest.FunctionFailure{Function: "nvmlInit_v2", Index: -1, Return: 9})
	for range 3 {
		for i := range 2 {
			if _, err := l.SampleDevice(uuid(i)); !errors.Is(err, ErrNoDriver) {
				t.Errorf("GPU %d: %v", i, err)
			}
		}
	}
	m.SetFailures()
	for i := range 2 {
		eventually(t, "the driver is back", func() bool { _, err := l.SampleDevice(uuid(i)); return err == nil })
	}
}

// MIG devices appear and disappear while the library is open.
func TestMIGDevicesChange(t *testing.T) {
	h := hostWithMIG()
	m, l := openStandIn(t, h, LibraryConfig{})
	gone := h.Devices[2].UUID
	h.Devices = append(h.Devices[:2:2], h.Devices[3])
	h.Devices[0].UUID = "MIG-new"
	m.ReplaceHost(h)
	got, err := l.DescribeHost()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(h, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := l.SampleDevice("MIG-new"); err != nil {
		t.Error(err)
	}
	if _, err := l.SampleDevice(gone); err == nil || !strings.Contains(err.Error(), "it is not among the 4 devices") {
		t.Errorf("the slice that went: %v", err)
	}
}

// Runs all calls concurrently for the race detector, while other libraries are opened:
// go-nvml keeps global state.
func TestConcurrentCalls(t *testing.T) {
	m, l := openStandIn(t, behindSwitches(4), LibraryConfig{retryPause: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for ctx.Err() == nil {
				if _, err := l.SampleDevice(uuid(i)); err != nil && !errors.Is(err, ErrLost) {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		for range 5 {
			if _, err := DiscoverHost(LibraryConfig{Library: buildStandIn(t), SysRoot: m.SysRoot}); err != nil {
				t.Error(err)
			}
			if _, err := l.DescribeHost(); err != nil {
				t.Error(err)
			}
			m.LoseGPU(uuid(3))
			m.ReportXID(uuid(2), 31)
			m.ReturnGPU(uuid(3))
		}
		cancel()
	})
	all.Go(func() {
		for {
			if _, err := l.WaitEvent(ctx); err != nil {
				return
			}
		}
	})
	all.Wait()
	if _, err := l.SampleDevice(uuid(0)); err != nil {
		t.Error(err)
	}
}

// waitForEvents returns a channel with the events that Wait returns until the test ends.
func waitForEvents(t *testing.T, l *Library) <-chan DeviceEvent {
	t.Helper()
	events := make(chan DeviceEvent, 16)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			e, err := l.WaitEvent(ctx)
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
