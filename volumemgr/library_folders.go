package volumemgr

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"mesos-gpu/internal/ldcache"
)

// loaderDirs are the folders in which the loaders of distributions look for libraries
// besides those in the cache. Folders such as x86_64-linux-gnu in them are added.
var loaderDirs = []string{"usr/lib64", "usr/lib", "usr/lib32", "lib64", "lib"}

// installerDirs are folders of systems that have no cache, or do not list the driver in
// it: NVIDIA's containers, Talos, Google's Container-Optimized OS and Colab, WSL and
// NixOS.
var installerDirs = []string{
	"usr/local/nvidia/lib64", "usr/local/nvidia/lib", "opt/nvidia/lib64", "usr/local/glibc/usr/lib", "home/kubernetes/bin/nvidia/lib64",
	"usr/lib64-nvidia", "usr/lib/wsl/lib", "run/opengl-driver/lib", "run/opengl-driver-32/lib",
}

// librarySubdirs are subfolders of library folders that also have driver libraries: of
// VDPAU, newer thread-local storage and X.
var librarySubdirs = []string{"vdpau", "tls", "xorg/modules/drivers", "xorg/modules/extensions"}

// libraryFolder is a folder with libraries: its path below the root, its real path
// on this host, and the names in it.
type libraryFolder struct {
	path, resolved string
	names          []string
	// loader is set if the loader searches the folder.
	loader bool
}

// folderList collects library folders. A folder that several links lead to appears once.
type folderList struct {
	root    string
	folders []libraryFolder
	seen    map[string]bool
}

// listLibraryFolders returns the folders in the loader's cache, then its other folders
// and those of installers. Each is followed by the folders to which its links of the
// driver lead, and by its subfolders for drivers, such as Debian's nvidia/tesla-470.
func (s DriverSearch) listLibraryFolders() ([]libraryFolder, error) {
	if _, err := os.ReadDir(s.Root); err != nil {
		return nil, err
	}
	l := folderList{root: s.Root, seen: map[string]bool{}}
	for _, dir := range append(s.cachedDirs(), loaderDirs...) {
		l.addTree(dir, true)
		for _, name := range listNamesInside(s.Root, dir) {
			if strings.Contains(name, "-linux-gnu") {
				l.addTree(dir+"/"+name, true)
			}
		}
	}
	for _, dir := range installerDirs {
		l.addTree(dir, true)
	}
	return l.folders, nil
}

// addTree adds a folder, and what belongs to it.
func (l *folderList) addTree(dir string, loader bool) {
	names := l.add(dir, loader)
	for _, stem := range requiredLibraries {
		if !slices.Contains(names, stem+"1") {
			continue
		}
		if real, _, err := resolveFile(l.root, dir+"/"+stem+"1"); err == nil {
			l.add(belowRoot(l.root, filepath.Dir(real)), false)
		}
	}
	for _, name := range names {
		if strings.HasPrefix(name, "nvidia") && !strings.Contains(name, ".") {
			for _, sub := range l.add(dir+"/"+name, false) {
				l.add(dir+"/"+name+"/"+sub, false)
			}
		}
	}
	for _, sub := range librarySubdirs {
		if first, _, _ := strings.Cut(sub, "/"); slices.Contains(names, first) {
			l.add(dir+"/"+sub, false)
		}
	}
}

// add adds one folder and returns the names in it; none if it is no folder or was added
// before.
func (l *folderList) add(path string, loader bool) []string {
	real, err := resolveInside(l.root, path)
	if err != nil || l.seen[real] {
		return nil
	}
	l.seen[real] = true
	names := listNamesInside(l.root, path)
	l.folders = append(l.folders, libraryFolder{path: path, resolved: real, names: names, loader: loader})
	return names
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

// hasOnlyLibcuda reports whether the folder has the libcuda of that version, and of no other.
func (f libraryFolder) hasOnlyLibcuda(v string) bool {
	isOther := func(name string) bool {
		other, ok := strings.CutPrefix(name, "libcuda.so.")
		return ok && other != v && versionPattern.MatchString(other)
	}
	return slices.Contains(f.names, "libcuda.so."+v) && !slices.ContainsFunc(f.names, isOther)
}

// cachedDirs returns the folders in ld.so.cache. It returns none if the root lacks
// that file, as with musl or an unpacked driver, or if it is damaged: the loader ignores
// it then, too.
func (s DriverSearch) cachedDirs() []string {
	const name = "etc/ld.so.cache"
	text, err := readInside(s.Root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var entries []ldcache.CacheEntry
	if err == nil {
		entries, err = ldcache.Parse([]byte(text))
	}
	if err != nil {
		s.warn(name, fmt.Errorf("read ld.so.cache: %w; run ldconfig", err))
		return nil
	}
	var list []string
	seen := map[string]bool{}
	for _, e := range entries {
		if dir := path.Dir(e.Path); !seen[dir] {
			seen[dir] = true
			list = append(list, dir)
		}
	}
	return list
}

func readInside(root, path string) (string, error) {
	real, _, err := resolveFile(root, path)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(real)
	return string(text), err
}

// listNamesInside returns the names in a folder below root, or none if it cannot be
// read.
func listNamesInside(root, dir string) []string {
	real, err := resolveInside(root, dir)
	if err != nil {
		return nil
	}
	entries, err := os.ReadDir(real)
	if err != nil {
		return nil
	}
	list := make([]string, len(entries))
	for i, e := range entries {
		list[i] = e.Name()
	}
	return list
}
