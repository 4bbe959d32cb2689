package gpu

import (
	"fmt"
	"slices"
	"strings"
)

// Request contains one task's requirements for the GPUs of its agent.
type Request struct {
	// GPUs counts devices. They are whole devices unless Share is set.
	GPUs  int          `json:"gpus"`
	Share ShareRequest `json:"share,omitzero"`
	// Types selects the acceptable GPU types.
	Types TypeSelector `json:"types,omitzero"`
	// Devices selects the acceptable devices by UUID.
	Devices DeviceSelector `json:"devices,omitzero"`
	// MinMemMiB is the minimum memory of each device.
	MinMemMiB int64 `json:"min_mem_mib,omitempty"`
	// MinDriver and MinCUDA are the oldest acceptable versions of the driver
	// ("535.104") and of the CUDA runtime that it supports ("12.2").
	MinDriver string `json:"min_driver,omitempty"`
	MinCUDA   string `json:"min_cuda,omitempty"`
	// Topology is how the devices of one task must be connected.
	Topology Topology `json:"topology,omitempty"`
	// MIG is which MIG devices are acceptable, for requests that lack what MIGUse derives it from.
	MIG MIGUse `json:"-"`
}

// MIGUse is whether a task may get MIG devices.
type MIGUse int

const (
	// NoMIG accepts no MIG devices, and only whole GPUs.
	NoMIG MIGUse = iota + 1
	// OnlyMIG accepts only MIG devices.
	OnlyMIG
	// AnyMIG accepts both, for a task with one device or with shares.
	AnyMIG
)

// MIGUse returns which MIG devices are acceptable. They are for requests that name them, by type, profile, constraint or
// UUID, and for shares. A task for several devices never gets both.
func (r *Request) MIGUse() MIGUse {
	switch {
	case r.MIG != 0:
		return r.MIG
	case !r.Share.IsWhole():
		return AnyMIG
	case !r.namesMIG():
		return NoMIG
	case r.GPUs > 1:
		return OnlyMIG
	default:
		return AnyMIG
	}
}

func (r *Request) namesMIG() bool {
	for i := range r.Types.Rules {
		if r.Types.Rules[i].namesMIG() {
			return true
		}
	}
	return slices.ContainsFunc(r.Types.Include, NamesMIG) || slices.ContainsFunc(r.Devices.Include, IsMIGUUID)
}

// IsMIGUUID reports whether a UUID is that of a MIG device.
func IsMIGUUID(uuid string) bool { return strings.HasPrefix(uuid, "MIG-") }

// AcceptsProduct reports whether the request accepts devices of a product.
func (r *Request) AcceptsProduct(p Product) bool {
	switch use := r.MIGUse(); {
	case use == NoMIG && p.IsMIG(), use == OnlyMIG && !p.IsMIG(), p.IsDisplayCard() && !r.Types.namesDisplayCard():
		return false
	default:
		return r.Types.Match(p)
	}
}

// MayUse reports whether the request may accept a GPU that a name includes: that of a type, such as one in a quota, or of a
// product.
func (r *Request) MayUse(name string) bool {
	return !(r.MIGUse() == NoMIG && NamesMIG(name)) && r.Types.MayMatch(name)
}

// DeviceSelector selects devices by UUID. A device matches if Include is empty or
// contains it, and Exclude does not contain it.
type DeviceSelector struct {
	Include []string `json:"include,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
}

// AcceptsAny reports whether every device matches.
func (d DeviceSelector) AcceptsAny() bool { return len(d.Include) == 0 && len(d.Exclude) == 0 }

// Match reports whether the device with that UUID matches.
func (d DeviceSelector) Match(uuid string) bool {
	return !slices.Contains(d.Exclude, uuid) && (len(d.Include) == 0 || slices.Contains(d.Include, uuid))
}

// Topology is a requirement on the connections between the devices of one task.
type Topology string

const (
	// AnyTopology accepts all devices. Devices close to each other are preferred.
	AnyTopology Topology = "any"
	// NVLink requires that each device reaches every other one over NVLinks
	// between devices of the task.
	NVLink Topology = "nvlink"
	// SameNUMA requires devices of one NUMA node.
	SameNUMA Topology = "same-numa"
)

// AllTopologies lists the values that a Request may have.
func AllTopologies() []Topology { return []Topology{AnyTopology, NVLink, SameNUMA} }

// NeedsSameType reports whether all devices of all tasks must be of one type.
func (r Request) NeedsSameType() bool { return r.Types.Same && r.GPUs > 0 }

// String returns, for example, "2 GPUs of V100 or A100", "1 GPU" or "no GPU", and
// for shares of devices "2 x (4096 MiB, 30 %) of V100".
func (r Request) String() string {
	if r.GPUs == 0 {
		return "no GPU"
	}
	devices := TypeSelector{Exclude: r.Types.Exclude}.NounPhrase(r.GPUs)
	s := fmt.Sprintf("%d %s", r.GPUs, Plural(r.GPUs, "GPU"))
	if !r.Share.IsWhole() {
		s = fmt.Sprintf("%d x (%s)", r.GPUs, r.Share.shortString())
	}
	switch {
	case r.Types.AcceptsAny() && r.Types.Same:
		return s + " of the same type"
	case r.Types.AcceptsAny():
		return s
	case len(r.Types.Include) > 0:
		return s + " of " + r.Types.String()
	case r.Share.IsWhole():
		return fmt.Sprintf("%d %s", r.GPUs, devices)
	default:
		return s + " of " + devices
	}
}

// Plural returns the word with an s unless n is 1.
func Plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
