// Package health derives the condition of one GPU from observations. It knows what NVIDIA's
// XIDs mean, how long a fault must last before it counts, and how long a device must be clean
// before tasks get it again. It is pure: it takes no samples and reads no clock.
package health

import (
	"errors"
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

const (
	// sampleGrace is how long samples may fail before the device is failed.
	sampleGrace = 15 * time.Second
	// throttleSuspect and throttleFailed are how long the hardware may throttle itself before the device is suspect, and
	// failed.
	throttleSuspect, throttleFailed = 30 * time.Second, 5 * time.Minute
	// suspectQuiet is how long a suspect device must be clean to be healthy.
	suspectQuiet = 30 * time.Second
	// failureWindow is the time after a failure in which another one doubles the quiet time, and the longest quiet time.
	failureWindow = time.Hour
)

// FaultPolicy defines what counts as a fault, and for how long. The zero value of each field means its default.
type FaultPolicy struct {
	// Ignored are the XIDs that say nothing about the device; nil means NVIDIA's list,
	// DefaultIgnoredXIDs.
	Ignored []uint64
	// IgnoreFabric leaves the registration with the NVLink fabric out: on a machine without the fabric, such as a virtual
	// one with a part of the GPUs, CUDA may work though the driver reports it as in progress.
	IgnoreFabric bool
	// FailedQuiet is how long a failed device must be clean to be healthy, by default 2 min. It
	// doubles with each failure within an hour of the last one, up to an hour.
	FailedQuiet time.Duration
}

// WithDefaults replaces zero fields by their defaults.
func (p FaultPolicy) WithDefaults() FaultPolicy {
	if p.Ignored == nil {
		p.Ignored = DefaultIgnoredXIDs()
	}
	if p.FailedQuiet == 0 {
		p.FailedQuiet = 2 * time.Minute
	}
	return p
}

func (p FaultPolicy) ignoresXID(xid uint64) bool { return slices.Contains(p.Ignored, xid) }
