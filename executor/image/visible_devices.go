package image

import "strings"

// Values of NVIDIA_VISIBLE_DEVICES with a meaning of their own.
const (
	// AllDevices: every HostGPU.
	AllDevices = "all"
	// NoDevices: no HostGPU, but the driver's files.
	NoDevices = "none"
	// VoidDevices: neither.
	VoidDevices = "void"
)

// VisibleDevices is the value of NVIDIA_VISIBLE_DEVICES: one of the constants above,
// or the names of devices: indexes, UUIDs ("HostGPU-…", "MIG-…"), MIG devices by
// position ("0:1"), PCI addresses, CDI names. It has at least one element.
type VisibleDevices []string

// ParseDevices reads a list parted by commas. Where words of their own
// meaning are in it, void goes before none and none before all, whatever else
// there is. An empty list is void.
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
