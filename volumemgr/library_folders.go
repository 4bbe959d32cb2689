package volumemgr

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"mesos-gpu/volumemgr/ldcache"
)

// libraryDirs are where distributions, Debian's alternatives and NVIDIA's own
// installer put a driver's libraries.
var libraryDirs = []string{
	"usr/lib64", "usr/lib", "usr/lib32", "lib64", "lib",
	"usr/lib/x86_64-linux-gnu", "usr/lib/i386-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib/arm-linux-gnueabihf",
	"usr/lib/x86_64-linux-gnu/nvidia/current", "usr/lib/i386-linux-gnu/nvidia/current", "usr/lib/aarch64-linux-gnu/nvidia/current",
	"usr/local/nvidia/lib64", "usr/local/nvidia/lib",
}

// librarySubdirs are the folders beneath those that hold libraries of drivers, too:
// of VDPAU, of the newer thread-local storage, of X.
var librarySubdirs = []string{"vdpau", "tls", "nvidia/xorg", "xorg/modules/drivers", "xorg/modules/extensions"}

// libraryFolder is one that libraries lie in: its path below the root, where that
// really is, and what is in there.
type libraryFolder struct {
	path, resolved string
	names          []string
}

// listLibraryFolders lists the loader's own folders, as its cache names them, and then
// the usual ones, each once however many links lead there.
func listLibraryFolders(root string) ([]libraryFolder, error) {
	cached, err := cachedDirs(root)
	if err != nil {
		return nil, err
	}
	var list []libraryFolder
	seen := map[string]bool{}
	add := func(path string) []string {
		real, err := resolveInside(root, path)
		if err != nil || seen[real] {
			return nil
		}
		seen[real] = true
		names := listNames(real)
		list = append(list, libraryFolder{path, real, names})
		return names
	}
	for _, dir := range append(cached, libraryDirs...) {
		names := add(dir)
		for _, sub := range librarySubdirs {
			if first, _, _ := strings.Cut(sub, "/"); slices.Contains(names, first) {
				add(dir + "/" + sub)
			}
		}
	}
	return list, nil
}

// resolveFile is the regular file that a name in the folder leads to.
func (f libraryFolder) resolveFile(root, name string) (string, fs.FileInfo, error) {
	path := f.resolved + "/" + name
	info, err := os.Lstat(path)
	if err != nil || info.Mode().IsRegular() {
		return path, info, err
	}
	return resolveFile(root, f.path+"/"+name)
}

// cachedDirs are the folders that ld.so.cache names. A root without that
// file (musl, an unpacked driver) names none.
func cachedDirs(root string) ([]string, error) {
	text, err := readInside(root, "etc/ld.so.cache")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read ld.so.cache: %w", err)
	}
	entries, err := ldcache.Parse([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("read ld.so.cache: %w; run ldconfig", err)
	}
	var list []string
	for _, e := range entries {
		if dir := path.Dir(e.Path); !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	return list, nil
}

func readInside(root, path string) (string, error) {
	real, _, err := resolveFile(root, path)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(real)
	return string(text), err
}

// listNames lists a folder; one that cannot be read has none.
func listNames(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	list := make([]string, len(entries))
	for i, e := range entries {
		list[i] = e.Name()
	}
	return list
}

// listNamesInside lists a folder below root.
func listNamesInside(root, dir string) []string {
	real, err := resolveInside(root, dir)
	if err != nil {
		return nil
	}
	return listNames(real)
}
