// Package health derives the condition of one GPU from observations. It knows what NVIDIA's
// XIDs mean, how long a fault must last before it counts, and how long a device must be clean
// before tasks get it again. It is pure: it takes no samples and reads no clock.
package health

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"mesos-gpu/gpu"
)

// ErrLost is wrapped by a sampler's error if the device has fallen off the bus, or is lost to
// the driver for another reason.
var ErrLost = errors.New("the device is lost to the driver")

// DeviceEvent is an unsolicited report of the driver about a device.
type DeviceEvent struct {
	// Device is a UUID. It is empty if the driver does not report which device; the event then
	// applies to all devices.
	Device string
	// XID is NVIDIA's error number, 0 for none.
	XID uint64
	// ECC is set for an uncorrected memory error reported without an XID.
	ECC bool
	// Lost is set if the device is no longer on the PCI bus.
	Lost bool
	At   time.Time
}

// Observation is one observation of a device. Exactly one field is set.
type Observation struct {
	// Sample was taken without an error.
	Sample *gpu.Sample
	// Err is the reason why there is no sample. An error that wraps ErrLost fails the device at
	// once.
	Err   error
	Event *DeviceEvent
	// ClearedByOperator is set if an operator declares the device healthy. It clears faults
	// that otherwise only a reset clears.
	ClearedByOperator bool
}

// FaultPolicy defines what counts as a fault, and for how long. The zero value of each field
// means its default; a negative ThrottleSuspect or ThrottleFailed disables that check.
type FaultPolicy struct {
	// Ignored are the XIDs that say nothing about the device; nil means NVIDIA's list,
	// DefaultIgnoredXIDs.
	Ignored []uint64
	// SampleGrace is how long samples may fail before the device is failed, by default 15 s.
	SampleGrace time.Duration
	// ThrottleSuspect and ThrottleFailed are how long the hardware may throttle itself before
	// the device is suspect, by default 30 s, and failed, by default 5 min.
	ThrottleSuspect, ThrottleFailed time.Duration
	// SuspectQuiet is how long a suspect device must be clean to be healthy, by default 30 s.
	SuspectQuiet time.Duration
	// FailedQuiet is how long a failed device must be clean to be healthy, by default 2 min. It
	// doubles with each failure within FailureWindow of the last one, up to FailureWindow, by
	// default 1 h.
	FailedQuiet, FailureWindow time.Duration
}

// WithDefaults replaces zero fields by their defaults. The error names an invalid value.
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
