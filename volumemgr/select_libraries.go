package volumemgr

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// unversionedLibraries are driver libraries without the driver's version as suffix.
var unversionedLibraries = []string{
	"libnvidia-nvvm70.so.?", "libnvidia-api.so.?", "libnvidia-vulkan-producer.so", "nvidia_drv.so", "libglxserver_nvidia.so",
	"libnvidia-egl-gbm.so.*.*", "libnvidia-egl-wayland.so.*.*", "libnvidia-egl-wayland2.so.*.*", "libnvidia-egl-xcb.so.*.*", "libnvidia-egl-xlib.so.*.*",
}

// findLibraries returns each library once per word size. The first folder wins. It also
// returns the newest glibc that a file of the driver may need, and why libraries of the
// driver cannot be read, by name.
func (s DriverSearch) findLibraries(v string, folders []libraryFolder) (_ []DriverFile, glibc []int, unreadable map[string]error) {
	var found []sharedLibrary
	taken := map[string]bool{}
	unreadable = map[string]error{}
	for _, dir := range folders {
		for _, name := range dir.names {
			if !isCandidate(name, v) {
				continue
			}
			l, err := readLibrary(s.Root, dir, name, v)
			switch {
			case errors.Is(err, fs.ErrNotExist): // a dangling link of a driver that was removed
			case errors.Is(err, errOtherMachine):
			case err != nil && strings.HasSuffix(name, ".so."+v):
				unreadable[name] = err
				s.warn(dir.path+"/"+name, err)
			case err != nil: // for example a linker script
			case !taken[l.volumePath()] && l.belongsInVolume(v):
				taken[l.volumePath()] = true
				found = append(found, l)
			}
		}
	}
	glibc = newestGlibc(found, v)
	found = slices.DeleteFunc(found, func(l sharedLibrary) bool { return slices.Compare(l.glibc, glibc) > 0 })
	return assignLinks(found), glibc, unreadable
}

// isCandidate reports whether a file may belong to the driver, by its name alone.
func isCandidate(name, v string) bool {
	if strings.HasSuffix(name, ".so."+v) {
		return true
	}
	matches := func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // the only possible error is a bad pattern
		return ok
	}
	return slices.ContainsFunc(unversionedLibraries, matches)
}

// belongsInVolume reports whether the library belongs in the volume, by its content.
func (l sharedLibrary) belongsInVolume(v string) bool {
	stem, _, _ := strings.Cut(l.Name, ".so")
	switch {
	case l.isLink: // its target is found by its own name
		return false
	case stem == "libnvidia-tls":
		return !l.oldThreads
	case strings.HasSuffix(l.Name, ".so."+v):
		return true
	default:
		// Of which driver it is, its content says, or the folder that it has in common
		// with libcuda.
		return l.besideLibcuda || containsVersion(l.Source, v)
	}
}

// newestGlibc returns the newest glibc that a library with the driver's version needs. NVIDIA
// builds these for old systems. A file that needs a newer one was built by the distribution,
// for example for Wayland, and would fail in the containers of older images.
func newestGlibc(found []sharedLibrary, v string) []int {
	var newest []int
	for _, l := range found {
		if strings.HasSuffix(l.Name, ".so."+v) && slices.Compare(l.glibc, newest) > 0 {
			newest = l.glibc
		}
	}
	return newest
}

// assignLinks gives each additional name to one file, the first in order.
func assignLinks(found []sharedLibrary) []DriverFile {
	slices.SortFunc(found, func(a, b sharedLibrary) int { return cmp.Compare(a.volumePath(), b.volumePath()) })
	taken := map[string]bool{}
	for _, l := range found {
		taken[l.volumePath()] = true
	}
	list := make([]DriverFile, 0, len(found))
	for _, l := range found {
		f := l.DriverFile
		f.Links = slices.DeleteFunc(f.Links, func(link string) bool {
			before := taken[f.Dir+"/"+link]
			taken[f.Dir+"/"+link] = true
			return before
		})
		list = append(list, f)
	}
	return list
}
