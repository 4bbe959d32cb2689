package gpu

import (
	"fmt"
	"slices"
)

// Request is what one task asks of the GPUs of one agent.
type Request struct {
	// GPUs counts devices, whole unless Share says what part of each.
	GPUs  int          `json:"gpus"`
	Share ShareRequest `json:"share,omitzero"`
	// Types says which devices will do.
	Types TypeSelector `json:"types,omitzero"`
	// Devices says which devices will do by their UUIDs.
	Devices DeviceSelector `json:"devices,omitzero"`
	// MinMemMiB is the least memory each device has.
	MinMemMiB int64 `json:"min_mem_mib,omitempty"`
	// MinDriver and MinCUDA are the oldest versions that will do of the
	// driver ("535.104") and of the CUDA runtime it serves ("12.2").
	MinDriver string `json:"min_driver,omitempty"`
	MinCUDA   string `json:"min_cuda,omitempty"`
	// Topology says how the devices of one task hang together.
	Topology Topology `json:"topology,omitempty"`
}

// DeviceSelector is a wish for devices by UUID. A device satisfies it when Include
// is empty or names it, and Exclude does not.
type DeviceSelector struct {
	Include []string `json:"include,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
}

// AcceptsAny reports whether every device satisfies the wish.
func (d DeviceSelector) AcceptsAny() bool { return len(d.Include) == 0 && len(d.Exclude) == 0 }

// Match reports whether the device of that UUID satisfies the wish.
func (d DeviceSelector) Match(uuid string) bool {
	return !slices.Contains(d.Exclude, uuid) && (len(d.Include) == 0 || slices.Contains(d.Include, uuid))
}

// Topology is a wish for how the devices of one task hang together.
type Topology string

const (
	// AnyTopology takes any devices; those close together are preferred.
	AnyTopology Topology = "any"
	// NVLink wants devices joined by NVLink: each can reach each over links
	// among them alone.
	NVLink Topology = "nvlink"
	// SameNUMA wants devices on one NUMA node.
	SameNUMA Topology = "same-numa"
)

// AllTopologies lists the wishes there are.
func AllTopologies() []Topology { return []Topology{AnyTopology, NVLink, SameNUMA} }

// String reads "2 GPUs of V100 or A100", "1 GPU", "no GPU"; for parts of
// devices "2 × (4096 MiB, 30 %) of V100".
func (r Request) String() string {
	if r.GPUs == 0 {
		return "no GPU"
	}
	devices := TypeSelector{Exclude: r.Types.Exclude}.NounPhrase(r.GPUs)
	s := fmt.Sprintf("%d %s", r.GPUs, Plural(r.GPUs, "GPU"))
	if !r.Share.IsWhole() {
		s = fmt.Sprintf("%d × (%s)", r.GPUs, r.Share.shortString())
	}
	switch {
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

// Plural gives the word its s where n asks for one.
func Plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}
