package image

import "strings"

// Values of NVIDIA_VISIBLE_DEVICES with a meaning of their own.
const (
	// AllDevices: every GPU.
	AllDevices = "all"
	// NoDevices: no GPU, but the driver's files.
	NoDevices = "none"
	// VoidDevices: neither.
	VoidDevices = "void"
)

// Devices is the value of NVIDIA_VISIBLE_DEVICES: one of the constants above,
// or the names of devices: indexes, UUIDs ("GPU-…", "MIG-…"), MIG devices by
// position ("0:1"), PCI addresses, CDI names. It has at least one element.
type Devices []string

// ParseDevices reads a list parted by commas. Where words of their own
// meaning are in it, void goes before none and none before all, whatever else
// there is. An empty list is void.
func ParseDevices(text string) Devices {
	var names Devices
	found := map[string]bool{}
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
			found[name] = true
		}
	}
	for _, word := range []string{VoidDevices, NoDevices, AllDevices} {
		if found[word] {
			return Devices{word}
		}
	}
	if len(names) == 0 {
		return Devices{VoidDevices}
	}
	return names
}

// Driver reports whether a container for these devices gets the driver's
// files.
func (d Devices) Driver() bool { return len(d) > 0 && d[0] != VoidDevices }

func (d Devices) String() string { return strings.Join(d, ",") }
