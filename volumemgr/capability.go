package volumemgr

import (
	"fmt"
	"slices"
	"strings"
)

// Capability is the purpose of a driver file, with the names of
// NVIDIA_DRIVER_CAPABILITIES.
type Capability string

const (
	Compute  Capability = "compute"  // CUDA and OpenCL
	Utility  Capability = "utility"  // nvidia-smi and NVML
	Video    Capability = "video"    // the Video Codec SDK
	Graphics Capability = "graphics" // OpenGL and Vulkan
	Display  Capability = "display"  // X11
	NGX      Capability = "ngx"      // DLSS and similar features
	Compat32 Capability = "compat32" // 32-bit programs
)

// Capabilities returns all capabilities in NVIDIA's order.
func Capabilities() []Capability {
	return []Capability{Compat32, Compute, Display, Graphics, NGX, Utility, Video}
}

// ParseCapabilities parses "compute,utility" or "all".
func ParseCapabilities(text string) ([]Capability, error) {
	if text == "all" {
		return Capabilities(), nil
	}
	var list []Capability
	for word := range strings.SplitSeq(text, ",") {
		c := Capability(strings.TrimSpace(word))
		if !slices.Contains(Capabilities(), c) {
			return nil, fmt.Errorf("driver capability %q must be one of all, %s", c, joinCapabilities(Capabilities()))
		}
		list = append(list, c)
	}
	return list, nil
}

func joinCapabilities(list []Capability) string {
	words := make([]string, len(list))
	for i, c := range list {
		words[i] = string(c)
	}
	return strings.Join(words, ", ")
}

// SelectFiles returns the files that serve one of the capabilities. Files of
// unknown purpose are included, because any program may need them.
func (m Manifest) SelectFiles(wanted []Capability) []ManifestEntry {
	var kept []ManifestEntry
	for _, e := range m.Files {
		serves := e.Capability == "" || slices.Contains(wanted, e.Capability)
		if serves && (!strings.HasPrefix(e.Path, "lib/") || slices.Contains(wanted, Compat32)) {
			kept = append(kept, e)
		}
	}
	return kept
}

// librariesByCapability lists library names up to ".so". The groups come from
// libnvidia-container (src/nvc_info.c) and, for display, of the container
// toolkit. A library that is not listed here is still part of the volume.
var librariesByCapability = map[Capability][]string{
	Utility: {"libnvidia-ml", "libnvidia-cfg", "libnvidia-nscq", "libnvidia-api", "libnvidia-sandboxutils"},
	Compute: {
		"libcuda", "libcudadebugger", "libnvidia-opencl", "libnvidia-gpucomp", "libnvidia-ptxjitcompiler",
		"libnvidia-fatbinaryloader", "libnvidia-allocator", "libnvidia-compiler", "libnvidia-pkcs11",
		"libnvidia-pkcs11-openssl3", "libnvidia-nvvm", "libnvidia-nvvm70", "libnvidia-tileiras",
	},
	Video: {"libvdpau_nvidia", "libnvidia-encode", "libnvidia-opticalflow", "libnvcuvid"},
	Graphics: {
		"libnvidia-eglcore", "libnvidia-glcore", "libnvidia-tls", "libnvidia-glsi", "libnvidia-fbc", "libnvidia-ifr",
		"libnvidia-rtcore", "libnvoptix", "libGLX_nvidia", "libEGL_nvidia", "libGLESv2_nvidia", "libGLESv1_CM_nvidia",
		"libnvidia-glvkspirv", "libnvidia-cbl", "libnvidia-vulkan-producer", "libnvidia-vksc-core",
		"libnvidia-egl-gbm", "libnvidia-egl-wayland", "libnvidia-egl-wayland2", "libnvidia-egl-xcb", "libnvidia-egl-xlib",
		"libGL", "libEGL", "libGLESv1_CM", "libGLESv2",
	},
	Display: {"nvidia_drv", "libglxserver_nvidia", "libnvidia-gtk2", "libnvidia-gtk3", "libnvidia-wayland-client", "libXvMCNVIDIA"},
	NGX:     {"libnvidia-ngx"},
}

// capabilityOf returns the purpose of a library by its stem, "libcuda.so".
func capabilityOf(stem string) Capability {
	name := strings.TrimSuffix(stem, ".so")
	for capability, names := range librariesByCapability {
		if slices.Contains(names, name) {
			return capability
		}
	}
	return ""
}
