// Package volumemgr keeps one folder per NVIDIA driver version with the driver's
// libraries and programs. Containers mount it read-only as /usr/local/nvidia: an
// image contains CUDA, and the host provides what must match its kernel module.
// The package decides which files belong to the driver, and creates a volume
// completely or not at all. It never changes a file of a volume and never removes
// a volume that a container mounts: a running program may have its files mapped.
package volumemgr

import (
	"errors"
	"regexp"
)

// ErrNoDriver is returned by Find if no NVIDIA driver is installed.
var ErrNoDriver = errors.New("no NVIDIA driver")

// InstalledDriver is an installed driver.
type InstalledDriver struct {
	// Version is the version of the kernel module, "535.104.05".
	Version string
	Files   []DriverFile
	// HostFiles are files that programs look for at a fixed path. A volume does
	// not contain them.
	HostFiles []HostFile
}

// DriverFile is a library or a program of the driver.
type DriverFile struct {
	// Source is its path on this host, without symbolic links.
	Source string
	// Dir is its folder in a volume: "bin", "lib" (32 bits) or "lib64".
	Dir string
	// Name is its name in that folder. Links are symbolic links to it.
	Name  string
	Links []string
	Size  int64
	// Capability is the purpose of the file; empty if unknown.
	Capability Capability
}

func (f DriverFile) volumePath() string { return f.Dir + "/" + f.Name }

// HostFile is a description for a loader (Vulkan, EGL, OpenCL), or firmware.
type HostFile struct {
	// Path is where programs look for it, "/etc/OpenCL/vendors/nvidia.icd".
	// Source is its path on this host, without symbolic links.
	Path       string     `json:"path"`
	Source     string     `json:"source"`
	Size       int64      `json:"size"`
	Capability Capability `json:"capability"`
}

// DriverVolume is a complete volume.
type DriverVolume struct {
	// Name is "nvidia_535.104.05".
	Name    string `json:"name"`
	Version string `json:"version"`
	Path    string `json:"path"`
	// Files and Bytes count regular files without links.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// volumePrefix and a version form the name of a volume.
const volumePrefix = "nvidia_"

// versionPattern matches NVIDIA's versions. Paths of volumes are made of nothing
// else.
var versionPattern = regexp.MustCompile(`^[0-9]+(\.[0-9]+){1,3}$`)

// volumeDirs returns the folders of a volume.
func volumeDirs() []string { return []string{"bin", "lib", "lib64"} }
