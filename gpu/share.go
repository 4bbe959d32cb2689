package gpu

import (
	"errors"
	"fmt"
	"strings"
)

// ShareRequest is the part of each device that a task is content with. The zero
// Share asks for whole devices.
type ShareRequest struct {
	// MemMiB is device memory in MiB; MemPercent the same as a part of the
	// device's own, 1 to 100, rounded down to MiB. One of them at most is set;
	// with neither, memory follows Cores: as many percent.
	MemMiB     int64 `json:"mem_mib,omitempty"`
	MemPercent int   `json:"mem_percent,omitempty"`
	// Cores is the percentage of the device's compute, 1 to 100. 0 claims
	// none, and gets what others leave. 100 is a shared device to oneself.
	Cores int `json:"cores,omitempty"`
}

// AllCores is a device's compute in percent.
const AllCores = 100

// IsWhole reports whether whole devices are asked for.
func (s ShareRequest) IsWhole() bool { return s == ShareRequest{} }

// IsExclusive reports whether nobody else may be on the device.
func (s ShareRequest) IsExclusive() bool { return s.Cores == AllCores }

// MemOf is what the share takes of a device with so much memory, in MiB.
func (s ShareRequest) MemOf(deviceMiB int64) int64 {
	switch {
	case s.IsExclusive():
		return deviceMiB
	case s.MemMiB > 0:
		return s.MemMiB
	case s.MemPercent > 0:
		return deviceMiB * int64(s.MemPercent) / 100
	default:
		return deviceMiB * int64(s.Cores) / AllCores
	}
}

// Validate says what cannot be meant.
func (s ShareRequest) Validate() error {
	switch {
	case s.MemMiB < 0:
		return fmt.Errorf("memory of a share is %d MiB: give 1 or more", s.MemMiB)
	case s.MemPercent < 0 || s.MemPercent > 100:
		return fmt.Errorf("memory of a share is %d %%: give 1 to 100", s.MemPercent)
	case s.Cores < 0 || s.Cores > AllCores:
		return fmt.Errorf("cores of a share are %d %%: give 1 to %d, or leave them out", s.Cores, AllCores)
	case s.MemMiB > 0 && s.MemPercent > 0:
		return errors.New("memory of a share is given in MiB and in percent: give one")
	}
	return nil
}

// String reads "4096 MiB and 30 % cores".
func (s ShareRequest) String() string {
	var parts []string
	switch {
	case s.MemMiB > 0:
		parts = append(parts, fmt.Sprintf("%d MiB", s.MemMiB))
	case s.MemPercent > 0:
		parts = append(parts, fmt.Sprintf("%d %% memory", s.MemPercent))
	}
	if s.Cores > 0 {
		parts = append(parts, fmt.Sprintf("%d %% cores", s.Cores))
	}
	return strings.Join(parts, " and ")
}

// shortString reads "4096 MiB, 30 %"; "100 %" is a device to oneself.
func (s ShareRequest) shortString() string {
	switch {
	case s.IsExclusive():
		return "100 %"
	case s.MemMiB > 0 && s.Cores > 0:
		return fmt.Sprintf("%d MiB, %d %%", s.MemMiB, s.Cores)
	case s.MemMiB > 0:
		return fmt.Sprintf("%d MiB", s.MemMiB)
	case s.MemPercent > 0 && s.Cores > 0:
		return fmt.Sprintf("%d %% memory, %d %%", s.MemPercent, s.Cores)
	case s.MemPercent > 0:
		return fmt.Sprintf("%d %% memory", s.MemPercent)
	default:
		return fmt.Sprintf("%d %%", s.Cores)
	}
}

// DeviceShare is what one task holds of one shared device.
type DeviceShare struct {
	UUID string `json:"uuid"`
	// Type is the device's, "" where nobody told.
	Type   string `json:"type,omitempty"`
	MemMiB int64  `json:"mem_mib"`
	Cores  int    `json:"cores,omitempty"`
	// MilliDevices is what it counts for, in thousandths of a device: the larger of
	// its parts of memory and of cores.
	MilliDevices int `json:"milli,omitempty"`
	// LimitedBy is what holds the task to it, "" where nobody told.
	LimitedBy EnforcementMethod `json:"limit,omitempty"`
}

// String reads "GPU-5e7f… (4096 MiB, 30 %, by mps)".
func (p DeviceShare) String() string {
	s := ShareRequest{MemMiB: p.MemMiB, Cores: p.Cores}
	size := s.shortString()
	if s.IsExclusive() {
		size = fmt.Sprintf("%d MiB, %d %%", p.MemMiB, p.Cores)
	}
	if p.LimitedBy != "" {
		size += ", by " + string(p.LimitedBy)
	}
	return fmt.Sprintf("%s (%s)", p.UUID, size)
}

// A shared device is two scalar resources of Mesos, named by its UUID:
// gpu_mem.GPU-… in MiB, and gpu_cores.GPU-… in percent.
const (
	memPrefix   = "gpu_mem."
	coresPrefix = "gpu_cores."
)

// MemResource and CoresResource name the two.
func MemResource(uuid string) string   { return memPrefix + uuid }
func CoresResource(uuid string) string { return coresPrefix + uuid }

// ShareResource tells which shared device a resource is of, and whether it is
// its cores or its memory. ok is false for all other resources.
func ShareResource(name string) (uuid string, cores, ok bool) {
	if uuid, ok = strings.CutPrefix(name, memPrefix); ok {
		return uuid, false, uuid != ""
	}
	uuid, ok = strings.CutPrefix(name, coresPrefix)
	return uuid, true, ok && uuid != ""
}

// EnforcementMethod is how an agent holds tasks to their shares.
type EnforcementMethod string

const (
	// EnforcedByMIG: a share is rounded up to a MIG instance.
	EnforcedByMIG EnforcementMethod = "mig"
	// EnforcedByDriver: the driver in the kernel limits memory by cgroup.
	EnforcedByDriver EnforcementMethod = "driver"
	// EnforcedByMPS: NVIDIA's Multi-Process Service, one daemon a device, gives
	// each client a limit of pinned memory and a percentage of the threads.
	EnforcedByMPS EnforcementMethod = "mps"
	// EnforcedByPreload: a library of this project, which each process of the
	// container loads, counts and refuses.
	EnforcedByPreload EnforcementMethod = "preload"
	// NotEnforced: there are books alone; a task can take more than its share.
	NotEnforced EnforcementMethod = "none"
)

// EnforcementMethods lists them, the strongest first.
func EnforcementMethods() []EnforcementMethod {
	return []EnforcementMethod{EnforcedByMIG, EnforcedByDriver, EnforcedByMPS, EnforcedByPreload, NotEnforced}
}
