package watch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/health"
)

func TestCordonNotifiesSubscribersAndEndsWithUncordon(t *testing.T) {
	watched(t, three(), func(t *testing.T, _ *fakeDriver, w *Watcher) {
		hosts := w.WatchHosts(t.Context())
		<-hosts
		updates, err := w.WatchConditions(t.Context(), "GPU-b")
		if err != nil {
			t.Fatal(err)
		}
		<-updates
		for _, reason := range []string{"fan", "fan and dust"} {
			if err := w.CordonDevice("GPU-b", reason); err != nil {
				t.Fatal(err)
			}
			if u := <-updates; !u.Condition.Cordoned || u.Condition.Cordon != reason || u.Condition.Health != gpu.Healthy {
				t.Errorf("got update %+v", u)
			}
			w.mustOffer(t, "GPU-a", "GPU-c")
		}
		if got := uuids(<-hosts); len(got) != 2 {
			t.Errorf("host %v", got)
		}
		for range 2 { // the second call changes nothing
			if err := w.UncordonDevice("GPU-b"); err != nil {
				t.Fatal(err)
			}
		}
		if u := <-updates; u.Condition.Cordoned || u.Condition.Cordon != "" {
			t.Errorf("got update %+v", u)
		}
		w.mustOffer(t, "GPU-a", "GPU-b", "GPU-c")
		for _, err := range []error{w.CordonDevice("GPU-x", ""), w.UncordonDevice("GPU-x")} {
			if !errors.Is(err, ErrUnknownDevice) {
				t.Errorf("unknown device: %v", err)
			}
		}
		if err := w.CordonDevice("GPU-b", strings.Repeat("x", 1025)); err == nil || !strings.Contains(err.Error(), "1025 bytes, at most 1024") {
			t.Errorf("long reason: %v", err)
		}
	})
}

// Uncordoning a failed device clears its faults, but it is healthy only after good
// samples.
func TestUncordonClearsFaults(t *testing.T) {
	watched(t, three(), func(t *testing.T, d *fakeDriver, w *Watcher) {
		d.events <- health.DeviceEvent{Device: "GPU-a", XID: 119}
		w.mustBe(t, "GPU-a", gpu.Failed)
		time.Sleep(time.Hour)
		w.mustBe(t, "GPU-a", gpu.Failed)
		if err := w.UncordonDevice("GPU-a"); err != nil {
			t.Fatal(err)
		}
		w.mustBe(t, "GPU-a", gpu.Recovering)
		w.mustOffer(t, "GPU-b", "GPU-c")
		time.Sleep(2*time.Minute + 5*time.Second)
		w.mustOffer(t, "GPU-a", "GPU-b", "GPU-c")
	})
}

// After a restart of the daemon cordons remain, faults remain until the next boot, and
// the state of a missing device is kept.
func TestCordonsSurviveRestart(t *testing.T) {
	dir := t.TempDir()
	w := newWatcher(t, three(), newFakeDriver(), dir, "boot 1")
	if err := w.CordonDevice("GPU-a", "dust"); err != nil {
		t.Fatal(err)
	}
	w.applyEvent(health.DeviceEvent{Device: "GPU-b", XID: 79})
	w.applyEvent(health.DeviceEvent{Device: "GPU-c", XID: 48})
	mustSave(t, w)

	away := three()
	away.Devices = away.Devices[:2]
	w = newWatcher(t, away, newFakeDriver(), dir, "boot 1")
	if c, _ := w.DeviceCondition("GPU-a"); !c.Cordoned || c.Cordon != "dust" {
		t.Errorf("cordoned before, now %+v", c)
	}
	if c, _ := w.DeviceCondition("GPU-b"); c.Health != gpu.Failed || !strings.Contains(c.Reason, "XID 79") {
		t.Errorf("failed before, now %+v", c)
	}
	if err := w.UncordonDevice("GPU-b"); err != nil {
		t.Fatal(err)
	}
	mustSave(t, w) // must keep the state of GPU-c

	w = newWatcher(t, three(), newFakeDriver(), dir, "boot 1")
	if c, _ := w.DeviceCondition("GPU-b"); c.Health != gpu.Healthy {
		t.Errorf("vouched for, now %+v", c)
	}
	if c, _ := w.DeviceCondition("GPU-c"); c.Health != gpu.Failed {
		t.Errorf("was away, now %+v", c)
	}

	w = newWatcher(t, three(), newFakeDriver(), dir, "boot 2")
	if got := offered(w); len(got) != 2 || got[1] != "GPU-c" {
		t.Errorf("after a boot %v are offered", got)
	}
	gone := newWatcher(t, gpu.Host{}, newFakeDriver(), dir, "boot 2")
	if err := gone.UncordonDevice("GPU-a"); err != nil {
		t.Errorf("uncordon a device that is away: %v", err)
	}
	if got := offered(newWatcher(t, three(), newFakeDriver(), dir, "boot 2")); len(got) != 3 {
		t.Errorf("in the end %v are offered", got)
	}
}

// A GPU's cordon applies to its MIG devices: none can be uncordoned separately.
func TestUncordonSliceOfCordonedGPU(t *testing.T) {
	h := gpu.Host{Devices: []gpu.Device{{UUID: "MIG-1", MIG: &gpu.MIG{Parent: "GPU-p"}}}}
	w := newWatcher(t, h, newFakeDriver(), t.TempDir(), "")
	for _, id := range []string{"GPU-p", "MIG-1"} {
		if err := w.CordonDevice(id, "dust"); err != nil {
			t.Fatal(err)
		}
	}
	err := w.UncordonDevice("MIG-1")
	if !errors.Is(err, ErrCordoned) || !strings.Contains(err.Error(), "GPU-p") {
		t.Errorf("got %v", err)
	}
	for _, id := range []string{"GPU-p", "MIG-1"} {
		if c, _ := w.DeviceCondition("MIG-1"); !c.Cordoned {
			t.Errorf("%s is not uncordoned yet, its slice %+v", id, c)
		}
		if err := w.UncordonDevice(id); err != nil {
			t.Fatal(err)
		}
	}
	if c, _ := w.DeviceCondition("MIG-1"); c.Cordoned {
		t.Errorf("in the end %+v", c)
	}
}

// On a machine without a boot ID, faults are never cleared.
func TestUnknownBootKeepsFaults(t *testing.T) {
	for _, boots := range [][]string{{"", "1", "1"}, {"1", "", "1"}, {"", "", "1"}} {
		dir := t.TempDir()
		first := newWatcher(t, three(), newFakeDriver(), dir, boots[0])
		first.applyEvent(health.DeviceEvent{Device: "GPU-a", XID: 79})
		mustSave(t, first)
		for _, boot := range boots[1:] {
			w := newWatcher(t, three(), newFakeDriver(), dir, boot)
			if c, _ := w.DeviceCondition("GPU-a"); c.Health != gpu.Failed {
				t.Errorf("boots %q: at %q it is %s", boots, boot, c.Health)
			}
			mustSave(t, w)
		}
		if got := offered(newWatcher(t, three(), newFakeDriver(), dir, "2")); len(got) != 3 {
			t.Errorf("boots %q, then another: %v", boots, got)
		}
	}
}

func TestDamagedState(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "devices.json")
	if err := os.WriteFile(path, []byte(`{"cordons":`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := New(WatcherConfig{Source: newFakeDriver(), StateDir: dir, Log: quiet()})
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("got %v", err)
	}
}

// A cordon that cannot be saved is rejected and has no effect.
func TestCordonThatCannotBeSaved(t *testing.T) {
	dir := t.TempDir()
	w := newWatcher(t, three(), newFakeDriver(), dir, "")
	if err := os.MkdirAll(filepath.Join(dir, "devices.json", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := w.CordonDevice("GPU-a", ""); err == nil {
		t.Error("cordoned without a record")
	}
	w.applyEvent(health.DeviceEvent{Device: "GPU-b", XID: 79})
	if err := w.saveFaults(); err == nil {
		t.Error("saved where nothing can be")
	}
	if got := offered(w); len(got) != 2 || got[0] != "GPU-a" {
		t.Errorf("offered %v", got)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Run saves faults, the last ones before it returns.
func TestFaultsAreSaved(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDriver()
		w := newWatcher(t, three(), d, dir, "")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Run(ctx)
		}()
		d.events <- health.DeviceEvent{Device: "GPU-a", XID: 79}
		w.mustBe(t, "GPU-a", gpu.Failed)
		if got := offered(newWatcher(t, three(), d, dir, "")); len(got) != 2 {
			t.Errorf("a new daemon offers %v", got)
		}
		w.applyEvent(health.DeviceEvent{Device: "GPU-b", XID: 79})
		cancel()
		<-done
		if got := offered(newWatcher(t, three(), d, dir, "")); len(got) != 1 {
			t.Errorf("a new daemon offers %v", got)
		}
	})
}

// A failed write is retried and logged once.
func TestFaultIsSavedAfterFailedWrite(t *testing.T) {
	dir := t.TempDir()
	blocked := filepath.Join(dir, "devices.json", "x")
	synctest.Test(t, func(t *testing.T) {
		log, logged := logtest.NewNullLogger()
		w, err := New(WatcherConfig{Host: three(), Source: newFakeDriver(), StateDir: dir, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Run(ctx)
		}()
		if err := os.MkdirAll(blocked, 0o700); err != nil {
			t.Fatal(err)
		}
		w.applyEvent(health.DeviceEvent{Device: "GPU-a", XID: 79})
		time.Sleep(time.Minute)
		synctest.Wait()
		if errs := slices.DeleteFunc(logged.AllEntries(), func(e *logrus.Entry) bool { return e.Level != logrus.ErrorLevel }); len(errs) != 1 {
			t.Errorf("logged %d errors, want 1", len(errs))
		}
		if err := os.RemoveAll(filepath.Dir(blocked)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(saveRetry)
		synctest.Wait()
		if got := offered(newWatcher(t, three(), newFakeDriver(), dir, "")); len(got) != 2 {
			t.Errorf("a new daemon offers %v", got)
		}
		cancel()
		<-done
	})
}

// After a fault before the first sample, the energy is saved once it is known and when
// the daemon ends, so that the next daemon detects a reset.
func TestEnergyIsSaved(t *testing.T) {
	dir := t.TempDir()
	saved := func(want float64) {
		t.Helper()
		_, c, err := openStateFile(dir, "")
		if err != nil || c.Faults["GPU-a"].EnergyJoules != want {
			t.Errorf("saved %+v, %v, want energy %g", c.Faults, err, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		d := newFakeDriver()
		d.values["GPU-a"] = map[gpu.SampleField]float64{gpu.EnergyJoules: 700}
		release := d.hang("GPU-a")
		w := newWatcher(t, three(), d, dir, "")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Run(ctx)
		}()
		d.events <- health.DeviceEvent{Device: "GPU-a", XID: 79}
		synctest.Wait()
		saved(0)
		release()
		synctest.Wait()
		saved(700)
		d.set(func() { d.values["GPU-a"][gpu.EnergyJoules] = 800 })
		time.Sleep(5 * time.Second)
		synctest.Wait()
		saved(700)
		cancel()
		<-done
		saved(800)
	})
}

// After a crash at any point of a write the file has either the old or the new content.
func TestFileIsAlwaysWhole(t *testing.T) {
	dir := t.TempDir()
	w := newWatcher(t, three(), newFakeDriver(), dir, "")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 50 {
			if err := errors.Join(w.CordonDevice("GPU-a", strings.Repeat("x", i*20)), w.UncordonDevice("GPU-a")); err != nil {
				t.Error(err)
			}
		}
	}()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		if _, _, err := openStateFile(dir, ""); err != nil {
			t.Fatal(err)
		}
	}
}

// Runs all calls concurrently for the race detector.
func TestConcurrentUse(t *testing.T) {
	watched(t, three(), func(t *testing.T, d *fakeDriver, w *Watcher) {
		finished := make(chan struct{})
		for _, f := range []func(){
			func() { w.DeviceStates() }, func() { w.SampleHistory("GPU-a") }, func() { offered(w) },
			func() { _ = w.CordonDevice("GPU-a", "x") }, func() { _ = w.UncordonDevice("GPU-a") },
			func() { d.events <- health.DeviceEvent{Device: "GPU-b", XID: 48} },
			func() { <-w.WatchHosts(t.Context()) },
		} {
			go func() {
				for range 20 {
					f()
					time.Sleep(time.Second)
				}
				finished <- struct{}{}
			}()
		}
		for range 7 {
			<-finished
		}
		synctest.Wait()
		w.mustBe(t, "GPU-b", gpu.Failed)
	})
}
