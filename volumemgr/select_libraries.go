package volumemgr

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// unversionedLibraries are the driver's libraries that do not end in its version.
var unversionedLibraries = []string{
	"libnvidia-nvvm70.so.*", "libnvidia-api.so.*", "libnvidia-vulkan-producer.so*", "nvidia_drv.so",
	"libnvidia-egl-gbm.so.*.*", "libnvidia-egl-wayland.so.*.*", "libnvidia-egl-wayland2.so.*.*", "libnvidia-egl-xcb.so.*.*", "libnvidia-egl-xlib.so.*.*",
}

// openGLNames are names that Mesa, NVIDIA and GLVND, which dispatches to either,
// all use.
var openGLNames = []string{"libGL", "libEGL", "libGLESv1_CM", "libGLESv2", "libGLX", "libOpenGL", "libGLdispatch"}

// findLibraries takes each name once per word size; the first folder wins.
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
				continue // a link that an uninstalled driver left dangling
			}
			if err != nil {
				if strings.HasSuffix(name, ".so."+v) {
					return nil, err
				}
				continue // a linker script, or something else of nobody's
			}
			if key := l.volumePath(); !taken[key] && l.belongsInVolume(v) {
				taken[key] = true
				found = append(found, l)
			}
		}
	}
	return assignLinks(selectOpenGL(found)), nil
}

// isCandidate tells by the name alone whether a file may be the driver's.
func isCandidate(name, v string) bool {
	if strings.HasSuffix(name, ".so."+v) {
		return true
	}
	matches := func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // an error means a bad pattern
		return ok
	}
	stem, _, isLibrary := strings.Cut(name, ".so.")
	return slices.ContainsFunc(unversionedLibraries, matches) || isLibrary && slices.Contains(openGLNames, stem)
}

// belongsInVolume tells by what is in the file whether it goes into the volume.
func (l sharedLibrary) belongsInVolume(v string) bool {
	stem, _, _ := strings.Cut(l.Name, ".so")
	switch {
	case l.isLink: // the file itself is found by its own name
		return false
	case stem == "libnvidia-tls":
		return !l.oldThreads
	case strings.HasSuffix(l.Name, ".so."+v) || !slices.Contains(openGLNames, stem):
		return true
	default:
		return l.isGLVND || l.isVendorGL
	}
}

// selectOpenGL settles who answers for OpenGL. GLVND is of use only where the
// driver has a vendor library for it to find; it then takes the place of the
// driver's own library of the same SONAME.
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

// assignLinks gives each further name to one file, the first in order.
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
