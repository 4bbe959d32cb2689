package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/simulated"
	"mesos-gpu/isolator/watch"
)

// The result of the volume check is logged once, and a missing volume is not checked.
func TestRepairVolume(t *testing.T) {
	here := func(context.Context) (string, error) { return "/volumes/nvidia_535", nil }
	for name, c := range map[string]struct {
		volume func(context.Context) (string, error)
		damage []string
		err    error
		want   []string
	}{
		"whole": {here, nil, nil, []string{"driver volume is ready"}},
		"repaired": {here, []string{"libcuda is torn"}, nil, []string{
			"driver volume is ready", "driver volume was damaged and is repaired damage=[libcuda is torn]",
		}},
		"beyond it": {here, []string{"libcuda is torn"}, errors.New("reinstall the driver"), []string{
			"driver volume is ready", "driver volume may be damaged damage=[libcuda is torn] reinstall the driver",
		}},
		"no volume": {noVolume, []string{"never read"}, nil, []string{"no driver volume: images that ask for the driver cannot be launched"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, hook := logtest.NewNullLogger()
				d := &Daemon{cfg: DaemonConfig{Log: log, DriverVolume: c.volume, RepairVolume: func(context.Context) ([]string, error) { return c.damage, c.err }}}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				ended := make(chan error)
				w, err := watch.New(watch.WatcherConfig{Source: simulated.NewLoadSource(gpu.Host{}, func() []simulated.Process { return nil }), StateDir: t.TempDir(), Log: log})
				if err != nil {
					t.Error(err)
					return
				}
				go func() { ended <- d.keepDriverVolume(w, gpu.Host{Simulated: true})(ctx) }()
				synctest.Wait()
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				if got := loggedMessages(hook); strings.Join(got, "\n") != strings.Join(c.want, "\n") {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		})
	}
}

// loggedMessages returns the log messages with the fields that this test checks.
func loggedMessages(hook *logtest.Hook) []string {
	var lines []string
	for _, e := range hook.AllEntries() {
		line := e.Message
		if damage, ok := e.Data["damage"]; ok {
			line += " damage=[" + strings.Join(damage.([]string), " ") + "]"
		}
		if err, ok := e.Data["error"].(error); ok && strings.Contains(line, "damage=") {
			line += " " + err.Error()
		}
		lines = append(lines, line)
	}
	return lines
}

// A machine with GPUs and no usable driver files offers none of them, with the reason, until the files appear; and again when
// they are gone. Simulated GPUs have no driver.
func TestGPUsWithoutDriverAreWithheld(t *testing.T) {
	for _, isSimulated := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			log, hook := logtest.NewNullLogger()
			missing := errors.New("there is no libcuda.so.535.104.05")
			var volume atomic.Pointer[error] // the daemon reads it in a goroutine of its own
			volume.Store(&missing)
			d := &Daemon{cfg: DaemonConfig{Log: log, DriverVolume: func(context.Context) (string, error) { return "/volumes/nvidia_535.104.05", *volume.Load() }}}
			host := gpu.Host{Devices: []gpu.Device{{UUID: "GPU-a"}, {UUID: "GPU-b"}}, Simulated: isSimulated}
			w, err := watch.New(watch.WatcherConfig{Host: host, Source: simulated.NewLoadSource(host, func() []simulated.Process { return nil }), StateDir: t.TempDir(), Log: log})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- d.keepDriverVolume(w, host)(ctx) }()
			const why = "no driver volume: there is no libcuda.so.535.104.05"
			want := []gpu.WithheldDevice{{UUID: "GPU-a", Cause: gpu.WithheldUnhealthy, Note: why}, {UUID: "GPU-b", Cause: gpu.WithheldUnhealthy, Note: why}}
			for _, err := range []error{missing, nil, missing} {
				volume.Store(&err)
				time.Sleep(volumeInterval)
				synctest.Wait()
				expected := want
				if err == nil || isSimulated {
					expected = nil
				}
				if got := (<-w.WatchHosts(ctx)).Withheld; !slices.Equal(got, expected) {
					t.Errorf("with %v withheld %v, want %v", err, got, expected)
				}
				d.statusMu.Lock()
				if d.status.VolumeError != err {
					t.Errorf("status %v, want %v", d.status.VolumeError, err)
				}
				d.statusMu.Unlock()
				c, _ := w.DeviceCondition("GPU-a")
				if failed := c.OfferedHealth() == gpu.Failed; failed != (expected != nil) || c.Health != gpu.Healthy {
					t.Errorf("with %v the condition is %+v", err, c)
				}
			}
			if n := len(hook.AllEntries()); n != 3 {
				t.Errorf("%d log messages, want one for each change: %v", n, loggedMessages(hook))
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
