package volumemgr

import (
	"debug/elf"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"mesos-gpu/internal/atomicfile"
)

// simulatedSMI is a script that lists the GPU nodes that the caller may open.
//
//go:embed nvidia-smi.sh
var simulatedSMI string

// simulatedLibraries are libraries of a driver with their real SONAMEs.
var simulatedLibraries = map[string]string{
	"libcuda.so":                   "libcuda.so.1",
	"libnvidia-ml.so":              "libnvidia-ml.so.1",
	"libnvidia-ptxjitcompiler.so":  "libnvidia-ptxjitcompiler.so.1",
	"libnvidia-encode.so":          "libnvidia-encode.so.1",
	"libnvcuvid.so":                "libnvcuvid.so.1",
	"vdpau/libvdpau_nvidia.so":     "libvdpau_nvidia.so.1",
	"libnvidia-fatbinaryloader.so": "libnvidia-fatbinaryloader.so.VERSION",
}

// WriteSimulatedDriver writes a simulated driver of that version below dir, for
// machines without one. Find and Create treat it like a real driver of 64 and 32
// bits. Its libraries can be loaded and export nothing.
func WriteSimulatedDriver(dir, v string) error {
	if !versionPattern.MatchString(v) {
		return fmt.Errorf("simulate a driver: %q is not a driver version", v)
	}
	kernel := "NVRM version: NVIDIA UNIX x86_64 Kernel Module  " + v + "  SIMULATED\nGCC version:  SIMULATED\n"
	files := map[string]struct {
		text string
		mode os.FileMode
	}{
		"proc/driver/nvidia/version": {kernel, 0o444},
		"usr/bin/nvidia-smi":         {strings.ReplaceAll(simulatedSMI, "VERSION", v), 0o755},
		"usr/bin/nvidia-debugdump":   {"#!/bin/sh\necho 'SIMULATED nvidia-debugdump " + v + "'\n", 0o755},
	}
	for name, soname := range simulatedLibraries {
		soname = strings.ReplaceAll(soname, "VERSION", v)
		for arch, class := range map[string]elf.Class{"x86_64-linux-gnu": elf.ELFCLASS64, "i386-linux-gnu": elf.ELFCLASS32} {
			path := "usr/lib/" + arch + "/" + name + "." + v
			file := files[path]
			file.text, file.mode = string(sharedObject(class, soname)), 0o644
			files[path] = file
		}
	}
	for path, f := range files {
		if err := writeSimulated(filepath.Join(dir, path), f.text, f.mode); err != nil {
			return fmt.Errorf("simulate a driver: %w", err)
		}
	}
	return nil
}

// writeSimulated replaces a file atomically. It does not change the old file, to
// which a volume may have a hard link.
func writeSimulated(path, text string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if now, err := os.ReadFile(path); err == nil && string(now) == text {
		return nil
	}
	return atomicfile.Replace(path, []byte(text), mode)
}
