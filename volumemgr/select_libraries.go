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
	"libnvidia-nvvm70.so.*", "libnvidia-api.so.*", "libnvidia-vulkan-producer.so*", "nvidia_drv.so",
	"libnvidia-egl-gbm.so.*.*", "libnvidia-egl-wayland.so.*.*", "libnvidia-egl-wayland2.so.*.*", "libnvidia-egl-xcb.so.*.*", "libnvidia-egl-xlib.so.*.*",
}

// openGLNames are names that Mesa, NVIDIA and GLVND (which dispatches to either)
// have in common.
var openGLNames = []string{"libGL", "libEGL", "libGLESv1_CM", "libGLESv2", "libGLX", "libOpenGL", "libGLdispatch"}

// findLibraries returns each library once per word size. The first folder wins.
func findLibraries(root, v string, folders []libraryFolder) ([]DriverFile, error) {
	var found []sharedLibrary
	taken := map[string]bool{}
	for _, dir := range folders {
		for _, name := range dir.names {
			if !isCandidate(name, v) {
				continue
			}
			l, err := readLibrary(root, dir, name, v)
			if errors.Is(err, fs.ErrNotExist) {
				continue // a dangling link of a driver that was removed
			}
			if err != nil {
				if strings.HasSuffix(name, ".so."+v) {
					return nil, err
				}
				continue // for example a linker script
			}
			if key := l.volumePath(); !taken[key] && l.belongsInVolume(v) {
				taken[key] = true
				found = append(found, l)
			}
		}
	}
	return assignLinks(selectOpenGL(found)), nil
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
	stem, _, isLibrary := strings.Cut(name, ".so.")
	return slices.ContainsFunc(unversionedLibraries, matches) || isLibrary && slices.Contains(openGLNames, stem)
}

// belongsInVolume reports whether the library belongs in the volume, by its content.
func (l sharedLibrary) belongsInVolume(v string) bool {
	stem, _, _ := strings.Cut(l.Name, ".so")
	switch {
	case l.isLink: // its target is found by its own name
		return false
	case stem == "libnvidia-tls":
		return !l.oldThreads
	case strings.HasSuffix(l.Name, ".so."+v) || !slices.Contains(openGLNames, stem):
		return true
	default:
		return l.isGLVND || l.isVendorGL
	}
}

// selectOpenGL removes either GLVND or the driver's own OpenGL libraries. GLVND
// needs a vendor library of the driver. If there is one, GLVND replaces the
// driver's libraries of the same SONAME.
func selectOpenGL(found []sharedLibrary) []sharedLibrary {
	vendor := slices.ContainsFunc(found, func(l sharedLibrary) bool {
		return strings.HasPrefix(l.Name, "libGLX_nvidia.so.") || strings.HasPrefix(l.Name, "libEGL_nvidia.so.")
	})
	if !vendor {
		return slices.DeleteFunc(found, func(l sharedLibrary) bool { return l.isGLVND })
	}
	dispatchers := map[string]bool{}
	for _, l := range found {
		if l.isGLVND {
			dispatchers[l.Dir+"/"+l.soname] = true
		}
	}
	return slices.DeleteFunc(found, func(l sharedLibrary) bool { return l.isVendorGL && dispatchers[l.Dir+"/"+l.soname] })
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
