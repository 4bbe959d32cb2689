package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ShareRequest is the part of each device that a task requires. The zero value
// requires whole devices.
type ShareRequest struct {
	// MemMiB is device memory in MiB. MemPercent is a percentage of the
	// device's memory, 1 to 100, rounded down to a MiB. At most one of them is
	// set. If neither is set, the memory percentage equals Cores.
	MemMiB     int64 `json:"mem_mib,omitempty"`
	MemPercent int   `json:"mem_percent,omitempty"`
	// Cores is a percentage of the device's compute, 1 to 100. With 0 the task
	// reserves no compute and gets what other tasks leave. With 100 no other
	// task uses the device.
	Cores int `json:"cores,omitempty"`
}

// AllCores is the whole compute of a device, in percent.
const AllCores = 100

// IsWhole reports whether whole devices are required.
func (s ShareRequest) IsWhole() bool { return s == ShareRequest{} }

// IsExclusive reports whether no other task may use the device.
func (s ShareRequest) IsExclusive() bool { return s.Cores == AllCores }

// MemOf returns the memory that the share takes of a device with deviceMiB, in MiB.
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

// Validate returns an error for values out of range and for contradictions.
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

// String returns, for example, "4096 MiB and 30 % cores".
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

// shortString returns, for example, "4096 MiB, 30 %", or "100 %" for an exclusive
// share.
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

// DeviceShare is the part of one shared device that a task has.
type DeviceShare struct {
	UUID string `json:"uuid"`
	// Type is the device's short GPU type, or "" if it is not known. Product is the name of the product, if more is known.
	Type    string `json:"type,omitempty"`
	Product string `json:"product,omitempty"`
	MemMiB  int64  `json:"mem_mib"`
	Cores   int    `json:"cores,omitempty"`
	// MilliDevices is the amount by which the share counts in quotas, in
	// thousandths of a device: the larger of its fractions of memory and of compute.
	MilliDevices int `json:"milli,omitempty"`
	// LimitedBy is how the agent enforces the share, or "" if that is not known.
	LimitedBy EnforcementMethod `json:"limit,omitempty"`
}

// ProductName returns the name of the device's product, or its type if no more is known.
func (d *DeviceShare) ProductName() string { return cmp.Or(d.Product, d.Type) }

// String returns, for example, "GPU-5e7f… (4096 MiB, 30 %, by mps)".
func (d DeviceShare) String() string {
	s := ShareRequest{MemMiB: d.MemMiB, Cores: d.Cores}
	size := s.shortString()
	if s.IsExclusive() {
		size = fmt.Sprintf("%d MiB, %d %%", d.MemMiB, d.Cores)
	}
	if d.LimitedBy != "" {
		size += ", by " + string(d.LimitedBy)
	}
	return fmt.Sprintf("%s (%s)", d.UUID, size)
}

// ExcludeShared returns how many of a task's n devices are not shared, and their UUIDs if they are known. ids are the UUIDs
// of all n devices; shares are the task's shares, one for each shared device.
func ExcludeShared(n int, ids []string, shares []DeviceShare) (unshared int, unsharedIDs []string) {
	if len(shares) == 0 {
		return n, ids
	}
	for _, id := range ids {
		if !slices.ContainsFunc(shares, func(s DeviceShare) bool { return s.UUID == id }) {
			unsharedIDs = append(unsharedIDs, id)
		}
	}
	return max(n-len(shares), 0), unsharedIDs
}

// A shared device is two scalar resources of Mesos, named by its UUID:
// gpu_mem.GPU-… in MiB, and gpu_cores.GPU-… in percent.
const (
	memPrefix   = "gpu_mem."
	coresPrefix = "gpu_cores."
)

// MemResource and CoresResource return the names of a device's two resources.
func MemResource(uuid string) string   { return memPrefix + uuid }
func CoresResource(uuid string) string { return coresPrefix + uuid }

// ShareResource returns the UUID of the shared device that a resource belongs to,
// and whether the resource is its cores rather than its memory. For any other
// resource ok is false.
func ShareResource(name string) (uuid string, cores, ok bool) {
	if uuid, ok = strings.CutPrefix(name, memPrefix); ok {
		return uuid, false, uuid != ""
	}
	uuid, ok = strings.CutPrefix(name, coresPrefix)
	return uuid, true, ok && uuid != ""
}

// EnforcementMethod is how an agent limits tasks to their shares.
type EnforcementMethod string

const (
	// EnforcedByMIG rounds a share up to a MIG instance.
	EnforcedByMIG EnforcementMethod = "mig"
	// EnforcedByMPS uses NVIDIA's Multi-Process Service. One daemon per device
	// limits each client's device memory and its percentage of threads.
	EnforcedByMPS EnforcementMethod = "mps"
	// EnforcedByPreload loads a library of this project into each process of
	// the container, which counts allocations and rejects those above the share.
	EnforcedByPreload EnforcementMethod = "preload"
	// NotEnforced only accounts for shares. A task may use more than its share.
	NotEnforced EnforcementMethod = "none"
)

// EnforcementMethods lists all methods, the strongest first.
func EnforcementMethods() []EnforcementMethod {
	return []EnforcementMethod{EnforcedByMIG, EnforcedByMPS, EnforcedByPreload, NotEnforced}
}
