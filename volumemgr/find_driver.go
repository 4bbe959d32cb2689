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
	// Warn is called with each file of the driver that is left out because it
	// cannot be read, and the reason. It may be nil.
	Warn func(path string, reason error)
}

func (s DriverSearch) warn(path string, reason error) {
	if s.Warn != nil {
		s.Warn(path, reason)
	}
}

// FindDriver describes the driver installed below root, "/" for this machine's.
func FindDriver(root string) (InstalledDriver, error) { return DriverSearch{Root: root}.Find() }

// IncompleteDriverError is returned by Find if libraries are missing without which
// no task can use the driver. After an update of the driver's packages that is so
// until the machine has been restarted.
type IncompleteDriverError struct {
	// Version is the version of the kernel module if ModuleLoaded is set, else
	// that of the libraries.
	Version      string
	ModuleLoaded bool
	// Missing are the names of the missing libraries. Installed are the versions
	// of which there is one.
	Missing, Installed []string
	// Searched are the folders in which the loader finds libraries.
	Searched []string
	// Unreadable are the reasons why some of the missing libraries are left out.
	Unreadable []error
}

func (e *IncompleteDriverError) Error() string {
	text := fmt.Sprintf("version %s: there is no %s", e.Version, strings.Join(e.Missing, " and no "))
	if e.ModuleLoaded {
		text = fmt.Sprintf("version %s: its kernel module is loaded, but there is no %s", e.Version, strings.Join(e.Missing, " and no "))
	}
	if len(e.Unreadable) > 0 {
		return fmt.Sprintf("%s that can be used (%s); reinstall the driver", text, errors.Join(e.Unreadable...))
	}
	return fmt.Sprintf("%s (libraries found: %s; searched: %s); "+
		"install the libraries of that version, reboot after an update, or run ldconfig if they are elsewhere",
		text, cmp.Or(strings.Join(e.Installed, ", "), "none"), strings.Join(e.Searched, ", "))
}

// Find describes the installed driver. Every *.so with the driver's version as
// suffix belongs to it, so new libraries of new drivers are found without a list
// of names. A few libraries have no version and are found by name. A file that
// cannot be read is left out. It returns ErrNoDriver if no driver is installed, and
// an *IncompleteDriverError if libcuda or libnvidia-ml is missing.
func (s DriverSearch) Find() (InstalledDriver, error) {
	d, err := s.findDriver()
	if err != nil {
		return InstalledDriver{}, fmt.Errorf("find NVIDIA driver below %s: %w", s.Root, err)
	}
	return d, nil
}

func (s DriverSearch) findDriver() (InstalledDriver, error) {
	folders, err := s.listLibraryFolders()
	if err != nil {
		return InstalledDriver{}, err
	}
	v, isLoaded, err := findVersion(s.Root, folders)
	if err != nil {
		return InstalledDriver{}, err
	}
	libraries, glibc, unreadable := s.findLibraries(v, folders)
	if missing := missingLibraries(v, libraries); len(missing) > 0 {
		e := &IncompleteDriverError{Version: v, ModuleLoaded: isLoaded, Missing: missing, Installed: installedVersions(folders)}
		for _, f := range folders {
			if f.loader {
				e.Searched = append(e.Searched, f.path)
			}
		}
		for _, name := range missing {
			if reason, ok := unreadable[name]; ok {
				e.Unreadable = append(e.Unreadable, reason)
			}
		}
		return InstalledDriver{}, e
	}
	return InstalledDriver{Version: v, Files: append(libraries, s.findPrograms(v, folders, glibc)...), HostFiles: hostFiles(s.Root, v)}, nil
}

// requiredLibraries are the libraries without which no task can use a GPU.
var requiredLibraries = []string{"libcuda.so.", "libnvidia-ml.so."}

// missingLibraries returns the required libraries of a version, of 64 bits, that a
// driver or a volume lacks.
func missingLibraries(v string, files []DriverFile) (missing []string) {
	for _, stem := range requiredLibraries {
		has := func(f DriverFile) bool { return f.Dir == "lib64" && f.Name == stem+v }
		if !slices.ContainsFunc(files, has) {
			missing = append(missing, stem+v)
		}
	}
	return missing
}

// findVersion returns the version of the kernel module. If the module is not
// loaded, or root is an unpacked driver, it returns the version of the libcuda that
// the loader chooses, or else of the only driver that is installed.
func findVersion(root string, folders []libraryFolder) (v string, moduleLoaded bool, err error) {
	text, err := readInside(root, "proc/driver/nvidia/version")
	if err == nil {
		found := moduleVersion.FindStringSubmatch(text)
		if found == nil {
			return "", false, fmt.Errorf("proc/driver/nvidia/version names no version: %.80q", text)
		}
		return found[1], true, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", false, err
	}
	if v := chosenVersion(root, folders); v != "" {
		return v, false, nil
	}
	switch found := installedVersions(folders); len(found) {
	case 0:
		if isWSL(root) {
			return "", false, fmt.Errorf("%w: this is WSL, whose driver is that of Windows and is not supported", ErrNoDriver)
		}
		return "", false, ErrNoDriver
	case 1:
		return found[0], false, nil
	default:
		return "", false, fmt.Errorf("libraries of %d drivers (%s) and no kernel module is loaded to select one; load it, or remove the other libraries",
			len(found), strings.Join(found, ", "))
	}
}

// isWSL reports whether root is a Linux inside Windows, where libcuda passes calls on to
// the driver of Windows.
func isWSL(root string) bool {
	_, err := resolveInside(root, "usr/lib/wsl/lib/libcuda.so.1")
	return err == nil
}

// chosenVersion returns the version of the libcuda that the loader finds first for this
// machine's programs, "" if it finds none.
func chosenVersion(root string, folders []libraryFolder) string {
	for _, dir := range folders {
		if !dir.loader || !slices.Contains(dir.names, "libcuda.so.1") {
			continue
		}
		real, _, err := dir.resolveFile(root, "libcuda.so.1")
		if err != nil {
			continue
		}
		v, ok := strings.CutPrefix(filepath.Base(real), "libcuda.so.")
		if l, err := readLibrary(root, dir, "libcuda.so.1", v); ok && versionPattern.MatchString(v) && err == nil && l.Dir == "lib64" {
			return v
		}
	}
	return ""
}

// installedVersions returns the versions of which there is a required library.
func installedVersions(folders []libraryFolder) []string {
	var found []string
	for _, dir := range folders {
		for _, name := range dir.names {
			for _, stem := range requiredLibraries {
				if v, ok := strings.CutPrefix(name, stem); ok && versionPattern.MatchString(v) && !slices.Contains(found, v) {
					found = append(found, v)
				}
			}
		}
	}
	slices.Sort(found)
	return found
}
