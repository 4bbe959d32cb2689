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

// libraryDirs are the library folders of distributions, Debian's alternatives and
// NVIDIA's installer.
var libraryDirs = []string{
	"usr/lib64", "usr/lib", "usr/lib32", "lib64", "lib",
	"usr/lib/x86_64-linux-gnu", "usr/lib/i386-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib/arm-linux-gnueabihf",
	"usr/lib/x86_64-linux-gnu/nvidia/current", "usr/lib/i386-linux-gnu/nvidia/current", "usr/lib/aarch64-linux-gnu/nvidia/current",
	"usr/local/nvidia/lib64", "usr/local/nvidia/lib",
}

// librarySubdirs are subfolders of libraryDirs that also have driver libraries: of
// VDPAU, newer thread-local storage and X.
var librarySubdirs = []string{"vdpau", "tls", "nvidia/xorg", "xorg/modules/drivers", "xorg/modules/extensions"}

// libraryFolder is a folder with libraries: its path below the root, its real path
// on this host, and the names in it.
type libraryFolder struct {
	path, resolved string
	names          []string
}

// listLibraryFolders returns the folders in the loader's cache and then the usual
// ones. A folder that several links lead to appears once.
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

// resolveFile returns the regular file that a name in the folder leads to.
func (f libraryFolder) resolveFile(root, name string) (string, fs.FileInfo, error) {
	path := f.resolved + "/" + name
	info, err := os.Lstat(path)
	if err != nil || info.Mode().IsRegular() {
		return path, info, err
	}
	return resolveFile(root, f.path+"/"+name)
}

// cachedDirs returns the folders in ld.so.cache. It returns none if the root lacks
// that file, as with musl or an unpacked driver.
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

// listNames returns the names in a folder, or none if it cannot be read.
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

// listNamesInside returns the names in a folder below root.
func listNamesInside(root, dir string) []string {
	real, err := resolveInside(root, dir)
	if err != nil {
		return nil
	}
	return listNames(real)
}
