package watch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/health"
)

func TestCordon(t *testing.T) {
	watched(t, three(), func(t *testing.T, _ *driver, w *Watcher) {
		hosts := w.Hosts(t.Context())
		<-hosts
		updates, err := w.Watch(t.Context(), "GPU-b")
		if err != nil {
			t.Fatal(err)
		}
		<-updates
		for _, reason := range []string{"fan", "fan and dust"} {
			if err := w.Cordon("GPU-b", reason); err != nil {
				t.Fatal(err)
			}
			if u := <-updates; !u.Condition.Cordoned || u.Condition.Cordon != reason || u.Condition.Health != gpu.Healthy {
				t.Errorf("told %+v", u)
			}
			w.mustOffer(t, "GPU-a", "GPU-c")
		}
		if got := uuids(<-hosts); len(got) != 2 {
			t.Errorf("host %v", got)
		}
		for range 2 { // the second changes nothing
			if err := w.Uncordon("GPU-b"); err != nil {
				t.Fatal(err)
			}
		}
		if u := <-updates; u.Condition.Cordoned || u.Condition.Cordon != "" {
			t.Errorf("told %+v", u)
		}
		w.mustOffer(t, "GPU-a", "GPU-b", "GPU-c")
		for _, err := range []error{w.Cordon("GPU-x", ""), w.Uncordon("GPU-x")} {
			if !errors.Is(err, ErrUnknown) {
				t.Errorf("unknown device: %v", err)
			}
		}
		if err := w.Cordon("GPU-b", strings.Repeat("x", 1025)); err == nil || !strings.Contains(err.Error(), "1025 bytes, at most 1024") {
			t.Errorf("long reason: %v", err)
		}
	})
}

// Uncordoning a failed device vouches for it; it still has to be clean.
func TestUncordonVouches(t *testing.T) {
	watched(t, three(), func(t *testing.T, d *driver, w *Watcher) {
		d.events <- health.Event{Device: "GPU-a", XID: 119}
		w.mustBe(t, "GPU-a", gpu.Failed)
		time.Sleep(time.Hour)
		w.mustBe(t, "GPU-a", gpu.Failed)
		if err := w.Uncordon("GPU-a"); err != nil {
			t.Fatal(err)
		}
		w.mustBe(t, "GPU-a", gpu.Recovering)
		w.mustOffer(t, "GPU-b", "GPU-c")
		time.Sleep(2*time.Minute + 5*time.Second)
		w.mustOffer(t, "GPU-a", "GPU-b", "GPU-c")
	})
}

// One daemon after another: cordons stay, faults stay until the next boot,
// and what is known of a device that is away is kept.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	w := newWatcher(t, three(), newDriver(), dir, "boot 1")
	if err := w.Cordon("GPU-a", "dust"); err != nil {
		t.Fatal(err)
	}
	w.happened(health.Event{Device: "GPU-b", XID: 79})
	w.happened(health.Event{Device: "GPU-c", XID: 48})
	w.save()

	away := three()
	away.Devices = away.Devices[:2]
	w = newWatcher(t, away, newDriver(), dir, "boot 1")
	if c, _ := w.Condition("GPU-a"); !c.Cordoned || c.Cordon != "dust" {
		t.Errorf("cordoned before, now %+v", c)
	}
	if c, _ := w.Condition("GPU-b"); c.Health != gpu.Failed || !strings.Contains(c.Reason, "XID 79") {
		t.Errorf("failed before, now %+v", c)
	}
	if err := w.Uncordon("GPU-b"); err != nil {
		t.Fatal(err)
	}
	w.save() // which must keep GPU-c

	w = newWatcher(t, three(), newDriver(), dir, "boot 1")
	if c, _ := w.Condition("GPU-b"); c.Health != gpu.Healthy {
		t.Errorf("vouched for, now %+v", c)
	}
	if c, _ := w.Condition("GPU-c"); c.Health != gpu.Failed {
		t.Errorf("was away, now %+v", c)
	}

	w = newWatcher(t, three(), newDriver(), dir, "boot 2")
	if got := w.Offered(); len(got) != 2 || got[1] != "GPU-c" {
		t.Errorf("after a boot %v are offered", got)
	}
	gone := newWatcher(t, gpu.Host{}, newDriver(), dir, "boot 2")
	if err := gone.Uncordon("GPU-a"); err != nil {
		t.Errorf("uncordon a device that is away: %v", err)
	}
	if got := newWatcher(t, three(), newDriver(), dir, "boot 2").Offered(); len(got) != 3 {
		t.Errorf("in the end %v are offered", got)
	}
}

func TestDamagedState(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "devices.json")
	if err := os.WriteFile(path, []byte(`{"cordons":`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := New(Config{Source: newDriver(), StateDir: dir, Log: quiet()})
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("got %v", err)
	}
}

// What cannot be written down is not done, and leaves nothing behind.
func TestCordonThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	w := newWatcher(t, three(), newDriver(), dir, "")
	if err := os.MkdirAll(filepath.Join(dir, "devices.json", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := w.Cordon("GPU-a", ""); err == nil {
		t.Error("cordoned without a record")
	}
	w.happened(health.Event{Device: "GPU-b", XID: 79})
	w.save() // counts though it is not recorded
	if got := w.Offered(); len(got) != 2 || got[0] != "GPU-a" {
		t.Errorf("offered %v", got)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Run writes faults down by itself, the last of them on its way out.
func TestFaultsAreWrittenDown(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d := newDriver()
		w := newWatcher(t, three(), d, dir, "")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.Run(ctx)
		}()
		d.events <- health.Event{Device: "GPU-a", XID: 79}
		w.mustBe(t, "GPU-a", gpu.Failed)
		if got := newWatcher(t, three(), d, dir, "").Offered(); len(got) != 2 {
			t.Errorf("a new daemon offers %v", got)
		}
		w.happened(health.Event{Device: "GPU-b", XID: 79})
		cancel()
		<-done
		if got := newWatcher(t, three(), d, dir, "").Offered(); len(got) != 1 {
			t.Errorf("a new daemon offers %v", got)
		}
	})
}

// Every moment of writing is a moment to crash at: the file read is the old
// one or the new one.
func TestFileIsAlwaysWhole(t *testing.T) {
	dir := t.TempDir()
	w := newWatcher(t, three(), newDriver(), dir, "")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 50 {
			if err := errors.Join(w.Cordon("GPU-a", strings.Repeat("x", i*20)), w.Uncordon("GPU-a")); err != nil {
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
		if _, _, err := openState(dir, ""); err != nil {
			t.Fatal(err)
		}
	}
}

// Many at once: the race detector's food.
func TestConcurrentUse(t *testing.T) {
	watched(t, three(), func(t *testing.T, d *driver, w *Watcher) {
		finished := make(chan struct{})
		for _, f := range []func(){
			func() { w.Devices() }, func() { w.History("GPU-a") }, func() { w.Offered() },
			func() { _ = w.Cordon("GPU-a", "x") }, func() { _ = w.Uncordon("GPU-a") },
			func() { d.events <- health.Event{Device: "GPU-b", XID: 48} },
			func() { <-w.Hosts(t.Context()) },
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
