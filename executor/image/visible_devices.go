package image

import "strings"

// Values of NVIDIA_VISIBLE_DEVICES with a special meaning.
const (
	// AllDevices: every GPU.
	AllDevices = "all"
	// NoDevices: no GPU, but the driver's files.
	NoDevices = "none"
	// VoidDevices: neither.
	VoidDevices = "void"
)

// VisibleDevices is the value of NVIDIA_VISIBLE_DEVICES: one of the constants
// above, or device names: indexes, UUIDs ("GPU-…", "MIG-…"), positions of MIG
// devices ("0:1"), PCI addresses, CDI names. It has at least one element.
type VisibleDevices []string

// ParseDevices parses a comma-separated list. If it has special words, void
// has precedence over none, and none over all and any names. An empty list
// means void.
func ParseDevices(text string) VisibleDevices {
	var names VisibleDevices
	found := map[string]bool{}
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
			found[name] = true
		}
	}
	for _, word := range []string{VoidDevices, NoDevices, AllDevices} {
		if found[word] {
			return VisibleDevices{word}
		}
	}
	if len(names) == 0 {
		return VisibleDevices{VoidDevices}
	}
	return names
}

// NeedsDriver reports whether a container for these devices gets the driver's
// files.
func (d VisibleDevices) NeedsDriver() bool { return len(d) > 0 && d[0] != VoidDevices }

func (d VisibleDevices) String() string { return strings.Join(d, ",") }
