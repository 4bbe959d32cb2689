package simulated

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/health"
)

// sourceRig is a source with a clock and processes of the test's.
type sourceRig struct {
	*LoadSource
	t         *testing.T
	clock     time.Time
	processes []Process
}

func newSourceRig(t *testing.T, spec string) (*sourceRig, []gpu.Device) {
	h := mustHost(t, spec, "a")
	r := &sourceRig{t: t, clock: time.Unix(1000, 0)}
	r.LoadSource = NewLoadSource(h, func() []Process { return r.processes })
	r.now = func() time.Time { return r.clock }
	return r, h.Devices
}

// after returns the sample of a device after a time in which the processes have used CPU time.
func (r *sourceRig) after(d time.Duration, device gpu.Device, processes ...Process) gpu.Sample {
	r.t.Helper()
	r.clock, r.processes = r.clock.Add(d), processes
	s, err := r.Sample(device.UUID)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// Idle devices have plausible, constant and healthy samples.
func TestIdleDevicesAreHealthy(t *testing.T) {
	r, devices := newSourceRig(t, "V100,K80")
	p := health.FaultPolicy{}.WithDefaults()
	for _, d := range devices {
		state := health.New(r.clock, health.SavedState{})
		first := r.after(0, d)
		for range 100 {
			s := r.after(time.Minute, d)
			delete(s.Values, gpu.EnergyJoules)
			delete(first.Values, gpu.EnergyJoules)
			if !s.At.Equal(r.clock) || !cmp.Equal(s.Values, first.Values) || s.Values[gpu.MemTotalBytes] != float64(d.MemMiB<<20) {
				t.Fatalf("%+v; first %+v", s, first)
			}
			state, _ = p.ApplyObservation(r.clock, state, health.Observation{Sample: &s})
		}
		if c := state.Condition(); c.Health != gpu.Healthy {
			t.Errorf("%s is %+v", d, c)
		}
	}
	if _, err := r.Sample("GPU-x"); err == nil || !strings.Contains(err.Error(), "not among the 2") {
		t.Errorf("unknown device: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v", err)
	}
}

func TestSamplesFollowProcesses(t *testing.T) {
	r, devices := newSourceRig(t, "3xV100")
	a, b, c := devices[0], devices[1], devices[2]
	on := func(pid int, cpu time.Duration, devices ...gpu.Device) Process {
		p := Process{PID: pid, CPUTime: cpu, ResidentBytes: 100 << 20}
		for _, d := range devices {
			p.Devices = append(p.Devices, d.UUID)
		}
		return p
	}
	want := func(what string, s gpu.Sample, duty, mib, watts, celsius, joules float64) {
		t.Helper()
		got := []float64{s.Values[gpu.DutyRatio], s.Values[gpu.MemUsedBytes] / (1 << 20), s.Values[gpu.PowerWatts], s.Values[gpu.Celsius], s.Values[gpu.EnergyJoules]}
		for i, w := range []float64{duty, mib, watts, celsius, joules} {
			if math.Abs(got[i]-w) > 1e-6 {
				t.Errorf("%s: duty, MiB, watts, Celsius and joules are %v; want %v, %v, %v, %v, %v", what, got, duty, mib, watts, celsius, joules)
				return
			}
		}
	}
	// A process that ran before the first measurement may have used its CPU time long ago.
	want("at first", r.after(0, a, on(1, time.Hour, a)), 0, 100, 25, 30, 0)
	want("half of a CPU", r.after(10*time.Second, a, on(1, time.Hour+5*time.Second, a)), 0.5, 100, 125, 52.5, 1250)
	want("measured again too soon", r.after(time.Second, a), 0.5, 100, 125, 52.5, 1250)
	want("two processes, several CPUs", r.after(9*time.Second, a, on(1, time.Hour+15*time.Second, a), on(2, 20*time.Second, a)), 1, 200, 225, 75, 1250+2250)
	want("ended", r.after(10*time.Second, a), 0, 0, 25, 30, 3750)
	shared := on(3, 8*time.Second, b, c)
	want("two devices, first", r.after(10*time.Second, b, shared), 0.4, 50, 105, 48, 40*25+10*105-250)
	want("two devices, second", r.after(0, c, shared), 0.4, 50, 105, 48, 40*25+10*105-250)
	want("none of it", r.after(0, a), 0, 0, 25, 30, 4000)
	want("a process with the id of an ended one", r.after(10*time.Second, b, on(3, time.Second, b)), 0, 100, 25, 30, 40*25+10*105-250+250)
	if s := r.after(0, b); len(s.Processes) != 1 || s.Processes[0] != (gpu.DeviceProcess{PID: 3, MemBytes: 100 << 20}) {
		t.Errorf("processes %+v", s.Processes)
	}
	over := on(4, 0, b)
	over.ResidentBytes = 1 << 50
	if s := r.after(10*time.Second, b, over); s.Values[gpu.MemUsedBytes] != s.Values[gpu.MemTotalBytes] {
		t.Errorf("uses %v of %v bytes", s.Values[gpu.MemUsedBytes], s.Values[gpu.MemTotalBytes])
	}
}

// The GPU of MIG devices has samples, as on a machine with a driver: without them its devices would be lost.
func TestGPUOfMIGDevicesIsSampled(t *testing.T) {
	h := mustHost(t, "2xA100-80GB-1g.10gb", "a")
	source := NewLoadSource(h, func() []Process { return nil })
	for _, uuid := range []string{h.Devices[0].UUID, h.Devices[0].MIG.Parent} {
		if s, err := source.Sample(uuid); err != nil || s.At.IsZero() {
			t.Errorf("sample of %s: %+v, %v", uuid, s, err)
		}
	}
	if _, err := source.Sample("GPU-unknown"); err == nil {
		t.Error("an unknown GPU has a sample")
	}
}
