package health

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mesos-gpu/gpu"
)

// maxLatched bounds what is kept of a device that reports ever new errors;
// one is enough to keep it failed.
const maxLatched = 8

// Fault is an error that only a reset clears.
type Fault struct {
	// XID is 0 for a memory error that came without one.
	XID uint64    `json:"xid"`
	At  time.Time `json:"at"`
}

func (f Fault) String() string {
	if f.XID == 0 {
		return "uncorrected ECC error at " + stamp(f.At)
	}
	return Lookup(f.XID).String() + " at " + stamp(f.At)
}

// Saved is what must outlive the daemon: a GPU is reset while no daemon has its
// driver open.
type Saved struct {
	Faults []Fault `json:"faults"`
	// Energy is the device's counter, 0 while it is not known. A lower one
	// later tells that the device was reset.
	Energy float64 `json:"energy,omitempty"`
}

// Outdated reports whether next has to be written down in the place of s: it
// has other faults, or is the first to tell the energy, without which a later
// daemon does not see a reset.
func (s Saved) Outdated(next Saved) bool {
	return len(next.Faults) != len(s.Faults) || len(next.Faults) > 0 && s.Energy == 0 && next.Energy > 0
}

// State is what is known of one device. It is a value: Step returns a new one.
type State struct {
	health  gpu.Health
	reason  string
	since   time.Time
	latched []Fault

	errorSince, hotSince time.Time // zero while neither
	lastErr, hot         string
	lost                 bool
	rowsPending          bool

	failedAt, suspectAt time.Time // the last time that this was the verdict
	uncleanAt           time.Time // the last time that anything was wrong but rows pending
	failures            int       // in a row, each within Memory of the last
	fault               string    // of the last failure

	energy     float64 // 0 while not known
	ecc        float64
	eccCounted bool
}

// New is a device that was just discovered, with what an earlier daemon saved.
func New(now time.Time, saved Saved) State {
	s := State{health: gpu.Healthy, since: now, latched: slices.Clone(saved.Faults), energy: saved.Energy}
	if len(s.latched) > 0 {
		s = s.fail(now, s.latchedReason())
	}
	return s
}

// Condition is the verdict.
func (s State) Condition() gpu.Condition {
	return gpu.Condition{Health: s.health, Reason: s.reason, Since: s.since}
}

// Saved is what to hand to New after a restart.
func (s State) Saved() Saved { return Saved{Faults: slices.Clone(s.latched), Energy: s.energy} }

// Step takes one observation in and reports whether the condition changed. p
// has its defaults filled in.
func (p Policy) Step(now time.Time, s State, o Observation) (State, bool) {
	before := s.Condition()
	s.latched = slices.Clone(s.latched)
	momentary := p.observe(now, &s, o)
	v := p.verdict(now, s, momentary)
	s = p.move(now, s, v, o.Sample != nil)
	return s, s.Condition() != before
}

// verdict is what the evidence says now, without regard to the past.
type verdict struct {
	health gpu.Health // Healthy, Suspect or Failed
	reason string
}

// observe adds o to the evidence. It returns a fault that is over as soon as
// it is seen.
func (p Policy) observe(now time.Time, s *State, o Observation) verdict {
	switch {
	case o.Vouched:
		s.latched, s.failures = nil, 0
	case o.Event != nil:
		return p.event(now, s, *o.Event)
	case o.Err != nil:
		s.unreadable(now, o.Err)
	case o.Sample != nil:
		return s.sampled(now, *o.Sample)
	}
	return verdict{}
}

// unreadable is what a device is until its next sample.
func (s *State) unreadable(now time.Time, err error) {
	if s.errorSince.IsZero() {
		s.errorSince = now
	}
	s.lastErr, s.lost = err.Error(), errors.Is(err, ErrLost)
}

func (p Policy) event(now time.Time, s *State, e Event) verdict {
	if e.Lost {
		s.unreadable(now, fmt.Errorf("%w: it has left the PCI bus", ErrLost))
	}
	if e.XID == 0 && !e.ECC || e.XID != 0 && p.ignores(e.XID) {
		return verdict{}
	}
	f := Fault{XID: e.XID, At: now}
	if e.XID != 0 && Lookup(e.XID).Effect == Passes {
		return verdict{gpu.Failed, f.String()}
	}
	if len(s.latched) < maxLatched && !slices.ContainsFunc(s.latched, func(l Fault) bool { return l.XID == f.XID }) {
		s.latched = append(s.latched, f)
	}
	return verdict{}
}

// sampled reads the counters. Energy is counted since the driver was loaded or
// the device reset: where it is less than before, one of them has happened.
func (s *State) sampled(now time.Time, sample gpu.Sample) verdict {
	s.errorSince, s.lastErr, s.lost = time.Time{}, "", false
	if energy, ok := sample.Values[gpu.EnergyJoules]; ok {
		if energy < s.energy {
			s.latched = nil
		}
		s.energy = energy
	}
	s.rowsPending = sample.Values[gpu.RowsPending] > 0
	s.hot = slowdown(uint64(max(sample.Values[gpu.ThrottleReasons], 0)))
	switch {
	case s.hot == "":
		s.hotSince = time.Time{}
	case s.hotSince.IsZero():
		s.hotSince = now
	}
	ecc, counted := sample.Values[gpu.ECCUncorrected]
	before, grew := s.ecc, counted && s.eccCounted && ecc > s.ecc
	if counted {
		s.ecc, s.eccCounted = ecc, true
	}
	if grew {
		return verdict{gpu.Failed, fmt.Sprintf("%.0f uncorrected ECC errors, %.0f before", ecc, before)}
	}
	return verdict{}
}

func (p Policy) verdict(now time.Time, s State, momentary verdict) verdict {
	failing := now.Sub(s.errorSince)
	heat := now.Sub(s.hotSince)
	isHot := !s.hotSince.IsZero()
	switch {
	case len(s.latched) > 0:
		return verdict{gpu.Failed, s.latchedReason()}
	case momentary.health != "":
		return momentary
	case s.lost:
		return verdict{gpu.Failed, s.lastErr}
	case !s.errorSince.IsZero() && failing >= p.Grace:
		return verdict{gpu.Failed, "no sample since " + stamp(s.errorSince) + ": " + s.lastErr}
	case isHot && p.HotFailed >= 0 && heat >= p.HotFailed:
		return verdict{gpu.Failed, "hardware slows itself down since " + stamp(s.hotSince) + ": " + s.hot}
	case !s.errorSince.IsZero():
		return verdict{gpu.Suspect, "no sample since " + stamp(s.errorSince) + ": " + s.lastErr}
	case isHot && p.HotSuspect >= 0 && heat >= p.HotSuspect:
		return verdict{gpu.Suspect, "hardware slows itself down since " + stamp(s.hotSince) + ": " + s.hot}
	case s.rowsPending:
		return verdict{gpu.Suspect, "memory rows wait for a reset to be remapped"}
	}
	return verdict{health: gpu.Healthy}
}

func (s State) latchedReason() string {
	texts := make([]string, len(s.latched))
	for i, f := range s.latched {
		texts[i] = f.String()
	}
	return strings.Join(texts, "; ") + "; needs a reset"
}

// move applies the hysteresis. Only a good sample makes anything better.
func (p Policy) move(now time.Time, s State, v verdict, sampled bool) State {
	switch v.health {
	case gpu.Failed:
		if s.health != gpu.Failed && now.Sub(s.failedAt) > p.Memory {
			s.failures = 0
		}
		return s.fail(now, v.reason)
	case gpu.Suspect:
		s.suspectAt = now
	}
	if !s.errorSince.IsZero() || !s.hotSince.IsZero() && (p.HotSuspect >= 0 || p.HotFailed >= 0) {
		s.uncleanAt = now
	}
	switch {
	case !sampled && v.health == gpu.Healthy:
		// An event that says nothing, or an operator's word: the next sample tells.
	case s.health == gpu.Failed:
		if sampled {
			s = s.to(now, gpu.Recovering, fmt.Sprintf("is given to tasks again once it was clean for %s; was: %s", p.quiet(s), s.fault))
		}
	case s.health == gpu.Recovering && (!sampled || now.Sub(s.uncleanAt) < p.quiet(s) || now.Sub(s.since) < p.quiet(s)):
	case v.health == gpu.Suspect:
		s = s.to(now, gpu.Suspect, v.reason)
	case s.health != gpu.Healthy && now.Sub(s.suspectAt) < p.SuspectQuiet:
	case s.health == gpu.Suspect && now.Sub(s.uncleanAt) < p.SuspectQuiet:
	default:
		s = s.to(now, gpu.Healthy, "")
	}
	return s
}

// quiet is how long the device has to be clean after its failures so far.
func (p Policy) quiet(s State) time.Duration {
	q := p.Quiet
	for range s.failures - 1 {
		if q *= 2; q >= p.Memory {
			return p.Memory
		}
	}
	return q
}

func (s State) fail(now time.Time, reason string) State {
	if s.health != gpu.Failed {
		s.failures++
	}
	s.failedAt, s.uncleanAt, s.fault = now, now, reason
	return s.to(now, gpu.Failed, reason)
}

func (s State) to(now time.Time, h gpu.Health, reason string) State {
	if s.health != h {
		s.since = now
	}
	s.health, s.reason = h, reason
	return s
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
