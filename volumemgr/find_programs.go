package volumemgr

import (
	"bufio"
	"bytes"
	"debug/elf"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mesos-gpu/internal/elffile"
)

// programDirs are the usual folders of programs, and those of NixOS, Google's Colab
// and Bottlerocket.
var programDirs = []string{
	"usr/local/nvidia/bin", "usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin",
	"run/current-system/sw/bin", "opt/bin", "usr/libexec/nvidia/tesla/bin",
}

// driverPrograms are the driver's programs and their purposes.
var driverPrograms = []struct {
	name       string
	capability Capability
	// leader is a program that contains the driver's version and is installed together
	// with this one, which does not.
	leader string
}{
	{name: "nvidia-smi", capability: Utility}, {name: "nvidia-debugdump", capability: Utility, leader: "nvidia-smi"},
	{name: "nvidia-persistenced", capability: Utility}, {name: "nv-fabricmanager", capability: Utility},
	{name: "nvidia-modprobe", capability: Utility}, {name: "nvidia-imex", capability: Utility}, {name: "nvidia-imex-ctl", capability: Utility},
	{name: "nvidia-cuda-mps-control", capability: Compute},
	{name: "nvidia-cuda-mps-server", capability: Compute, leader: "nvidia-cuda-mps-control"},
	{name: "nvidia-xconfig", capability: Display},
}

// findPrograms returns the programs of that version that need no newer glibc. A program of
// another driver may have the same path: an update that waits for a restart replaces the
// programs.
func (s DriverSearch) findPrograms(v string, folders []libraryFolder, glibc []int) []DriverFile {
	var dirs []libraryFolder
	add := func(path string) {
		if real, err := resolveInside(s.Root, path); err == nil {
			dirs = append(dirs, libraryFolder{path: path, resolved: real})
		}
	}
	for _, dir := range append(slices.Clone(programDirs), filepath.SplitList(s.Path)...) {
		add(dir)
	}
	for _, f := range folders {
		add(f.path)
		if slices.Contains(f.names, "libcuda.so."+v) {
			add(filepath.Join(f.path, "../bin"))
		}
	}
	var list []DriverFile
	for _, p := range driverPrograms {
		real, size := s.findProgram(p.name, dirs, func(path string) bool { return runsWith(path, glibc) && containsVersion(path, v) })
		if at := slices.IndexFunc(list, func(f DriverFile) bool { return f.Name == p.leader }); real == "" && at >= 0 {
			real, size = s.findProgram(p.name, s.foldersBeside(list[at].Source), func(path string) bool { return runsWith(path, glibc) })
		}
		if real != "" {
			list = append(list, DriverFile{Source: real, Dir: "bin", Name: p.name, Size: size, Capability: p.capability})
		}
	}
	return list
}

// findProgram returns the first accepted program of that name and its size, or "".
func (s DriverSearch) findProgram(name string, dirs []libraryFolder, accepts func(path string) bool) (string, int64) {
	for _, dir := range dirs {
		real, info, err := dir.resolveFile(s.Root, name)
		if err == nil && info.Mode()&0o111 != 0 && accepts(real) {
			return real, info.Size()
		}
	}
	return "", 0
}

// foldersBeside returns the folder of a program and, as Debian has the server of MPS there
// and its control program in bin, the folder sbin beside it.
func (s DriverSearch) foldersBeside(program string) (list []libraryFolder) {
	dir := filepath.Dir(program)
	for _, real := range []string{dir, filepath.Join(dir, "../sbin")} {
		list = append(list, libraryFolder{path: belowRoot(s.Root, real), resolved: real})
	}
	return list
}

// runsWith reports whether a file is a program for this machine that needs no newer glibc: a
// script, or an ELF file.
func runsWith(path string, glibc []int) bool {
	f, err := elffile.Open(path)
	if err == nil {
		defer f.Close()
		needed, err := elffile.NeededGlibc(f)
		return err == nil && f.Machine == elffile.HostMachine(elf.ELFCLASS64) && slices.Compare(needed, glibc) <= 0
	}
	text, err := os.Open(path)
	if err != nil {
		return false
	}
	defer text.Close()
	start := make([]byte, 2)
	_, err = io.ReadFull(text, start)
	return err == nil && string(start) == "#!"
}

// maxSearchedBytes bounds how much of a file containsVersion reads. The largest program
// of a driver has some MiB.
const maxSearchedBytes = 64 << 20

// containsVersion reports whether a file contains a version as text: 535.104.05, but not
// 1535.104.05 or 535.104.051.
func containsVersion(path, v string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	// hasVersion looks at a byte in front of the text and two behind it.
	r := bufio.NewReaderSize(io.MultiReader(strings.NewReader("\x00"), io.LimitReader(f, maxSearchedBytes), strings.NewReader("\x00\x00")), 1<<20)
	for {
		window, err := r.Peek(r.Size())
		if hasVersion(window, v) {
			return true
		}
		if err != nil {
			return false
		}
		if _, err := r.Discard(len(window) - len(v) - 2); err != nil {
			return false
		}
	}
}

// hasVersion looks for a version that is no part of a longer one. A sentence may end
// with it.
func hasVersion(text []byte, v string) bool {
	isPart := func(b byte) bool { return b == '.' || '0' <= b && b <= '9' }
	for {
		at := bytes.Index(text, []byte(v))
		if at < 0 || len(text) < at+len(v)+2 {
			return false
		}
		next := text[at+len(v):]
		if at > 0 && !isPart(text[at-1]) && (!isPart(next[0]) || next[0] == '.' && !isPart(next[1])) {
			return true
		}
		text = text[at+1:]
	}
}
