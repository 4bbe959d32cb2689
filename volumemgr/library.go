package volumemgr

import (
	"debug/elf"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// furtherNames are looked up by programs beside a library's SONAME.
var furtherNames = map[string][]string{
	"libcuda.so":               {"libcuda.so", "libcuda.so.1"},
	"libnvidia-ml.so":          {"libnvidia-ml.so.1"},
	"libnvidia-opticalflow.so": {"libnvidia-opticalflow.so"},
	"libGLX_nvidia.so":         {"libGLX_indirect.so.0"},
}

// library reads from the file itself of how many bits it is and by which name
// programs load it.
func library(root, path, v string) (File, error) {
	real, info, err := file(root, path)
	if err != nil {
		return File{}, fmt.Errorf("look at library %s: %w", path, err)
	}
	f := File{Source: real, Name: filepath.Base(path), Size: info.Size()}
	object, err := elf.Open(real)
	if err != nil {
		return File{}, fmt.Errorf("read library %s: %w", real, err)
	}
	defer object.Close()
	switch object.Class {
	case elf.ELFCLASS32:
		f.Dir = "lib"
	case elf.ELFCLASS64:
		f.Dir = "lib64"
	default:
		return File{}, fmt.Errorf("read library %s: class %s is neither 32 nor 64 bits", real, object.Class)
	}
	sonames, err := object.DynString(elf.DT_SONAME)
	if err != nil {
		return File{}, fmt.Errorf("read SONAME of library %s: %w", real, err)
	}
	links := append(sonames, furtherNames[strings.TrimSuffix(f.Name, "."+v)]...)
	slices.Sort(links)
	for _, link := range slices.Compact(links) {
		// A name with a slash would lead out of the volume.
		if link != "" && link != f.Name && filepath.Base(link) == link && link != ".." && link != "." {
			f.Links = append(f.Links, link)
		}
	}
	return f, nil
}
