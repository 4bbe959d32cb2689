package volumemgr

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"mesos-gpu/internal/elffile"
)

// additionalLinks are names that programs look up besides a library's SONAME and
// its bare name.
var additionalLinks = map[string][]string{
	"libcuda.so":               {"libcuda.so", "libcuda.so.1"},
	"libnvidia-ml.so":          {"libnvidia-ml.so.1"},
	"libnvidia-opticalflow.so": {"libnvidia-opticalflow.so"},
	"libGLX_nvidia.so":         {"libGLX_indirect.so.0"},
	"libnvidia-allocator.so":   {"nvidia-drm_gbm.so"},
}

// sharedLibrary is a driver file with data of its ELF headers.
type sharedLibrary struct {
	DriverFile
	soname string
	// isLink is set if the path is a symbolic link to a file of another name.
	isLink bool
	// glibc is the version of glibc that it needs, as elffile.NeededGlibc returns it.
	glibc []int
	// besideLibcuda is set if the libcuda of the driver's version is in the same folder, and
	// no other.
	besideLibcuda bool
	// oldThreads is set for thread-local storage of kernels before 2.3.99.
	oldThreads bool
}

// readLibrary reads a library's word size, SONAME and dependencies from the file.
func readLibrary(root string, dir libraryFolder, name, v string) (sharedLibrary, error) {
	real, info, err := dir.resolveFile(root, name)
	if err != nil {
		return sharedLibrary{}, fmt.Errorf("inspect library %s/%s: %w", dir.path, name, err)
	}
	stem, _, _ := strings.Cut(name, ".so")
	stem += ".so"
	l := sharedLibrary{
		DriverFile: DriverFile{Source: real, Name: name, Size: info.Size(), Capability: capabilityOf(stem)},
		// If the link has the driver's version in its name, as with Debian's
		// alternatives, the name of the link is the name of the library.
		isLink:        filepath.Base(real) != name && !strings.HasSuffix(name, ".so."+v),
		besideLibcuda: dir.hasOnlyLibcuda(v),
	}
	object, err := elffile.Open(real)
	if err != nil {
		return sharedLibrary{}, fmt.Errorf("read library %s: %w", real, err)
	}
	defer object.Close()
	if err := l.readHeaders(object); err != nil {
		return sharedLibrary{}, fmt.Errorf("read library %s: %w", real, err)
	}
	links := append([]string{l.soname}, additionalLinks[stem]...)
	if slices.Contains(dir.names, stem) {
		if bare, _, err := dir.resolveFile(root, stem); err == nil && bare == real {
			links = append(links, stem)
		}
	}
	l.Links = safeLinks(links, name)
	return l, nil
}

// errOtherMachine is returned for libraries of programs that this machine cannot run.
var errOtherMachine = errors.New("it is for another machine")

func (l *sharedLibrary) readHeaders(object *elf.File) error {
	switch object.Class {
	case elf.ELFCLASS32:
		l.Dir = "lib"
	case elf.ELFCLASS64:
		l.Dir = "lib64"
	default:
		return fmt.Errorf("class %s is neither 32 nor 64 bits", object.Class)
	}
	if object.Machine != elffile.HostMachine(object.Class) {
		return errOtherMachine
	}
	sonames, err := object.DynString(elf.DT_SONAME)
	if err != nil {
		return fmt.Errorf("SONAME: %w", err)
	}
	if len(sonames) > 0 {
		l.soname = sonames[0]
	}
	if l.glibc, err = elffile.NeededGlibc(object); err != nil {
		return fmt.Errorf("versions that it needs: %w", err)
	}
	l.oldThreads, err = usesOldThreads(object)
	return err
}

// usesOldThreads reports whether a library is for kernels before 2.3.99. The last
// three words of the section ".note.ABI-tag" are the oldest supported kernel.
func usesOldThreads(object *elf.File) (bool, error) {
	section := object.Section(".note.ABI-tag")
	if section == nil {
		return false, nil
	}
	note, err := section.Data()
	if err != nil {
		return false, fmt.Errorf(".note.ABI-tag: %w", err)
	}
	const header = 20 // three lengths, "GNU\0" and the operating system
	if len(note) < header+12 {
		return false, fmt.Errorf(".note.ABI-tag has %d bytes, want at least %d", len(note), header+12)
	}
	var kernel, modern = make([]uint32, 3), []uint32{2, 3, 99}
	for i := range kernel {
		kernel[i] = binary.LittleEndian.Uint32(note[header+4*i:])
	}
	return slices.Compare(kernel, modern) < 0, nil
}

// safeLinks removes names that are not valid in the library's folder. A SONAME with a
// slash would create a link outside the volume.
func safeLinks(links []string, name string) []string {
	slices.Sort(links)
	return slices.DeleteFunc(slices.Compact(links), func(link string) bool {
		return link == "" || link == name || filepath.Base(link) != link || link == ".." || link == "."
	})
}

// hostFilePatterns are the paths that the container toolkit mounts.
var hostFilePatterns = []struct {
	pattern    string // VERSION is replaced by the driver's version
	capability Capability
}{
	{"etc/OpenCL/vendors/nvidia.icd", Compute},
	{"etc/vulkan/icd.d/nvidia_*.json", Graphics}, {"usr/share/vulkan/icd.d/nvidia_*.json", Graphics},
	{"etc/vulkan/implicit_layer.d/nvidia_*.json", Graphics}, {"usr/share/vulkan/implicit_layer.d/nvidia_*.json", Graphics},
	{"etc/vulkansc/icd.d/nvidia_*.json", Graphics}, {"usr/share/vulkansc/icd.d/nvidia_*.json", Graphics},
	{"usr/share/glvnd/egl_vendor.d/*_nvidia.json", Graphics}, {"etc/glvnd/egl_vendor.d/*_nvidia.json", Graphics},
	{"usr/share/egl/egl_external_platform.d/*_nvidia_*.json", Graphics}, {"etc/egl/egl_external_platform.d/*_nvidia_*.json", Graphics},
	{"usr/share/nvidia/nvoptix.bin", Graphics}, {"usr/share/nvidia/nvidia-application-profiles-VERSION-*", Graphics},
	{"usr/share/X11/xorg.conf.d/*nvidia*.conf", Display},
	{"lib/firmware/nvidia/VERSION/gsp*.bin", Utility},
}

// hostFiles returns the files that match hostFilePatterns.
func hostFiles(root, v string) []HostFile {
	var list []HostFile
	for _, p := range hostFilePatterns {
		dir, pattern := filepath.Split(strings.ReplaceAll(p.pattern, "VERSION", v))
		for _, name := range listNamesInside(root, dir) {
			if ok, err := filepath.Match(pattern, name); !ok || err != nil {
				continue
			}
			real, info, err := resolveFile(root, dir+name)
			if err == nil {
				list = append(list, HostFile{Path: "/" + dir + name, Source: real, Size: info.Size(), Capability: p.capability})
			}
		}
	}
	return list
}
