package image

import (
	"fmt"
	"slices"
	"strings"
)

// Capability is a group of the driver's files.
type Capability string

const (
	Compute  Capability = "compute"  // CUDA and OpenCL
	Compat32 Capability = "compat32" // 32 bit libraries
	Graphics Capability = "graphics" // OpenGL and Vulkan
	Utility  Capability = "utility"  // nvidia-smi and NVML
	Video    Capability = "video"    // video codecs
	Display  Capability = "display"  // X11
	NGX      Capability = "ngx"      // NVIDIA NGX
)

// allCapabilitiesWord stands for every capability.
const allCapabilitiesWord = "all"

// Capabilities is a set, in the order of AllCapabilities.
type Capabilities []Capability

// AllCapabilities returns every capability.
func AllCapabilities() Capabilities {
	return Capabilities{Compute, Compat32, Graphics, Utility, Video, Display, NGX}
}

// DefaultCapabilities returns the capabilities of an image that lists none.
func DefaultCapabilities() Capabilities { return Capabilities{Compute, Utility} }

// ParseCapabilities parses the value of NVIDIA_DRIVER_CAPABILITIES, a
// comma-separated list. An empty list means the default. The error names the
// unknown word.
func ParseCapabilities(text string) (Capabilities, error) {
	var named Capabilities
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		switch {
		case word == "":
		case word == allCapabilitiesWord:
			named = append(named, AllCapabilities()...)
		case AllCapabilities().Has(Capability(word)):
			named = append(named, Capability(word))
		default:
			return nil, fmt.Errorf("%s names %q: the driver's parts are %s, or all", envDriverCapabilities, word, AllCapabilities())
		}
	}
	if len(named) == 0 {
		return DefaultCapabilities(), nil
	}
	return slices.DeleteFunc(AllCapabilities(), func(c Capability) bool { return !named.Has(c) }), nil
}

// Has reports whether c is in the set.
func (cs Capabilities) Has(c Capability) bool { return slices.Contains(cs, c) }

func (cs Capabilities) String() string {
	words := make([]string, len(cs))
	for i, c := range cs {
		words[i] = string(c)
	}
	return strings.Join(words, ",")
}
