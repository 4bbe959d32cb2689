// Package volumemgr keeps one folder per NVIDIA driver version, with the
// driver's libraries and programs, for containers to mount read-only as
// /usr/local/nvidia: an image brings CUDA, the host brings what must fit its
// kernel module. It decides which files belong to the driver, and makes a
// volume whole or not at all. It never changes a file of a volume, and never
// removes one from a volume that a container mounts: a running program may
// have it mapped.
package volumemgr

import (
	"errors"
	"regexp"
)

// ErrNoDriver is returned by Find where no NVIDIA driver is installed.
var ErrNoDriver = errors.New("no NVIDIA driver")

// InstalledDriver is an installed driver.
type InstalledDriver struct {
	// Version is the kernel module's, "535.104.05".
	Version string
	Files   []DriverFile
	// HostFiles are the driver's files that programs look for at a fixed
	// path, so that a volume does not hold them.
	HostFiles []HostFile
}

// DriverFile is one of its libraries or programs.
type DriverFile struct {
	// Source is where it is now, free of symbolic links.
	Source string
	// Dir is its folder in a volume: "bin"; "lib" for 32 bits; "lib64".
	Dir string
	// Name is its name there, and Links are further names, as symbolic links.
	Name  string
	Links []string
	Size  int64
	// Capability is what the file is for; empty where nothing tells.
	Capability Capability
}

func (f DriverFile) volumePath() string { return f.Dir + "/" + f.Name }

// HostFile is a description that a loader reads (Vulkan, EGL, OpenCL), or
// firmware.
type HostFile struct {
	// Path is where programs look for it, "/etc/OpenCL/vendors/nvidia.icd",
	// and Source where it is now, free of symbolic links.
	Path       string     `json:"path"`
	Source     string     `json:"source"`
	Size       int64      `json:"size"`
	Capability Capability `json:"capability"`
}

// DriverVolume is a finished folder.
type DriverVolume struct {
	// Name is "nvidia_535.104.05".
	Name    string `json:"name"`
	Version string `json:"version"`
	Path    string `json:"path"`
	// Files and Bytes count regular files, not links.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
}

// volumePrefix and version make a volume's name.
const volumePrefix = "nvidia_"

// versionPattern is what NVIDIA's versions look like; a volume's path is made of
// nothing else.
var versionPattern = regexp.MustCompile(`^[0-9]+(\.[0-9]+){1,3}$`)

// volumeDirs are the folders of a volume.
func volumeDirs() []string { return []string{"bin", "lib", "lib64"} }
