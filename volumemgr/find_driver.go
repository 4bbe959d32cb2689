package volumemgr

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var programDirs = []string{"usr/local/nvidia/bin", "usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin"}

// moduleVersion matches the version in /proc/driver/nvidia/version, which contains
// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug …".
var moduleVersion = regexp.MustCompile(`(?m)^NVRM version:.*?\s([0-9]{2,}(?:\.[0-9]+){1,3})\s`)

// DriverSearch finds an installed driver.
type DriverSearch struct {
	// Root is "/" for this machine's driver.
	Root string
	// Path is a list of folders below Root, separated by colons, to search for
	// programs after the usual folders.
	Path string
}

// FindDriver describes the driver installed below root, "/" for this machine's.
func FindDriver(root string) (InstalledDriver, error) { return DriverSearch{Root: root}.Find() }

// Find describes the installed driver. Every *.so with the driver's version as
// suffix belongs to it, so new libraries of new drivers are found without a list
// of names. A few libraries have no version and are found by name. It returns
// ErrNoDriver if no driver is installed.
func (s DriverSearch) Find() (InstalledDriver, error) {
	d, err := s.findDriver()
	if err != nil {
		return InstalledDriver{}, fmt.Errorf("find NVIDIA driver below %s: %w", s.Root, err)
	}
	return d, nil
}

func (s DriverSearch) findDriver() (InstalledDriver, error) {
	folders, err := listLibraryFolders(s.Root)
	if err != nil {
		return InstalledDriver{}, err
	}
	v, err := findVersion(s.Root, folders)
	if err != nil {
		return InstalledDriver{}, err
	}
	libraries, err := findLibraries(s.Root, v, folders)
	if err != nil {
		return InstalledDriver{}, fmt.Errorf("version %s: %w", v, err)
	}
	if len(libraries) == 0 {
		return InstalledDriver{}, fmt.Errorf("version %s: its kernel module is loaded, but there is no *.so.%s (libraries found: %s); "+
			"install the libraries of that version, or reboot after an update", v, v, cmp.Or(strings.Join(installedVersions(folders), ", "), "none"))
	}
	return InstalledDriver{Version: v, Files: append(libraries, s.findPrograms()...), HostFiles: hostFiles(s.Root, v)}, nil
}

// findVersion returns the version of the kernel module. If the module is not
// loaded, or root is an unpacked driver, it returns that of the libraries.
func findVersion(root string, folders []libraryFolder) (string, error) {
	text, err := readInside(root, "proc/driver/nvidia/version")
	if err == nil {
		found := moduleVersion.FindStringSubmatch(text)
		if found == nil {
			return "", fmt.Errorf("proc/driver/nvidia/version names no version: %.80q", text)
		}
		return found[1], nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	switch found := installedVersions(folders); len(found) {
	case 0:
		return "", ErrNoDriver
	case 1:
		return found[0], nil
	default:
		return "", fmt.Errorf("libraries of %d drivers (%s) and no kernel module is loaded to select one; load it, or remove the other libraries",
			len(found), strings.Join(found, ", "))
	}
}

// installedVersions returns the versions of libraries that every driver has.
func installedVersions(folders []libraryFolder) []string {
	var found []string
	for _, dir := range folders {
		for _, name := range dir.names {
			for _, stem := range []string{"libcuda.so.", "libnvidia-ml.so."} {
				if v, ok := strings.CutPrefix(name, stem); ok && versionPattern.MatchString(v) && !slices.Contains(found, v) {
					found = append(found, v)
				}
			}
		}
	}
	slices.Sort(found)
	return found
}

func (s DriverSearch) findPrograms() []DriverFile {
	dirs := programDirs
	if s.Path != "" {
		dirs = append(slices.Clone(dirs), filepath.SplitList(s.Path)...)
	}
	var resolved []libraryFolder
	for _, dir := range dirs {
		if real, err := resolveInside(s.Root, dir); err == nil {
			resolved = append(resolved, libraryFolder{path: dir, resolved: real})
		}
	}
	var list []DriverFile
	for _, p := range driverPrograms {
		for _, dir := range resolved {
			real, info, err := dir.resolveFile(s.Root, p.name)
			if err == nil && info.Mode()&0o111 != 0 {
				list = append(list, DriverFile{Source: real, Dir: "bin", Name: p.name, Size: info.Size(), Capability: p.capability})
				break
			}
		}
	}
	return list
}
