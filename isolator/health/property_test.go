package health

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/gpu"
)

// model keeps the history that a direct evaluation of the rules needs, independently of
// the state machine.
type model struct {
	latched, lost, failing bool
	failingSince           time.Time
	lastUnclean            time.Time // last failure, failed sample or overheated sample
	fatal                  bool      // a fatal fault is present now
	unoffered              time.Time // when the device was withdrawn from the offers
}

// anyObservation generates arbitrary observations of a device.
func anyObservation() *rapid.Generator[Observation] {
	return rapid.Custom(func(t *rapid.T) Observation {
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			return xidObservation(rapid.SampledFrom([]uint64{13, 31, 43, 63, 94, 48, 79, 74, 119, 4711}).Draw(t, "xid"))
		case 1:
			return Observation{Err: errors.New("timeout")}
		case 2:
			return lost
		case 3:
			return vouched
		default:
			return sampleObservation(map[gpu.SampleField]float64{
				gpu.ThrottleReasons: float64(rapid.SampledFrom([]int{0, 0, 0, 1, 4, 8, 64, 128}).Draw(t, "throttle")),
				gpu.RowsPending:     float64(rapid.IntRange(0, 1).Draw(t, "rows")),
				gpu.ECCUncorrected:  float64(rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2}).Draw(t, "ecc")),
			})
		}
	})
}

// record updates the model.
func (m *model) record(p FaultPolicy, now time.Time, o Observation, ecc *float64) {
	fault := false
	switch {
	case o.ClearedByOperator:
		m.latched = false
	case o.Event != nil && !p.ignoresXID(o.Event.XID):
		fault = true
		m.latched = m.latched || LookUpXID(o.Event.XID).Effect == NeedsReset
	case o.Err != nil:
		if !m.failing {
			m.failing, m.failingSince = true, now
		}
		m.lost = errors.Is(o.Err, ErrLost)
	case o.Sample != nil:
		m.failing, m.lost = false, false
		fault = o.Sample.Values[gpu.ECCUncorrected] > *ecc && *ecc >= 0
		*ecc = o.Sample.Values[gpu.ECCUncorrected]
	}
	m.fatal = fault || m.latched || m.lost || m.failing && now.Sub(m.failingSince) >= sampleGrace
	if m.fatal || m.failing || o.Sample != nil && hardwareThrottles(uint64(o.Sample.Values[gpu.ThrottleReasons])) != "" {
		m.lastUnclean = now
	}
}

// For any history: a device with a present fatal fault is neither healthy nor offered; a
// device is offered again only after a quiet period; only a good sample improves its
// state; equal histories produce equal states.
func TestTransitionProperties(t *testing.T) {
	p := testPolicy(t)
	rapid.Check(t, func(t *rapid.T) {
		now, s, again := start, New(start, SavedState{}), New(start, SavedState{})
		m, ecc := &model{}, -1.0
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "seconds")) * time.Second)
			o := anyObservation().Draw(t, "saw")
			before := s.Condition()
			s, _ = p.ApplyObservation(now, s, o)
			again, _ = p.ApplyObservation(now, again, o)
			m.record(p, now, o, &ecc)
			checkTransition(t, p, m, now, before, s.Condition(), o)
			if again.Condition() != s.Condition() {
				t.Fatalf("equal histories, but %+v and %+v", s.Condition(), again.Condition())
			}
		}
	})
}

func checkTransition(t *rapid.T, p FaultPolicy, m *model, now time.Time, before, c gpu.DeviceCondition, o Observation) {
	switch {
	case m.fatal && c.Health != gpu.Failed:
		t.Fatalf("%s though a fault is there", c.Health)
	case before.IsOffered() && !c.IsOffered():
		m.unoffered = now
	case !before.IsOffered() && c.IsOffered() && (now.Sub(m.lastUnclean) < p.FailedQuiet || now.Sub(m.unoffered) < p.FailedQuiet):
		t.Fatalf("offered again %s after it was last not clean, quiet time is %s", now.Sub(m.lastUnclean), p.FailedQuiet)
	}
	if healthRank(c.Health) < healthRank(before.Health) && o.Sample == nil {
		t.Fatalf("from %s to %s without a sample", before.Health, c.Health)
	}
	if c.Health != before.Health && !allowedTransitions[before.Health][c.Health] {
		t.Fatalf("from %s to %s", before.Health, c.Health)
	}
	if (c.Reason == "") != (c.Health == gpu.Healthy) {
		t.Fatalf("%s with reason %q", c.Health, c.Reason)
	}
}

var allowedTransitions = map[gpu.Health]map[gpu.Health]bool{
	gpu.Healthy:    {gpu.Suspect: true, gpu.Failed: true},
	gpu.Suspect:    {gpu.Healthy: true, gpu.Failed: true},
	gpu.Failed:     {gpu.Recovering: true},
	gpu.Recovering: {gpu.Healthy: true, gpu.Suspect: true, gpu.Failed: true},
}

func healthRank(h gpu.Health) int {
	return map[gpu.Health]int{gpu.Healthy: 0, gpu.Suspect: 1, gpu.Recovering: 2, gpu.Failed: 3}[h]
}

// Any bytes are a valid history: no panic, and only the four states.
func FuzzStep(f *testing.F) {
	f.Add([]byte{0, 79, 5, 4, 0, 5})
	f.Add([]byte{2, 1, 2, 30, 4, 255, 5, 0, 3, 9})
	f.Fuzz(func(t *testing.T, history []byte) {
		p, now, s := testPolicy(t), start, New(start, SavedState{})
		for i := 0; i+1 < len(history); i += 2 {
			n := uint64(history[i+1])
			now = now.Add(time.Duration(int8(history[i+1])) * time.Second) // clocks may go back
			saw := []Observation{
				xidObservation(n), {Event: &DeviceEvent{ECC: n%2 == 0}}, broken, lost, vouched,
				sampleObservation(map[gpu.SampleField]float64{gpu.ThrottleReasons: float64(n)}),
				eccObservation(float64(n)), energyObservation(float64(n)), sampleObservation(map[gpu.SampleField]float64{
					gpu.ThrottleReasons: -float64(n),
					gpu.RowsPending:     float64(n % 2),
				}),
			}[int(history[i])%9]
			before := s.Condition().Health
			s, _ = p.ApplyObservation(now, s, saw)
			after := s.Condition().Health
			if after != before && !allowedTransitions[before][after] {
				t.Fatalf("from %s to %s", before, after)
			}
			if len(s.SavedState().Faults) > 0 && after != gpu.Failed {
				t.Fatalf("%s with %v", after, s.SavedState())
			}
		}
	})
}
