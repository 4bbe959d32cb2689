package elffile

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mesos-gpu/internal/testing/testneeds"
)

// A program that ends early is truncated wherever it ends. A script and an empty file are no ELF files.
func TestOpenRejectsTruncatedFiles(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(self)
	if err != nil {
		t.Fatal(err)
	}
	if want := HostMachine(f.Class); f.Machine != want || want == elf.EM_NONE {
		t.Errorf("this program is for %s, HostMachine is %s", f.Machine, want)
	}
	end := contentEnd(f)
	f.Close()
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut")
	for _, size := range []uint64{end / 4, end / 2, end - 1} {
		if err := os.WriteFile(cut, text[:size], 0o644); err != nil {
			t.Fatal(err)
		}
		if f, err := Open(cut); !errors.Is(err, ErrTruncated) {
			t.Errorf("%d of %d bytes: got %v, %v", size, end, f, err)
		}
	}
	for _, text := range []string{"", "#!/bin/sh\n"} {
		if err := os.WriteFile(cut, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if f, err := Open(cut); err == nil {
			f.Close()
			t.Errorf("%q was accepted", text)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// A library that creates a thread needs glibc 2.34, in which pthread_create moved to libc.so; one that calls nothing needs
// none.
func TestNeededGlibc(t *testing.T) {
	gcc := testneeds.RequireProgram(t, "gcc", "gcc")
	for source, want := range map[string][]int{
		"int f(void) { return 1; }": nil,
		"int pthread_create(void *, void *, void *, void *); int f(void) { return pthread_create(0, 0, 0, 0); }": {2, 34},
	} {
		path := filepath.Join(t.TempDir(), "lib.so")
		cmd := exec.Command(gcc, "-x", "c", "-shared", "-fPIC", "-nostartfiles", "-fno-builtin", "-o", path, "-")
		cmd.Stdin = strings.NewReader(source)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		got, err := NeededGlibc(f)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s\ngot %v, %v; want %v", source, got, err, want)
		}
	}
}

// Sections without bits, such as .bss, are not in the file.
func TestContentEnd(t *testing.T) {
	f := &elf.File{
		Progs: []*elf.Prog{{ProgHeader: elf.ProgHeader{Off: 10, Filesz: 5}}},
		Sections: []*elf.Section{
			{SectionHeader: elf.SectionHeader{Type: elf.SHT_NOBITS, Offset: 90, FileSize: 90}},
			{SectionHeader: elf.SectionHeader{Type: elf.SHT_PROGBITS, Offset: 20, FileSize: 3}},
		},
	}
	if got := contentEnd(f); got != 23 {
		t.Errorf("the content ends at %d, want 23", got)
	}
}
