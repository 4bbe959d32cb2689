// Package image reads what a container image asks of the GPU driver. It is
// pure: it decides from an image's labels and environment whether the driver
// volume belongs into its containers, and never opens an image itself.
package image

import (
	"slices"
	"strings"
)

const (
	// volumesLabel lists the volumes that an image of the nvidia-docker 1.0
	// convention needs, parted by blanks; driverVolume is the driver's name
	// there.
	volumesLabel = "com.nvidia.volumes.needed"
	driverVolume = "nvidia_driver"
	// visibleDevices is the variable of NVIDIA's container toolkit.
	visibleDevices = "NVIDIA_VISIBLE_DEVICES"
)

// NeedsDriver reports whether an image with these labels and this environment
// ("NAME=value" entries) wants the driver's files. NVIDIA_VISIBLE_DEVICES is
// heard first: empty or "void" refuses them whatever the labels say, any
// other value ("none" too, which hides devices but not libraries) asks for
// them. Without it the label decides.
func NeedsDriver(labels map[string]string, env []string) bool {
	for _, entry := range env {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || name != visibleDevices {
			continue
		}
		return value != "" && value != "void"
	}
	return slices.Contains(strings.Fields(labels[volumesLabel]), driverVolume)
}
