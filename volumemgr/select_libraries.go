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

// openGLNames are names that Mesa, NVIDIA and GLVND (which dispatches to either)
// have in common.
var openGLNames = []string{"libGL", "libEGL", "libGLESv1_CM", "libGLESv2", "libGLX", "libOpenGL", "libGLdispatch"}

// findLibraries returns each library once per word size. The first folder wins. It also
// returns why libraries of the driver cannot be read, by name.
func (s DriverSearch) findLibraries(v string, folders []libraryFolder) (_ []DriverFile, unreadable map[string]error) {
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
	return assignLinks(selectOpenGL(found)), unreadable
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
	case strings.HasSuffix(l.Name, ".so."+v):
		return true
	case !slices.Contains(openGLNames, stem):
		// Of which driver it is, its content says, or the folder that it has in common
		// with libcuda.
		return l.besideLibcuda || containsVersion(l.Source, v)
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
