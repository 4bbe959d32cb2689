package health

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/gpu"
)

// model remembers of the past what a plain reading of the rules needs, beside
// the state machine and in other words.
type model struct {
	latched, lost, failing bool
	failingSince           time.Time
	lastUnclean            time.Time // the last time that something failed the device, a sample failed or told of heat
	fatal                  bool      // it is there now
	unoffered              time.Time // when it left the offers
}

// random is anything that can be seen of a device.
func random() *rapid.Generator[Observation] {
	return rapid.Custom(func(t *rapid.T) Observation {
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			return xid(rapid.SampledFrom([]uint64{13, 31, 43, 63, 94, 48, 79, 74, 119, 4711}).Draw(t, "xid"))
		case 1:
			return Observation{Err: errors.New("timeout")}
		case 2:
			return lost
		case 3:
			return vouched
		default:
			return sample(map[gpu.Field]float64{
				gpu.ThrottleReasons: float64(rapid.SampledFrom([]int{0, 0, 0, 1, 4, 8, 64, 128}).Draw(t, "throttle")),
				gpu.RowsPending:     float64(rapid.IntRange(0, 1).Draw(t, "rows")),
				gpu.ECCUncorrected:  float64(rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2}).Draw(t, "ecc")),
			})
		}
	})
}

// saw keeps the model.
func (m *model) saw(p Policy, now time.Time, o Observation, ecc *float64) {
	fault := false
	switch {
	case o.Vouched:
		m.latched = false
	case o.Event != nil && !p.ignores(o.Event.XID):
		fault = true
		m.latched = m.latched || Lookup(o.Event.XID).Effect == NeedsReset
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
	m.fatal = fault || m.latched || m.lost || m.failing && now.Sub(m.failingSince) >= p.Grace
	if m.fatal || m.failing || o.Sample != nil && slowdown(uint64(o.Sample.Values[gpu.ThrottleReasons])) != "" {
		m.lastUnclean = now
	}
}

// Whatever happens: no device is healthy, nor offered, while a fault that
// fails it is there; none is offered again before it was quiet; nothing but a
// good sample makes one better; and equal histories give equal states.
func TestProperties(t *testing.T) {
	p := policy(t)
	rapid.Check(t, func(t *rapid.T) {
		now, s, again := start, New(start, Saved{}), New(start, Saved{})
		m, ecc := &model{}, -1.0
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "seconds")) * time.Second)
			o := random().Draw(t, "saw")
			before := s.Condition()
			s, _ = p.Step(now, s, o)
			again, _ = p.Step(now, again, o)
			m.saw(p, now, o, &ecc)
			check(t, p, m, now, before, s.Condition(), o)
			if again.Condition() != s.Condition() {
				t.Fatalf("equal histories, but %+v and %+v", s.Condition(), again.Condition())
			}
		}
	})
}

func check(t *rapid.T, p Policy, m *model, now time.Time, before, c gpu.Condition, o Observation) {
	switch {
	case m.fatal && c.Health != gpu.Failed:
		t.Fatalf("%s though a fault is there", c.Health)
	case before.Offered() && !c.Offered():
		m.unoffered = now
	case !before.Offered() && c.Offered() && (now.Sub(m.lastUnclean) < p.Quiet || now.Sub(m.unoffered) < p.Quiet):
		t.Fatalf("offered again %s after it was last not clean, quiet time is %s", now.Sub(m.lastUnclean), p.Quiet)
	}
	if rank(c.Health) < rank(before.Health) && o.Sample == nil {
		t.Fatalf("from %s to %s without a sample", before.Health, c.Health)
	}
	if c.Health != before.Health && !legal[before.Health][c.Health] {
		t.Fatalf("from %s to %s", before.Health, c.Health)
	}
	if (c.Reason == "") != (c.Health == gpu.Healthy) {
		t.Fatalf("%s with reason %q", c.Health, c.Reason)
	}
}

var legal = map[gpu.Health]map[gpu.Health]bool{
	gpu.Healthy:    {gpu.Suspect: true, gpu.Failed: true},
	gpu.Suspect:    {gpu.Healthy: true, gpu.Failed: true},
	gpu.Failed:     {gpu.Recovering: true},
	gpu.Recovering: {gpu.Healthy: true, gpu.Suspect: true, gpu.Failed: true},
}

func rank(h gpu.Health) int {
	return map[gpu.Health]int{gpu.Healthy: 0, gpu.Suspect: 1, gpu.Recovering: 2, gpu.Failed: 3}[h]
}

// Any bytes are a history: nothing panics and the states stay the four.
func FuzzStep(f *testing.F) {
	f.Add([]byte{0, 79, 5, 4, 0, 5})
	f.Add([]byte{2, 1, 2, 30, 4, 255, 5, 0, 3, 9})
	f.Fuzz(func(t *testing.T, history []byte) {
		p, now, s := policy(t), start, New(start, Saved{})
		for i := 0; i+1 < len(history); i += 2 {
			n := uint64(history[i+1])
			now = now.Add(time.Duration(int8(history[i+1])) * time.Second) // clocks go back, too
			saw := []Observation{
				xid(n), {Event: &Event{ECC: n%2 == 0}}, broken, lost, vouched, sample(map[gpu.Field]float64{gpu.ThrottleReasons: float64(n)}),
				ecc(float64(n)), energy(float64(n)), sample(map[gpu.Field]float64{gpu.ThrottleReasons: -float64(n), gpu.RowsPending: float64(n % 2)}),
			}[int(history[i])%9]
			before := s.Condition().Health
			s, _ = p.Step(now, s, saw)
			after := s.Condition().Health
			if after != before && !legal[before][after] {
				t.Fatalf("from %s to %s", before, after)
			}
			if len(s.Saved().Faults) > 0 && after != gpu.Failed {
				t.Fatalf("%s with %v", after, s.Saved())
			}
		}
	})
}
