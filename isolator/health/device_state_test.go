package health

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mesos-gpu/gpu"
)

var start = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func testPolicy(t testing.TB) FaultPolicy {
	t.Helper()
	return FaultPolicy{}.WithDefaults()
}

// sampleObservation has the given fields and no other fault.
func sampleObservation(fields map[gpu.SampleField]float64) Observation {
	return Observation{Sample: &gpu.Sample{Values: fields}}
}

func xidObservation(n uint64) Observation { return Observation{Event: &DeviceEvent{XID: n}} }

var (
	clean      = sampleObservation(nil)
	hot        = sampleObservation(map[gpu.SampleField]float64{gpu.ThrottleReasons: 1<<3 | 1<<6})
	brake      = sampleObservation(map[gpu.SampleField]float64{gpu.ThrottleReasons: 1 << 7})
	capped     = sampleObservation(map[gpu.SampleField]float64{gpu.ThrottleReasons: 1<<0 | 1<<2 | 1<<5})
	pending    = sampleObservation(map[gpu.SampleField]float64{gpu.RowsPending: 1})
	rowsFailed = sampleObservation(map[gpu.SampleField]float64{gpu.RowsFailed: 1})
	broken     = Observation{Err: errors.New("unknown error")}
	lost       = Observation{Err: fmt.Errorf("sample: %w", ErrLost)}
	off        = Observation{Event: &DeviceEvent{Lost: true}}
	vouched    = Observation{ClearedByOperator: true}
)

func eccObservation(n float64) Observation {
	return sampleObservation(map[gpu.SampleField]float64{gpu.ECCUncorrected: n})
}

// actionObservation is a sample at that second with a recovery action.
func actionObservation(second int, action float64) Observation {
	o := sampleObservation(map[gpu.SampleField]float64{gpu.RecoveryAction: action})
	o.Sample.At = start.Add(time.Duration(second) * time.Second)
	return o
}

func fabricObservation(state, status float64) Observation {
	return sampleObservation(map[gpu.SampleField]float64{gpu.FabricState: state, gpu.FabricStatus: status})
}

func energyObservation(joules float64) Observation {
	return sampleObservation(map[gpu.SampleField]float64{gpu.EnergyJoules: joules})
}

// scenarioLine is one step of a scenario: the time in seconds, the observation, and the
// expected health and part of the reason.
type scenarioLine struct {
	second int
	saw    Observation
	want   gpu.Health
	reason string
}

func TestScenarios(t *testing.T) {
	const h, s, f, r = gpu.Healthy, gpu.Suspect, gpu.Failed, gpu.Recovering
	for name, lines := range map[string][]scenarioLine{
		"ignored XIDs say nothing": {
			{0, clean, h, ""}, {1, xidObservation(13), h, ""}, {2, xidObservation(31), h, ""}, {3, xidObservation(43), h, ""},
			{4, xidObservation(45), h, ""}, {5, xidObservation(68), h, ""}, {6, xidObservation(109), h, ""},
		},
		"an event without XID or ECC says nothing": {{0, Observation{Event: &DeviceEvent{}}, h, ""}},
		"an error of the application passes": {
			{0, clean, h, ""},
			{1, xidObservation(94), f, "XID 94 (contained memory error) at 2026-01-02T03:00:01Z"},
			{5, clean, r, "available to tasks after 2m0s without faults; last fault: XID 94"},
			{124, clean, r, ""},
			{125, clean, h, ""},
		},
		"a device off the bus stays failed although samples succeed": {
			{0, clean, h, ""}, {1, xidObservation(79), f, "XID 79 (GPU has fallen off the bus)"}, {5, clean, f, "needs a reset"}, {5000, clean, f, "XID 79"},
		},
		"an unknown XID needs a reset": {
			{0, xidObservation(999), f, "XID 999 (unknown error)"}, {600, clean, f, "needs a reset"},
		},
		"an ECC event without XID needs a reset": {
			{0, Observation{Event: &DeviceEvent{ECC: true}}, f, "uncorrected ECC error at"}, {600, clean, f, ""},
		},
		"an operator vouches": {
			{0, xidObservation(119), f, "GSP RPC timeout"}, {5, clean, f, ""}, {6, vouched, f, ""}, {10, clean, r, "119"}, {129, clean, r, ""}, {130, clean, h, ""},
		},
		"vouched for, but lost": {
			{0, xidObservation(79), f, ""}, {1, lost, f, ""}, {2, vouched, f, ""}, {5, lost, f, "lost to the driver"}, {500, lost, f, ""},
		},
		"a reset shows in the energy counter": {
			{0, energyObservation(5000), h, ""}, {1, xidObservation(48), f, "double bit"},
			{5, energyObservation(5100), f, "needs a reset"}, {60, energyObservation(3), r, ""},
			{180, energyObservation(900), h, ""},
		},
		"a lost device fails at once and recovers when it is back": {
			{0, clean, h, ""}, {5, lost, f, "the device is lost"}, {10, lost, f, ""}, {15, clean, r, "lost"}, {135, clean, h, ""},
		},
		"a device that leaves the bus between two samples": {
			{0, clean, h, ""}, {1, off, f, "it has left the PCI bus"}, {5, lost, f, "sample: the device is lost"}, {60, clean, r, ""}, {180, clean, h, ""},
		},
		"a transient sampling error": {
			{0, clean, h, ""}, {5, broken, s, "no sample since 2026-01-02T03:00:05Z: unknown error"}, {10, clean, s, ""}, {34, clean, s, ""}, {35, clean, h, ""},
		},
		"sampling errors that stay": {
			{0, clean, h, ""}, {5, broken, s, ""}, {10, broken, s, ""}, {20, broken, f, "no sample since 2026-01-02T03:00:05Z"},
			{25, clean, r, ""}, {144, clean, r, ""}, {145, clean, h, ""},
		},
		"a sampling error amid recovery": {
			{0, xidObservation(94), f, ""}, {5, clean, r, ""}, {110, broken, r, "last fault: XID 94"}, {115, clean, r, ""}, {229, clean, r, ""}, {230, clean, h, ""},
		},
		"a device that is not clean does not recover": {
			{0, lost, f, ""}, {5, clean, r, ""}, {10, hot, r, ""}, {125, hot, r, ""}, {130, clean, r, ""}, {135, hot, r, ""},
			{140, clean, r, ""}, {254, clean, r, ""}, {255, clean, h, ""},
		},
		"failing again starts the quiet time again, doubled": {
			{0, xidObservation(94), f, ""}, {5, clean, r, ""}, {100, xidObservation(94), f, ""}, {105, clean, r, "4m0s"}, {344, clean, r, ""}, {345, clean, h, ""},
		},
		"an old failure no longer counts": {
			{0, xidObservation(94), f, ""}, {5, clean, r, ""}, {125, clean, h, ""}, {4000, xidObservation(94), f, ""}, {4005, clean, r, "2m0s"}, {4125, clean, h, ""},
		},
		"uncorrected errors grow": {
			{0, eccObservation(0), h, ""}, {5, eccObservation(5), f, "5 uncorrected ECC errors, 0 before"},
			{10, eccObservation(8), f, "8 uncorrected ECC errors, 5 before"}, {15, eccObservation(8), r, ""},
			{134, eccObservation(8), r, ""}, {135, eccObservation(8), h, ""},
		},
		"errors from before the daemon, and a counter set back": {
			{0, eccObservation(7), s, "7 uncorrected ECC errors before the first sample"}, {5, eccObservation(7), s, ""}, {30, eccObservation(7), h, ""},
			{35, eccObservation(0), h, ""}, {40, clean, h, ""}, {45, eccObservation(1), f, "1 uncorrected ECC errors, 0 before"},
		},
		"the driver requests a reset": {
			{0, actionObservation(1, 0), h, ""}, {1, xidObservation(109), h, ""}, {2, xidObservation(154), f, "XID 154 (recovery action changed)"},
			{5, actionObservation(5, 1), f, "XID 154"}, {500, actionObservation(500, 4), f, "XID 154"},
			{505, actionObservation(505, 0), r, "last fault: XID 154"}, {624, actionObservation(624, 0), r, ""}, {625, actionObservation(625, 0), h, ""},
		},
		"the driver requests a reset without an event": {
			{0, actionObservation(0, 2), f, "the driver's recovery action is node reboot"}, {500, vouched, f, "node reboot"},
			{505, actionObservation(505, 0), r, ""}, {625, actionObservation(625, 0), h, ""},
		},
		"a driver that does not report the recovery action": {
			{0, clean, h, ""}, {1, xidObservation(154), f, "needs a reset"}, {5, clean, f, "XID 154"}, {5000, clean, f, ""}, {5001, vouched, f, ""}, {5005, clean, r, ""},
		},
		"a sample from before the event decides nothing": {
			{0, xidObservation(149), f, "XID 149"}, {1, actionObservation(0, 0), f, "XID 149"}, {2, actionObservation(2, 0), r, ""},
		},
		"an NVLink error whose subcode the driver passes": {
			{0, xidObservation(145), f, "XID 145 (NVLink RLW error)"}, {5, actionObservation(5, 0), r, ""}, {125, actionObservation(125, 0), h, ""},
		},
		"an NVLink error that needs a reset": {
			{0, xidObservation(145), f, ""}, {5, actionObservation(5, 1), f, "XID 145"}, {60, xidObservation(79), f, ""},
			{65, actionObservation(65, 0), f, "XID 79"},
		},
		"a row that could not be remapped": {
			{0, rowsFailed, f, "the GPU must be replaced"}, {5000, rowsFailed, f, ""}, {5005, clean, r, ""},
		},
		"the fabric manager is late": {
			{0, fabricObservation(1, 0), f, "is not started: CUDA fails with error 802"}, {5, fabricObservation(2, 0), f, "is in progress"},
			{10, fabricObservation(3, 0), r, "in progress"}, {130, fabricObservation(3, 0), h, ""},
			{135, fabricObservation(3, 999), f, "failed with NVML error 999: CUDA fails with error 802"},
		},
		"rows pending": {
			{0, pending, s, "memory rows need a reset to be remapped"}, {600, pending, s, ""}, {605, clean, s, ""}, {630, clean, h, ""},
		},
		"a row was remapped": {
			{0, xidObservation(63), f, "remapped"}, {5, pending, r, ""}, {125, pending, s, "rows"}, {130, clean, s, ""}, {155, clean, h, ""},
		},
		"heat has to last": {
			{0, hot, h, ""}, {25, hot, h, ""}, {30, hot, s, "hardware throttles itself since 2026-01-02T03:00:00Z: hardware_slowdown, hardware_thermal"},
			{35, clean, s, ""}, {40, hot, s, ""}, {69, clean, s, ""}, {70, clean, h, ""},
		},
		"heat that stays": {
			{0, brake, h, ""}, {299, brake, s, "power_brake"}, {300, brake, f, "power_brake"}, {305, clean, r, ""}, {425, clean, h, ""},
		},
		"software's own limits are no fault": {{0, capped, h, ""}, {4000, capped, h, ""}},
		"many errors are one failure": {
			{0, xidObservation(48), f, ""}, {1, xidObservation(48), f, ""}, {2, xidObservation(95), f,
				"XID 48 (double bit ECC error) at 2026-01-02T03:00:00Z; XID 95 (uncontained memory error) at 2026-01-02T03:00:02Z; needs a reset"},
		},
	} {
		t.Run(name, func(t *testing.T) { playScenario(t, testPolicy(t), lines) })
	}
}

func playScenario(t *testing.T, p FaultPolicy, lines []scenarioLine) {
	t.Helper()
	state := New(start, SavedState{})
	for _, l := range lines {
		before := state.Condition()
		now := start.Add(time.Duration(l.second) * time.Second)
		var changed bool
		state, changed = p.ApplyObservation(now, state, l.saw)
		got := state.Condition()
		if got.Health != l.want || !strings.Contains(got.Reason, l.reason) {
			t.Errorf("second %d: got %s %q, want %s %q", l.second, got.Health, got.Reason, l.want, l.reason)
		}
		if changed != (got != before) {
			t.Errorf("second %d: changed = %t, from %v to %v", l.second, changed, before, got)
		}
		if got.Health == gpu.Healthy && got.Reason != "" {
			t.Errorf("second %d: healthy, but %q", l.second, got.Reason)
		}
		if (got.Health != before.Health) != got.Since.Equal(now) && got.Since != before.Since {
			t.Errorf("second %d: since %s", l.second, got.Since)
		}
	}
}

func TestPolicyOverrides(t *testing.T) {
	p := FaultPolicy{Ignored: []uint64{79}, FailedQuiet: time.Second}.WithDefaults()
	playScenario(t, p, []scenarioLine{
		{0, xidObservation(79), gpu.Healthy, ""},
		{4001, xidObservation(13), gpu.Failed, "graphics"}, {4002, clean, gpu.Recovering, ""}, {4003, clean, gpu.Healthy, ""},
	})
}

// After a restart the daemon knows which devices need a reset, and detects a reset that
// happened while it was down.
func TestSavedStateSurvivesRestart(t *testing.T) {
	p := testPolicy(t)
	s, _ := p.ApplyObservation(start, New(start, SavedState{}), energyObservation(700))
	s, _ = p.ApplyObservation(start, s, xidObservation(79))
	saved := s.SavedState()
	if len(saved.Faults) != 1 || saved.EnergyJoules != 700 {
		t.Fatalf("saved %+v", saved)
	}
	again := New(start.Add(time.Hour), saved)
	if c := again.Condition(); c.Health != gpu.Failed || !strings.Contains(c.Reason, "XID 79") {
		t.Errorf("after a restart: %+v", c)
	}
	if s, _ := p.ApplyObservation(start.Add(time.Hour), again, energyObservation(701)); s.Condition().Health != gpu.Failed {
		t.Errorf("no reset, but %+v", s.Condition())
	}
	if s, _ := p.ApplyObservation(start.Add(time.Hour), again, energyObservation(2)); s.Condition().Health != gpu.Recovering || len(s.SavedState().Faults) != 0 {
		t.Errorf("after a reset: %+v", s.Condition())
	}
}

// A fault before the first sample is saved before the energy is known, and again with the
// energy: otherwise a later daemon could not detect the reset.
func TestEnergyIsSavedWhenKnown(t *testing.T) {
	p := testPolicy(t)
	s, _ := p.ApplyObservation(start, New(start, SavedState{}), xidObservation(79))
	early := s.SavedState()
	if !(SavedState{}).NeedsRewrite(early) {
		t.Errorf("not to be saved: %+v", early)
	}
	s, _ = p.ApplyObservation(start, s, energyObservation(700))
	late := s.SavedState()
	if !early.NeedsRewrite(late) || late.EnergyJoules != 700 {
		t.Errorf("not to be saved: %+v after %+v", late, early)
	}
	s, _ = p.ApplyObservation(start, s, energyObservation(701))
	if late.NeedsRewrite(s.SavedState()) {
		t.Error("to be saved at each sample")
	}
	healthy, _ := p.ApplyObservation(start, New(start, SavedState{}), energyObservation(1))
	if (SavedState{}).NeedsRewrite(healthy.SavedState()) {
		t.Error("to be saved though healthy")
	}
	if s, _ := p.ApplyObservation(start, New(start, late), energyObservation(2)); s.Condition().Health != gpu.Recovering {
		t.Errorf("after a reset: %+v", s.Condition())
	}
}

func TestLatchedFaultsAreBounded(t *testing.T) {
	p, s := testPolicy(t), New(start, SavedState{})
	for n := range uint64(1000) {
		s, _ = p.ApplyObservation(start, s, xidObservation(10_000+n))
	}
	if got := len(s.SavedState().Faults); got != maxLatched {
		t.Errorf("%d faults are kept, want %d", got, maxLatched)
	}
}

// With IgnoreFabric a GPU that is not registered with the NVLink fabric is healthy. Other reports of the driver still count.
func TestIgnoredFabric(t *testing.T) {
	for ignored, want := range map[bool]gpu.Health{false: gpu.Failed, true: gpu.Healthy} {
		p := FaultPolicy{IgnoreFabric: ignored}.WithDefaults()
		s, _ := p.ApplyObservation(start, New(start, SavedState{}), fabricObservation(2, 0))
		if got := s.Condition(); got.Health != want {
			t.Errorf("ignored %v: got %v, want %v", ignored, got, want)
		}
		s, _ = p.ApplyObservation(start, s, actionObservation(0, 1))
		if got := s.Condition(); got.Health != gpu.Failed {
			t.Errorf("ignored %v, with a recovery action: got %v", ignored, got)
		}
	}
}
