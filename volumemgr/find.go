package volumemgr

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// libraryDirs are where distributions, Debian's alternatives and NVIDIA's own
// installer put a driver's libraries.
var libraryDirs = []string{
	"usr/lib64", "usr/lib", "usr/lib32", "lib64", "lib",
	"usr/lib/x86_64-linux-gnu", "usr/lib/i386-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib/arm-linux-gnueabihf",
	"usr/lib/x86_64-linux-gnu/nvidia/current", "usr/lib/i386-linux-gnu/nvidia/current", "usr/lib/aarch64-linux-gnu/nvidia/current",
	"usr/local/nvidia/lib64", "usr/local/nvidia/lib",
}

var programDirs = []string{"usr/local/nvidia/bin", "usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin"}

var programs = []string{
	"nvidia-smi", "nvidia-debugdump", "nvidia-persistenced",
	"nvidia-cuda-mps-control", "nvidia-cuda-mps-server", "nvidia-modprobe",
}

// moduleVersion finds the version in /proc/driver/nvidia/version, which reads
// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug …".
var moduleVersion = regexp.MustCompile(`(?m)^NVRM version:.*?\s([0-9]{2,}(?:\.[0-9]+){1,3})\s`)

// Find describes the driver installed below root, "/" for this machine's.
// Every *.so with the driver's version as suffix belongs to it, so that a new
// driver's new libraries are found without a list of names. Returns
// ErrNoDriver where there is none.
func Find(root string) (Driver, error) {
	v, err := findVersion(root)
	if err != nil {
		return Driver{}, fmt.Errorf("find NVIDIA driver below %s: %w", root, err)
	}
	d := Driver{Version: v}
	libraries, err := findLibraries(root, v)
	if err != nil {
		return Driver{}, fmt.Errorf("find NVIDIA driver %s below %s: %w", v, root, err)
	}
	if len(libraries) == 0 {
		return Driver{}, fmt.Errorf("find NVIDIA driver %s below %s: its kernel module is loaded, but there is no *.so.%s (libraries found: %s); "+
			"install the libraries of that version, or reboot after an update", v, root, v, orNone(installed(root)))
	}
	d.Files = append(libraries, findPrograms(root)...)
	return d, nil
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}

// findVersion asks the kernel module, and where that is not loaded (or root
// is an unpacked driver) the libraries.
func findVersion(root string) (string, error) {
	text, err := readInside(root, "proc/driver/nvidia/version")
	if err == nil {
		found := moduleVersion.FindStringSubmatch(text)
		if found == nil {
			return "", fmt.Errorf("proc/driver/nvidia/version names no version: %.80q", text)
		}
		return found[1], nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	switch found := installed(root); len(found) {
	case 0:
		return "", ErrNoDriver
	case 1:
		return found[0], nil
	default:
		return "", fmt.Errorf("libraries of %d drivers (%s) and no kernel module to tell which; load it or remove the others",
			len(found), strings.Join(found, ", "))
	}
}

func readInside(root, path string) (string, error) {
	real, _, err := file(root, path)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(real)
	return string(text), err
}

// installed lists the versions of the libraries that every driver has.
func installed(root string) []string {
	var found []string
	for _, dir := range libraryDirs {
		for _, name := range names(root, dir) {
			for _, stem := range []string{"libcuda.so.", "libnvidia-ml.so."} {
				if v, ok := strings.CutPrefix(name, stem); ok && version.MatchString(v) && !slices.Contains(found, v) {
					found = append(found, v)
				}
			}
		}
	}
	slices.Sort(found)
	return found
}

// names lists a folder below root; one that cannot be read has none.
func names(root, dir string) []string {
	real, err := inside(root, dir)
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

// findLibraries takes each name once per word size; the first folder wins.
func findLibraries(root, v string) ([]File, error) {
	var list []File
	taken := map[string]bool{}
	for _, dir := range libraryDirs {
		for _, dir := range []string{dir, dir + "/vdpau"} {
			for _, name := range names(root, dir) {
				if !strings.HasSuffix(name, ".so."+v) {
					continue
				}
				f, err := library(root, filepath.Join(dir, name), v)
				if errors.Is(err, fs.ErrNotExist) {
					continue // a link that an uninstalled driver left dangling
				}
				if err != nil {
					return nil, err
				}
				if key := f.Dir + "/" + f.Name; !taken[key] {
					taken[key] = true
					list = append(list, f)
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b File) int { return strings.Compare(a.Dir+"/"+a.Name, b.Dir+"/"+b.Name) })
	return list, nil
}

func findPrograms(root string) []File {
	var list []File
	for _, name := range programs {
		for _, dir := range programDirs {
			real, info, err := file(root, filepath.Join(dir, name))
			if err == nil && info.Mode()&0o111 != 0 {
				list = append(list, File{Source: real, Dir: "bin", Name: name, Size: info.Size()})
				break
			}
		}
	}
	return list
}
