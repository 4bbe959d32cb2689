// Package nvml discovers a host's GPUs and samples them. It is the only package that loads
// NVIDIA's management library. It loads it at run time, so one binary serves hosts with and
// without a driver. It makes no decisions about containers or health, and changes no setting of
// a device except, on request, the instances of a GPU in MIG mode (Library.CreateInstance).
package nvml

import (
	"errors"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/layout"
)

// ErrNoDriver is returned if libnvidia-ml.so.1 cannot be loaded, or reports that there is no
// driver. The error that wraps it gives the reason on one line.
var ErrNoDriver = errors.New("no NVIDIA driver")

// ErrLost is returned for a GPU that has fallen off the bus, or does not respond until it is
// reset.
var ErrLost = errors.New("GPU is lost")

// ErrNoAnswer is returned if the driver does not return from a call in time: from a call for
// all GPUs while the library is opened, from a call for one GPU later. The GPU may respond
// again, as after an XID 119.
var ErrNoAnswer = errors.New("GPU does not answer")

// LibraryConfig configures the library. The zero value is for production.
type LibraryConfig struct {
	// Library is the file to load. Empty means "libnvidia-ml.so.1" on the loader's path.
	Library string
	// SysRoot and ProcRoot are the paths of sysfs and procfs; empty means /sys and /proc.
	SysRoot, ProcRoot string
	// Known are devices of this machine as they were described before. One that the driver cannot
	// describe now is reported as lost with that description.
	Known []gpu.Device
	// startTimeout bounds how long Open and DiscoverHost wait for the driver, which initializes
	// each unused GPU; 0 means 2 minutes. sampleTimeout bounds how long Library.SampleDevice
	// waits for a GPU; 0 means 900 ms.
	startTimeout, sampleTimeout time.Duration
	// retryPause is the pause before a lost GPU is tried again; 0 means 10 s. It doubles with
	// each failed attempt, up to 5 minutes.
	retryPause time.Duration
	// Log receives messages about devices that are left out.
	Log logrus.FieldLogger
}

func (c LibraryConfig) withDefaults() LibraryConfig {
	if c.Library == "" {
		c.Library = "libnvidia-ml.so.1"
	}
	if c.SysRoot == "" {
		c.SysRoot = "/sys"
	}
	if c.ProcRoot == "" {
		c.ProcRoot = "/proc"
	}
	if c.startTimeout == 0 {
		c.startTimeout = 2 * time.Minute
	}
	if c.sampleTimeout == 0 {
		c.sampleTimeout = 900 * time.Millisecond
	}
	if c.retryPause == 0 {
		c.retryPause = 10 * time.Second
	}
	if c.Log == nil {
		log := logrus.New()
		log.SetLevel(logrus.PanicLevel)
		c.Log = log
	}
	return c
}

// DeviceEvent is an event of a device.
type DeviceEvent struct {
	// Device is its UUID. It is empty if NVML does not report which device. An event of a whole
	// GPU in MIG mode is reported as one event for each of its MIG devices.
	Device string
	// XID is the number of a critical error (docs.nvidia.com/deploy/xid-errors), 0 for other
	// events.
	XID uint64
	// ECC is set for a memory error. Corrected is set if the device corrected it.
	ECC, Corrected bool
	// Lost is set if the GPU is no longer on the PCI bus.
	Lost bool
	At   time.Time
}

// MIGGPU is a GPU in MIG mode: the instances that it can have, and those that it has, whichever
// program created them.
type MIGGPU struct {
	Device    gpu.Device               `json:"device"`
	Profiles  []layout.InstanceProfile `json:"profiles"`
	Instances []layout.GPUInstance     `json:"instances"`
}
