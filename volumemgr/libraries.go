package volumemgr

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// unversioned are the driver's libraries that do not end in its version.
var unversioned = []string{
	"libnvidia-nvvm70.so.*", "libnvidia-api.so.*", "libnvidia-vulkan-producer.so*", "nvidia_drv.so",
	"libnvidia-egl-gbm.so.*.*", "libnvidia-egl-wayland.so.*.*", "libnvidia-egl-wayland2.so.*.*", "libnvidia-egl-xcb.so.*.*", "libnvidia-egl-xlib.so.*.*",
}

// openGL are names that Mesa, NVIDIA and GLVND, which dispatches to either,
// all use.
var openGL = []string{"libGL", "libEGL", "libGLESv1_CM", "libGLESv2", "libGLX", "libOpenGL", "libGLdispatch"}

// findLibraries takes each name once per word size; the first folder wins.
func findLibraries(root, v string, folders []folder) ([]File, error) {
	var found []library
	taken := map[string]bool{}
	for _, dir := range folders {
		for _, name := range dir.names {
			if !candidate(name, v) {
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
			if key := l.path(); !taken[key] && l.ours(v) {
				taken[key] = true
				found = append(found, l)
			}
		}
	}
	return files(dispatched(found)), nil
}

// candidate tells by the name alone whether a file may be the driver's.
func candidate(name, v string) bool {
	if strings.HasSuffix(name, ".so."+v) {
		return true
	}
	matches := func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // an error means a bad pattern
		return ok
	}
	stem, _, isLibrary := strings.Cut(name, ".so.")
	return slices.ContainsFunc(unversioned, matches) || isLibrary && slices.Contains(openGL, stem)
}

// ours tells by what is in the file whether it goes into the volume.
func (l library) ours(v string) bool {
	stem, _, _ := strings.Cut(l.Name, ".so")
	switch {
	case l.linked: // the file itself is found by its own name
		return false
	case stem == "libnvidia-tls":
		return !l.oldThreads
	case strings.HasSuffix(l.Name, ".so."+v) || !slices.Contains(openGL, stem):
		return true
	default:
		return l.glvnd || l.vendorGL
	}
}

// dispatched settles who answers for OpenGL. GLVND is of use only where the
// driver has a vendor library for it to find; it then takes the place of the
// driver's own library of the same SONAME.
func dispatched(found []library) []library {
	vendor := slices.ContainsFunc(found, func(l library) bool {
		return strings.HasPrefix(l.Name, "libGLX_nvidia.so.") || strings.HasPrefix(l.Name, "libEGL_nvidia.so.")
	})
	if !vendor {
		return slices.DeleteFunc(found, func(l library) bool { return l.glvnd })
	}
	dispatchers := map[string]bool{}
	for _, l := range found {
		if l.glvnd {
			dispatchers[l.Dir+"/"+l.soname] = true
		}
	}
	return slices.DeleteFunc(found, func(l library) bool { return l.vendorGL && dispatchers[l.Dir+"/"+l.soname] })
}

// files gives each further name to one file, the first in order.
func files(found []library) []File {
	slices.SortFunc(found, func(a, b library) int { return cmp.Compare(a.path(), b.path()) })
	taken := map[string]bool{}
	for _, l := range found {
		taken[l.path()] = true
	}
	list := make([]File, 0, len(found))
	for _, l := range found {
		f := l.File
		f.Links = slices.DeleteFunc(f.Links, func(link string) bool {
			before := taken[f.Dir+"/"+link]
			taken[f.Dir+"/"+link] = true
			return before
		})
		list = append(list, f)
	}
	return list
}
