// Package elffile reads ELF files that this machine may load: libraries and
// programs of drivers. It reads headers only, and loads nothing.
package elffile

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// ErrTruncated is wrapped by the error about a file that ends before its content
// does, for example because the disk was full. Using the missing part of a mapped
// file ends a process with SIGBUS.
var ErrTruncated = errors.New("is truncated")

// Open opens an ELF file all of whose segments and sections are in the file.
// The error is ErrTruncated if they are not, and an *elf.FormatError if it is no
// ELF file.
func Open(path string) (*elf.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	f, err := elf.Open(path)
	switch {
	case info.Size() > 0 && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
		return nil, fmt.Errorf("it %w after %d bytes: its headers refer to more", ErrTruncated, info.Size())
	case err != nil:
		return nil, err
	}
	if end := contentEnd(f); end > uint64(info.Size()) {
		f.Close()
		return nil, fmt.Errorf("it %w: it has %d bytes, its content ends at %d", ErrTruncated, info.Size(), end)
	}
	return f, nil
}

// contentEnd returns the end of the last segment or section.
func contentEnd(f *elf.File) (end uint64) {
	for _, p := range f.Progs {
		end = max(end, p.Off+p.Filesz)
	}
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOBITS {
			end = max(end, s.Offset+s.FileSize)
		}
	}
	return end
}

// NeededGlibc returns the oldest version of glibc with which the loader accepts a file,
// 2.34 as [2 34]; nil if it needs no version.
func NeededGlibc(f *elf.File) ([]int, error) {
	if f.SectionByType(elf.SHT_GNU_VERNEED) == nil {
		return nil, nil
	}
	needs, err := f.DynamicVersionNeeds()
	if err != nil {
		return nil, err
	}
	var newest []int
	for _, n := range needs {
		for _, v := range n.Needs {
			if v.Dep == "GLIBC_ABI_DT_RELR" { // relocations that glibc 2.36 reads first
				v.Dep = "GLIBC_2.36"
			}
			text, ok := strings.CutPrefix(v.Dep, "GLIBC_")
			var numbers []int
			for part := range strings.SplitSeq(text, ".") {
				number, err := strconv.Atoi(part)
				ok = ok && err == nil // false for GLIBC_PRIVATE
				numbers = append(numbers, number)
			}
			if ok && slices.Compare(numbers, newest) > 0 {
				newest = numbers
			}
		}
	}
	return newest, nil
}

// HostMachine returns the machine of programs with that word size on this
// architecture, and elf.EM_NONE if there are none.
func HostMachine(class elf.Class) elf.Machine {
	machines := map[string][2]elf.Machine{
		"amd64": {elf.EM_386, elf.EM_X86_64}, "arm64": {elf.EM_ARM, elf.EM_AARCH64}, "ppc64le": {elf.EM_NONE, elf.EM_PPC64},
	}[runtime.GOARCH]
	switch class {
	case elf.ELFCLASS32:
		return machines[0]
	case elf.ELFCLASS64:
		return machines[1]
	}
	return elf.EM_NONE
}
