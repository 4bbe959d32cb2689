// Package health judges one GPU: observations in, its condition out. It knows
// what NVIDIA's XIDs mean, how long a fault has to last before it counts and
// how long a device has to behave before it is trusted again. It is pure: it
// samples nothing, keeps no clock and tells nobody.
package health

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"mesos-gpu/gpu"
)

// ErrLost is what a sampler's error wraps where the device has fallen off the
// bus or is lost to the driver otherwise.
var ErrLost = errors.New("the device is lost to the driver")

// DeviceEvent is what the driver reports of a device by itself, at once.
type DeviceEvent struct {
	// Device is a UUID, empty where the driver does not say which device.
	Device string
	// XID is NVIDIA's error number, 0 for none.
	XID uint64
	// ECC tells of an uncorrected memory error reported without an XID.
	ECC bool
	// Lost tells that the device has left the PCI bus.
	Lost bool
	At   time.Time
}

// Observation is one thing seen of a device. Exactly one field is set.
type Observation struct {
	// Sample was taken without an error.
	Sample *gpu.Sample
	// Err is why there is no sample; one that wraps ErrLost fails the device
	// at once.
	Err   error
	Event *DeviceEvent
	// ClearedByOperator means that an operator says the device is well: what only a
	// reset clears is forgotten.
	ClearedByOperator bool
}

// FaultPolicy says what counts as a fault and for how long. The zero value of each
// field means its default; a negative time switches that judgement off.
type FaultPolicy struct {
	// Ignored are the XIDs that say nothing about the device; nil means
	// NVIDIA's list, DefaultIgnoredXIDs.
	Ignored []uint64
	// SampleGrace is how long samples may fail before the device has, 15 s.
	SampleGrace time.Duration
	// ThrottleSuspect and ThrottleFailed are how long the hardware may slow itself down
	// before the device is suspect, 30 s, and failed, 5 min.
	ThrottleSuspect, ThrottleFailed time.Duration
	// SuspectQuiet is how long a suspect device has to be clean, 30 s.
	SuspectQuiet time.Duration
	// FailedQuiet is how long a failed device has to be clean, 2 min. It doubles
	// with each failure that follows another within Memory, 1 h, up to that.
	FailedQuiet, FailureWindow time.Duration
}

// WithDefaults fills in what is zero. The error names a value that cannot be
// meant.
func (p FaultPolicy) WithDefaults() (FaultPolicy, error) {
	if p.Ignored == nil {
		p.Ignored = DefaultIgnoredXIDs()
	}
	for _, d := range []struct {
		value    *time.Duration
		fallback time.Duration
	}{
		{&p.SampleGrace, 15 * time.Second}, {&p.ThrottleSuspect, 30 * time.Second}, {&p.ThrottleFailed, 5 * time.Minute},
		{&p.SuspectQuiet, 30 * time.Second}, {&p.FailedQuiet, 2 * time.Minute}, {&p.FailureWindow, time.Hour},
	} {
		if *d.value == 0 {
			*d.value = d.fallback
		}
	}
	if p.SampleGrace < 0 || p.SuspectQuiet < 0 || p.FailedQuiet < 0 || p.FailureWindow < p.FailedQuiet {
		return p, fmt.Errorf("health policy: grace %s, suspect quiet %s and quiet %s must not be negative, nor memory %s shorter than quiet",
			p.SampleGrace, p.SuspectQuiet, p.FailedQuiet, p.FailureWindow)
	}
	return p, nil
}

func (p FaultPolicy) ignoresXID(xid uint64) bool { return slices.Contains(p.Ignored, xid) }
