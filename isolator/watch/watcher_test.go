package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/health"
)

// A fatal event withdraws the device immediately, without any delay.
func TestFatalEventWithdrawsDeviceAtOnce(t *testing.T) {
	watched(t, three(), func(t *testing.T, d *fakeDriver, w *Watcher) {
		hosts := w.WatchHosts(t.Context())
		if got := uuids(<-hosts); !slices.Equal(got, []string{"GPU-a", "GPU-b", "GPU-c"}) {
			t.Errorf("at first %v", got)
		}
		before := time.Now()
		d.events <- health.DeviceEvent{Device: "GPU-b", XID: 79}
		h := <-hosts
		if got := uuids(h); !slices.Equal(got, []string{"GPU-a", "GPU-c"}) || h.Driver != "535" {
			t.Errorf("then %v", h)
		}
		if took := time.Since(before); took != 0 {
			t.Errorf("it took %s", took)
		}
		w.mustOffer(t, "GPU-a", "GPU-c")
		time.Sleep(time.Hour)
		w.mustBe(t, "GPU-b", gpu.Failed)
	})
}

func TestLostDeviceIsWithdrawnWithNextSample(t *testing.T) {
	watched(t, three(), func(t *testing.T, d *fakeDriver, w *Watcher) {
		d.set(func() { d.errs["GPU-a"] = fmt.Errorf("sample: %w", health.ErrLost) })
		time.Sleep(5 * time.Second)
		w.mustOffer(t, "GPU-b", "GPU-c")
		d.set(func() { delete(d.errs, "GPU-a") })
		time.Sleep(5 * time.Second)
		w.mustBe(t, "GPU-a", gpu.Recovering)
		w.mustOffer(t, "GPU-b", "GPU-c")
		time.Sleep(2 * time.Minute)
		w.mustOffer(t, "GPU-a", "GPU-b", "GPU-c")
	})
}

// If the driver hangs on one device, that device becomes suspect, then failed. The others
// are sampled as usual, and no second call starts while the first hangs.
func TestHangingSampleBlocksNoOtherDevice(t *testing.T) {
	watched(t, three(), func(t *testing.T, d *fakeDriver, w *Watcher) {
		release := d.hang("GPU-a")
		time.Sleep(5*time.Second + 3*time.Second)
		w.mustBe(t, "GPU-a", gpu.Suspect)
		if c, _ := w.DeviceCondition("GPU-a"); !strings.Contains(c.Reason, "the driver does not answer within 3s") {
			t.Errorf("reason %q", c.Reason)
		}
		time.Sleep(15 * time.Second)
		w.mustBe(t, "GPU-a", gpu.Failed)
		time.Sleep(10 * time.Minute)
		w.mustOffer(t, "GPU-b", "GPU-c")
		d.set(func() {
			if d.counts["GPU-a"] != 2 || d.counts["GPU-b"] < 120 || d.most != 1 {
				t.Errorf("samples %v, %d of one device at a time", d.counts, d.most)
			}
		})
		release()
		time.Sleep(3 * time.Minute)
		w.mustBe(t, "GPU-a", gpu.Healthy)
		if n := w.DeviceStates()[0].SampleErrors; n < 100 {
			t.Errorf("%d sample errors", n)
		}
	})
}

// Run returns although a call hangs; the call ends with the test.
func TestRunEndsWhileDriverHangs(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDriver()
		release := d.hang("GPU-a")
		w := newWatcher(t, three(), d, dir, "")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Run(ctx)
		}()
		time.Sleep(4 * time.Second)
		cancel()
		before := time.Now()
		<-done
		if took := time.Since(before); took > 3*time.Second {
			t.Errorf("Run took %s to end", took)
		}
		release()
	})
}

func TestHistoryIsBounded(t *testing.T) {
	watched(t, three(), func(t *testing.T, d *fakeDriver, w *Watcher) {
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		samples, ok := w.SampleHistory("GPU-b")
		if !ok || len(samples) != 121 {
			t.Fatalf("%d samples, want 121: every 5 s of 10 min", len(samples))
		}
		for i, s := range samples {
			if s.Processes != nil {
				t.Fatal("processes are kept")
			}
			if i > 0 && s.At.Sub(samples[i-1].At) != 5*time.Second {
				t.Fatalf("%s after %s", s.At, samples[i-1].At)
			}
		}
		if got := samples[120].At; !got.Equal(time.Now()) {
			t.Errorf("the newest is of %s, now is %s", got, time.Now())
		}
		if last := w.DeviceStates()[1].Sample; len(last.Processes) != 1 {
			t.Errorf("last sample %+v", last)
		}
		// An old sample is not reported, even if no newer one exists.
		release := d.hang("GPU-b")
		time.Sleep(9 * time.Minute)
		if samples, _ := w.SampleHistory("GPU-b"); len(samples) != 13 {
			t.Errorf("%d samples of the last 10 min, want 13", len(samples))
		}
		release()
		if _, ok := w.SampleHistory("GPU-x"); ok {
			t.Error("history of a device that is not there")
		}
	})
}

func TestEventsOfUnknownAndSlicedDevices(t *testing.T) {
	h := gpu.Host{Devices: []gpu.Device{
		{UUID: "MIG-1", MIG: &gpu.MIG{Parent: "GPU-a"}}, {UUID: "MIG-2", MIG: &gpu.MIG{Parent: "GPU-a"}}, {UUID: "GPU-b"},
	}}
	watched(t, h, func(t *testing.T, d *fakeDriver, w *Watcher) {
		d.events <- health.DeviceEvent{Device: "GPU-z", XID: 79}
		w.mustOffer(t, "MIG-1", "MIG-2", "GPU-b")
		d.events <- health.DeviceEvent{XID: 13}
		w.mustOffer(t, "MIG-1", "MIG-2", "GPU-b")
		d.events <- health.DeviceEvent{Device: "GPU-a", XID: 48}
		w.mustOffer(t, "GPU-b")
		if err := w.UncordonDevice("GPU-a"); err != nil {
			t.Error(err)
		}
		w.mustBe(t, "MIG-2", gpu.Recovering)    // sampled immediately
		d.events <- health.DeviceEvent{XID: 79} // an event without a device
		w.mustOffer(t)
		if got := w.DeviceStates()[2].XIDs; got[13] != 1 || got[79] != 1 || len(got) != 2 {
			t.Errorf("XIDs %v", got)
		}
		if err := w.CordonDevice("GPU-a", "slices"); err != nil {
			t.Error(err)
		}
		if c, _ := w.DeviceCondition("MIG-1"); !c.Cordoned || c.Cordon != "slices" {
			t.Errorf("the GPU is cordoned, its slice %+v", c)
		}
	})
}

// A MIG device's health depends on its GPU's counters; its samples are its own.
func TestMIGDevicesShareTheirGPUsHealth(t *testing.T) {
	h := gpu.Host{Devices: []gpu.Device{
		{UUID: "MIG-1", MIG: &gpu.MIG{Parent: "GPU-p"}}, {UUID: "MIG-2", MIG: &gpu.MIG{Parent: "GPU-p"}}, {UUID: "GPU-b"},
	}}
	watched(t, h, func(t *testing.T, d *fakeDriver, w *Watcher) {
		measured := func(field gpu.SampleField, v float64) {
			d.set(func() { d.values["GPU-p"] = map[gpu.SampleField]float64{field: v} })
			time.Sleep(5 * time.Second)
		}
		measured(gpu.ECCUncorrected, 1)
		w.mustOffer(t, "MIG-1", "MIG-2", "GPU-b")
		measured(gpu.ECCUncorrected, 2)
		w.mustOffer(t, "GPU-b")
		if c, _ := w.DeviceCondition("MIG-2"); !strings.Contains(c.Reason, "2 uncorrected ECC errors") {
			t.Errorf("reason %q", c.Reason)
		}
		if own := w.DeviceStates()[0].Sample.Values; len(own) != 1 || own[gpu.Celsius] == 0 {
			t.Errorf("the slice shows %v", own)
		}
		time.Sleep(3 * time.Minute)
		w.mustOffer(t, "MIG-1", "MIG-2", "GPU-b")
		measured(gpu.EnergyJoules, 900)
		d.events <- health.DeviceEvent{Device: "MIG-1", XID: 48}
		w.mustOffer(t, "MIG-2", "GPU-b")
		measured(gpu.EnergyJoules, 9) // the GPU was reset
		w.mustBe(t, "MIG-1", gpu.Recovering)
		d.set(func() { d.errs["GPU-p"] = fmt.Errorf("sample: %w", health.ErrLost) })
		time.Sleep(5 * time.Second)
		w.mustOffer(t, "GPU-b")
	})
}

func TestXIDCountsAreBounded(t *testing.T) {
	watched(t, three(), func(t *testing.T, d *fakeDriver, w *Watcher) {
		for n := range uint64(1000) {
			d.events <- health.DeviceEvent{Device: "GPU-a", XID: n + 1}
		}
		synctest.Wait()
		got := w.DeviceStates()[0].XIDs
		if len(got) != maxXIDs+1 || got[0] != 1000-maxXIDs || got[1] != 1 {
			t.Errorf("%d numbers, %d others", len(got), got[0])
		}
	})
}

// Without events, samples still detect faults, and the driver is asked for events with
// growing pauses.
func TestSamplesDetectFaultsWithoutEvents(t *testing.T) {
	watched(t, three(), func(t *testing.T, d *fakeDriver, w *Watcher) {
		d.set(func() { d.noise = errBroken })
		d.events <- health.DeviceEvent{Device: "GPU-a", XID: 13}
		time.Sleep(5 * time.Minute)
		d.set(func() { d.noise = nil })
		time.Sleep(30 * time.Second)
		d.events <- health.DeviceEvent{Device: "GPU-a", XID: 79}
		w.mustBe(t, "GPU-a", gpu.Failed)
	})
}

func TestWatcherRunsWithoutDevices(t *testing.T) {
	watched(t, gpu.Host{}, func(t *testing.T, _ *fakeDriver, w *Watcher) {
		if got := w.DeviceStates(); len(got) != 0 {
			t.Errorf("devices %v", got)
		}
	})
}

func TestWatchAndSlowReaders(t *testing.T) {
	watched(t, three(), func(t *testing.T, d *fakeDriver, w *Watcher) {
		ctx, cancel := context.WithCancel(t.Context())
		begun := time.Now()
		slow, err := w.WatchConditions(ctx)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the first update has started
		one, err := w.WatchConditions(ctx, "GPU-b")
		if err != nil {
			t.Fatal(err)
		}
		if u := <-one; u.Device != "GPU-b" || u.Condition.Health != gpu.Healthy {
			t.Errorf("at once %+v", u)
		}
		// The slow reader reads nothing while a device fails and recovers.
		for range 3 {
			d.events <- health.DeviceEvent{Device: "GPU-b", XID: 94}
			if u := <-one; u.Condition.Health != gpu.Failed || !strings.Contains(u.Condition.Reason, "XID 94") {
				t.Errorf("failed: %+v", u)
			}
			if u := <-one; u.Condition.Health != gpu.Recovering {
				t.Errorf("recovering: %+v", u)
			}
			if u := <-one; u.Condition.Health != gpu.Healthy {
				t.Errorf("healthy: %+v", u)
			}
		}
		// The three initial states; the second is the newest of nine changes.
		var got []string
		for range 3 {
			u := <-slow
			got = append(got, u.Device+" "+string(u.Condition.Health))
			if u.Device == "GPU-b" && u.Condition.Since.Equal(begun) {
				t.Error("an old condition of GPU-b")
			}
		}
		if want := []string{"GPU-a healthy", "GPU-b healthy", "GPU-c healthy"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if _, err := w.WatchConditions(ctx, "GPU-x", "GPU-y"); !errors.Is(err, ErrUnknownDevice) {
			t.Errorf("unknown devices: %v", err)
		}
		mixed, err := w.WatchConditions(ctx, "GPU-x", "GPU-b")
		if err != nil {
			t.Fatal(err)
		}
		if u := <-mixed; u.Device != "GPU-x" || u.Condition.Health != gpu.Failed || u.Condition.Reason != "not on this host" {
			t.Errorf("a device that is away: %+v", u)
		}
		if u := <-mixed; u.Device != "GPU-b" || u.Condition.Health != gpu.Healthy {
			t.Errorf("next to it: %+v", u)
		}
		cancel()
		if u, open := <-slow; open {
			t.Errorf("after the end %+v", u)
		}
		synctest.Wait()
		if n := len(w.subscribers); n != 0 {
			t.Errorf("%d subscribers are left", n)
		}
	})
}

// After several changes a slow reader receives only the newest state.
func TestHostsKeepsTheNewest(t *testing.T) {
	watched(t, three(), func(t *testing.T, d *fakeDriver, w *Watcher) {
		ctx, cancel := context.WithCancel(t.Context())
		hosts := w.WatchHosts(ctx)
		for _, id := range []string{"GPU-a", "GPU-b"} {
			d.events <- health.DeviceEvent{Device: id, XID: 79}
		}
		synctest.Wait()
		if got := uuids(<-hosts); !slices.Equal(got, []string{"GPU-c"}) {
			t.Errorf("got %v", got)
		}
		cancel()
		if _, open := <-hosts; open {
			t.Error("still open")
		}
	})
}

// Each withheld device has a cause. For an unhealthy device it is the first fault, so
// that further faults are not reported as changes. An operator's reason is.
func TestHostsListWithheldDevices(t *testing.T) {
	watched(t, three(), func(t *testing.T, d *fakeDriver, w *Watcher) {
		hosts := w.WatchHosts(t.Context())
		<-hosts
		want := func(why string, want ...gpu.WithheldDevice) {
			t.Helper()
			synctest.Wait()
			select {
			case h := <-hosts:
				if !slices.EqualFunc(h.Withheld, want, func(got, want gpu.WithheldDevice) bool {
					return got.UUID == want.UUID && got.Cause == want.Cause && strings.HasPrefix(got.Note, want.Note)
				}) {
					t.Errorf("%s: got %+v, want %+v", why, h.Withheld, want)
				}
			default:
				t.Errorf("%s: no news", why)
			}
		}
		sick := gpu.WithheldDevice{UUID: "GPU-b", Cause: gpu.WithheldUnhealthy, Note: "XID 8 "}
		d.events <- health.DeviceEvent{Device: "GPU-b", XID: 8}
		want("a fault", sick)
		for range 10 {
			d.events <- health.DeviceEvent{Device: "GPU-b", XID: 79}
			time.Sleep(5 * time.Second) // long enough for samples
		}
		if err := w.CordonDevice("GPU-a", "fan"); err != nil {
			t.Fatal(err)
		}
		want("a cordon", gpu.WithheldDevice{UUID: "GPU-a", Cause: gpu.WithheldCordoned, Note: "fan"}, sick)
		synctest.Wait()
		select {
		case h := <-hosts:
			t.Errorf("news of old faults: %+v", h.Withheld)
		default:
		}
		for _, err := range []error{w.CordonDevice("GPU-a", "dust"), w.CordonDevice("GPU-b", "is repaired")} {
			if err != nil {
				t.Fatal(err)
			}
		}
		want("other words", gpu.WithheldDevice{UUID: "GPU-a", Cause: gpu.WithheldCordoned, Note: "dust"}, gpu.WithheldDevice{
			UUID:  "GPU-b",
			Cause: gpu.WithheldCordoned,
			Note:  "is repaired",
		})
		if err := w.UncordonDevice("GPU-a"); err != nil {
			t.Fatal(err)
		}
		want("back", gpu.WithheldDevice{UUID: "GPU-b", Cause: gpu.WithheldCordoned, Note: "is repaired"})
	})
}

func TestConfigIsChecked(t *testing.T) {
	for want, c := range map[string]WatcherConfig{
		"no source":       {StateDir: "x", Log: quiet()},
		"no state folder": {Source: newFakeDriver(), Log: quiet()},
		"no log":          {Source: newFakeDriver(), StateDir: "x"},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
