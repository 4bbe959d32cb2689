// Package nvml finds out what GPUs a machine has and how they fare. It is the
// only package that loads NVIDIA's management library, at run time, so that
// one binary serves machines with a driver and without. It decides nothing
// about containers or health and changes no setting of a device, but what
// cgroups may allocate of it (MemoryLimits) and, asked to, the instances of a
// GPU that is in MIG mode (Library.Create).
package nvml

import (
	"errors"
	"time"

	"github.com/sirupsen/logrus"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/layout"
)

// ErrNoDriver is returned where libnvidia-ml.so.1 cannot be loaded or says
// that no driver is. The error around it gives the reason on one line.
var ErrNoDriver = errors.New("no NVIDIA driver")

// ErrLost is returned for a GPU that fell off the bus, or that answers
// nothing until it is reset.
var ErrLost = errors.New("GPU is lost")

// ErrNoAnswer is returned where the driver is still busy with a call when the
// patience for it is over: with all GPUs when the library is opened, with one
// later on. It may come back, as after an XID 119.
var ErrNoAnswer = errors.New("GPU does not answer")

// LibraryConfig says where to look. The zero value serves production.
type LibraryConfig struct {
	// Library is the file to load; empty leaves the choice to the loader:
	// "libnvidia-ml.so.1" on its path.
	Library string
	// SysRoot and ProcRoot are where sysfs and procfs are; empty means /sys
	// and /proc.
	SysRoot, ProcRoot string
	// StartTimeout is how long Open and Discover wait for the driver, which
	// initialises each GPU that nobody uses; 0 means 2 minutes. Patience is
	// how long Library.Sample waits for a GPU; 0 means 900 ms.
	StartTimeout, SampleTimeout time.Duration
	// RetryPause is how soon a lost GPU is asked again; 0 means 10 s. It doubles
	// with each time in vain, up to 5 minutes.
	RetryPause time.Duration
	// Log hears of devices that had to be left out.
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
	if c.StartTimeout == 0 {
		c.StartTimeout = 2 * time.Minute
	}
	if c.SampleTimeout == 0 {
		c.SampleTimeout = 900 * time.Millisecond
	}
	if c.RetryPause == 0 {
		c.RetryPause = 10 * time.Second
	}
	if c.Log == nil {
		log := logrus.New()
		log.SetLevel(logrus.PanicLevel)
		c.Log = log
	}
	return c
}

// minLimitsDriver is the first driver that limits cgroups.
const minLimitsDriver = 615

// MemoryLimit is what the processes of a cgroup may have of a GPU's memory,
// and what they have.
type MemoryLimit struct{ LimitBytes, UsedBytes uint64 }

// DeviceEvent is something that befell a device.
type DeviceEvent struct {
	// Device is its UUID; empty where NVML does not say which. What befalls
	// a GPU in MIG mode and no one slice of it befalls each: an event each.
	Device string
	// XID is the number of a critical error
	// (docs.nvidia.com/deploy/xid-errors), 0 for other events.
	XID uint64
	// ECC tells of a memory error: that could not be corrected, unless
	// Corrected.
	ECC, Corrected bool
	// Lost tells that the GPU is no longer seen on the PCI bus.
	Lost bool
	At   time.Time
}

// MIGGPU is a GPU in MIG mode: the instances that it can be cut into, and
// those that it is cut into, whoever made them.
type MIGGPU struct {
	Device    gpu.Device               `json:"device"`
	Profiles  []layout.InstanceProfile `json:"profiles"`
	Instances []layout.GPUInstance     `json:"instances"`
}
