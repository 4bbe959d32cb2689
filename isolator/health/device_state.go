package health

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/backoff"
)

// maxLatched bounds the faults that are kept of a device that reports different errors. One is
// enough to keep it failed.
const maxLatched = 8

// LatchedFault is an error that only a reset clears.
type LatchedFault struct {
	// XID is 0 for a memory error that was reported without one.
	XID uint64    `json:"xid"`
	At  time.Time `json:"at"`
}

func (f LatchedFault) String() string {
	if f.XID == 0 {
		return "uncorrected ECC error at " + formatTime(f.At)
	}
	return LookUpXID(f.XID).String() + " at " + formatTime(f.At)
}

// SavedState contains the state that must survive a restart of the daemon. A GPU can only be reset while no
// daemon has its driver open.
type SavedState struct {
	Faults []LatchedFault `json:"faults"`
	// EnergyJoules is the device's energy counter, 0 if it is not known. A lower counter later
	// shows that the device was reset.
	EnergyJoules float64 `json:"energy,omitempty"`
	// ECCErrors is the counter of uncorrected memory errors, 0 if it is not known. A higher counter later
	// shows errors while no daemon ran.
	ECCErrors float64 `json:"ecc,omitempty"`
}

// IsEmpty reports whether nothing needs to survive.
func (s SavedState) IsEmpty() bool { return len(s.Faults) == 0 && s.ECCErrors == 0 }

// NeedsRewrite reports whether next must be written in place of s: its faults differ, or it is
// the first with a counter, which a later daemon needs to detect a reset.
func (s SavedState) NeedsRewrite(next SavedState) bool {
	return !slices.Equal(next.Faults, s.Faults) || len(next.Faults) > 0 && s.EnergyJoules == 0 && next.EnergyJoules > 0 || next.ECCErrors != s.ECCErrors
}

// DeviceState contains the known health of one device. It is a value: ApplyObservation returns a new
// one.
type DeviceState struct {
	// The condition that is reported. since is when health last changed; a new
	// reason alone does not change it.
	health gpu.Health
	reason string
	since  time.Time

	// The evidence: what is wrong now, whatever was before.

	// latched are the faults that keep the device failed until a reset. An
	// event adds one; a lower energy counter or the operator removes all.
	latched []LatchedFault
	// errorSince is when samples began to fail; zero while they succeed.
	// lastErr is the last error, and lost is set if it says that the device
	// has left the bus. A successful sample resets all three.
	errorSince time.Time
	lastErr    string
	lost       bool
	// throttledSince is when the hardware began to throttle itself; zero while
	// it does not. throttleReasons are its reasons in the last sample.
	throttledSince  time.Time
	throttleReasons string
	// driverFault is the fault that the driver reported in the last sample, such as a recovery action; ""
	// for none.
	driverFault string
	// rowsPending is set while the last sample reports memory rows that a reset
	// would remap.
	rowsPending bool

	// The past, which delays the way back to healthy.

	// failedAt and suspectAt are when the device was last assessed as failed
	// and as suspect; zero if never.
	failedAt, suspectAt time.Time
	// uncleanAt is when anything except pending rows was last wrong.
	uncleanAt time.Time
	// consecutiveFailures counts failures, each within FailureWindow of the one
	// before. It doubles the time that the device must be without faults.
	consecutiveFailures int
	// lastFailure is the reason of the last failure; empty before the first.
	lastFailure string

	// Counters of the last sample, to detect changes in the next one.

	// energyJoules is the energy counter; 0 while it is not known.
	energyJoules float64
	// eccErrors is the number of uncorrected memory errors. It is valid once a
	// sample had it, which sets eccCounted.
	eccErrors  float64
	eccCounted bool
}

// New returns the state of a device that was just discovered. saved is the state from an
// earlier daemon.
func New(now time.Time, saved SavedState) DeviceState {
	s := DeviceState{
		health:       gpu.Healthy,
		since:        now,
		latched:      slices.Clone(saved.Faults),
		energyJoules: saved.EnergyJoules,
		eccErrors:    saved.ECCErrors,
		eccCounted:   saved.ECCErrors > 0,
	}
	if len(s.latched) > 0 {
		s = s.markFailed(now, s.latchedReason())
	}
	return s
}

// Condition returns the device's condition.
func (s DeviceState) Condition() gpu.DeviceCondition {
	return gpu.DeviceCondition{Health: s.health, Reason: s.reason, Since: s.since}
}

// SavedState returns what to pass to New after a restart.
func (s DeviceState) SavedState() SavedState {
	return SavedState{Faults: slices.Clone(s.latched), EnergyJoules: s.energyJoules, ECCErrors: s.eccErrors}
}

// ApplyObservation returns the state after an observation, and whether the condition changed.
// The policy must have its defaults filled in.
func (p FaultPolicy) ApplyObservation(now time.Time, s DeviceState, o Observation) (DeviceState, bool) {
	before := s.Condition()
	s.latched = slices.Clone(s.latched)
	momentary := p.recordObservation(now, &s, o)
	v := assessState(now, s, momentary)
	s = p.applyHysteresis(now, s, v, o.Sample != nil)
	return s, s.Condition() != before
}

// assessment is the health that the current evidence implies, without the past.
type assessment struct {
	health gpu.Health // Healthy, Suspect or Failed
	reason string
}

// recordObservation adds an observation to the evidence. It returns a fault that ends as soon
// as it is observed, if there is one.
func (p FaultPolicy) recordObservation(now time.Time, s *DeviceState, o Observation) assessment {
	switch {
	case o.ClearedByOperator:
		s.latched, s.consecutiveFailures = nil, 0
	case o.Event != nil:
		return p.recordEvent(now, s, *o.Event)
	case o.Err != nil:
		s.recordReadError(now, o.Err)
	case o.Sample != nil:
		return p.recordSample(now, s, *o.Sample)
	}
	return assessment{}
}

// recordReadError records that the device cannot be read until its next sample.
func (s *DeviceState) recordReadError(now time.Time, err error) {
	if s.errorSince.IsZero() {
		s.errorSince = now
	}
	s.lastErr, s.lost = err.Error(), errors.Is(err, ErrLost)
}

func (p FaultPolicy) recordEvent(now time.Time, s *DeviceState, e DeviceEvent) assessment {
	if e.Lost {
		s.recordReadError(now, fmt.Errorf("%w: it has left the PCI bus", ErrLost))
	}
	if e.XID == 0 && !e.ECC || e.XID != 0 && p.ignoresXID(e.XID) {
		return assessment{}
	}
	f := LatchedFault{XID: e.XID, At: now}
	if e.XID != 0 && LookUpXID(e.XID).Effect == Passes {
		return assessment{gpu.Failed, f.String()}
	}
	if len(s.latched) < maxLatched && !slices.ContainsFunc(s.latched, func(l LatchedFault) bool { return l.XID == f.XID }) {
		s.latched = append(s.latched, f)
	}
	return assessment{}
}

// recordSample records the counters. The energy counter restarts when the driver is loaded or
// the device is reset, so a lower value means that one of them has happened.
func (p FaultPolicy) recordSample(now time.Time, s *DeviceState, sample gpu.Sample) assessment {
	s.errorSince, s.lastErr, s.lost = time.Time{}, "", false
	if energy, ok := sample.Values[gpu.EnergyJoules]; ok {
		if energy < s.energyJoules {
			s.latched = nil
		}
		s.energyJoules = energy
	}
	if action, reported := sample.Values[gpu.RecoveryAction]; reported && action == 0 {
		s.latched = slices.DeleteFunc(s.latched, func(f LatchedFault) bool { return LookUpXID(f.XID).Effect == DriverDecides && sample.At.After(f.At) })
	}
	s.driverFault = p.driverFault(sample)
	s.rowsPending = sample.Values[gpu.RowsPending] > 0
	s.throttleReasons = hardwareThrottles(uint64(max(sample.Values[gpu.ThrottleReasons], 0)))
	switch {
	case s.throttleReasons == "":
		s.throttledSince = time.Time{}
	case s.throttledSince.IsZero():
		s.throttledSince = now
	}
	return s.recordECC(sample)
}

// recordECC records the counter of uncorrected memory errors, which restarts when the driver is loaded.
func (s *DeviceState) recordECC(sample gpu.Sample) assessment {
	ecc, counted := sample.Values[gpu.ECCUncorrected]
	if !counted {
		return assessment{}
	}
	before, known := s.eccErrors, s.eccCounted
	s.eccErrors, s.eccCounted = ecc, true
	switch {
	case known && ecc > before:
		return assessment{gpu.Failed, fmt.Sprintf("%.0f uncorrected ECC errors, %.0f before", ecc, before)}
	case !known && ecc > 0:
		return assessment{gpu.Suspect, fmt.Sprintf("%.0f uncorrected ECC errors before the first sample", ecc)}
	}
	return assessment{}
}

func assessState(now time.Time, s DeviceState, momentary assessment) assessment {
	failing := now.Sub(s.errorSince)
	heat := now.Sub(s.throttledSince)
	isHot := !s.throttledSince.IsZero()
	switch {
	case len(s.latched) > 0:
		return assessment{gpu.Failed, s.latchedReason()}
	case momentary.health == gpu.Failed:
		return momentary
	case s.lost:
		return assessment{gpu.Failed, s.lastErr}
	case s.driverFault != "":
		return assessment{gpu.Failed, s.driverFault}
	case !s.errorSince.IsZero() && failing >= sampleGrace:
		return assessment{gpu.Failed, "no sample since " + formatTime(s.errorSince) + ": " + s.lastErr}
	case isHot && heat >= throttleFailed:
		return assessment{gpu.Failed, "hardware throttles itself since " + formatTime(s.throttledSince) + ": " + s.throttleReasons}
	case !s.errorSince.IsZero():
		return assessment{gpu.Suspect, "no sample since " + formatTime(s.errorSince) + ": " + s.lastErr}
	case isHot && heat >= throttleSuspect:
		return assessment{gpu.Suspect, "hardware throttles itself since " + formatTime(s.throttledSince) + ": " + s.throttleReasons}
	case momentary.health != "":
		return momentary
	case s.rowsPending:
		return assessment{gpu.Suspect, "memory rows need a reset to be remapped"}
	}
	return assessment{health: gpu.Healthy}
}

func (s DeviceState) latchedReason() string {
	texts := make([]string, len(s.latched))
	for i, f := range s.latched {
		texts[i] = f.String()
	}
	return strings.Join(texts, "; ") + "; needs a reset"
}

// applyHysteresis returns the state after an assessment. Only a sample improves the health.
func (p FaultPolicy) applyHysteresis(now time.Time, s DeviceState, v assessment, sampled bool) DeviceState {
	switch v.health {
	case gpu.Failed:
		if s.health != gpu.Failed && now.Sub(s.failedAt) > failureWindow {
			s.consecutiveFailures = 0
		}
		return s.markFailed(now, v.reason)
	case gpu.Suspect:
		s.suspectAt = now
	}
	if !s.errorSince.IsZero() || !s.throttledSince.IsZero() {
		s.uncleanAt = now
	}
	switch {
	case !sampled && v.health == gpu.Healthy:
		// An ignored event or an operator's declaration: the next sample decides.
	case s.health == gpu.Failed:
		if sampled {
			s = s.withHealth(now, gpu.Recovering, fmt.Sprintf("available to tasks after %s without faults; last fault: %s", p.quietTime(s), s.lastFailure))
		}
	case s.health == gpu.Recovering && (!sampled || now.Sub(s.uncleanAt) < p.quietTime(s) || now.Sub(s.since) < p.quietTime(s)):
	case v.health == gpu.Suspect:
		s = s.withHealth(now, gpu.Suspect, v.reason)
	case s.health != gpu.Healthy && now.Sub(s.suspectAt) < suspectQuiet:
	case s.health == gpu.Suspect && now.Sub(s.uncleanAt) < suspectQuiet:
	default:
		s = s.withHealth(now, gpu.Healthy, "")
	}
	return s
}

// quietTime returns how long the device must be clean after its consecutive failures.
func (p FaultPolicy) quietTime(s DeviceState) time.Duration {
	return backoff.Delay(p.FailedQuiet, failureWindow, s.consecutiveFailures-1)
}

func (s DeviceState) markFailed(now time.Time, reason string) DeviceState {
	if s.health != gpu.Failed {
		s.consecutiveFailures++
	}
	s.failedAt, s.uncleanAt, s.lastFailure = now, now, reason
	return s.withHealth(now, gpu.Failed, reason)
}

func (s DeviceState) withHealth(now time.Time, h gpu.Health, reason string) DeviceState {
	if s.health != h {
		s.since = now
	}
	s.health, s.reason = h, reason
	return s
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
