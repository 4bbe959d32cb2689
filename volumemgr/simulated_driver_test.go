package volumemgr

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/internal/testing/testneeds"
)

func TestSharedObject(t *testing.T) {
	for _, class := range []elf.Class{elf.ELFCLASS32, elf.ELFCLASS64} {
		path := filepath.Join(t.TempDir(), "lib.so")
		mustWrite(t, path, string(sharedObject(class, "libsome.so.1")))
		f, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		soname, err := f.DynString(elf.DT_SONAME)
		if err != nil || len(soname) != 1 || soname[0] != "libsome.so.1" {
			t.Errorf("%s: SONAME %q, %v", class, soname, err)
		}
		if f.Type != elf.ET_DYN || f.Class != class {
			t.Errorf("got %s of %s, want a shared object of %s", f.Type, f.Class, class)
		}
	}
}

// The host's loader loads the library, and ldconfig reads its SONAME.
func TestLoaderAcceptsSharedObject(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the simulated libraries are for x86-64")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "libsome.so.9")
	mustWrite(t, path, string(sharedObject(elf.ELFCLASS64, "libsome.so.1")))
	cmd := exec.Command(testneeds.RequireProgram(t, "true", "coreutils"))
	cmd.Env = []string{"LD_PRELOAD=" + path}
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("the loader says %q, %v", out, err)
	}
	t.Setenv("PATH", os.Getenv("PATH")+":/sbin:/usr/sbin")
	if out, err := exec.Command(testneeds.RequireProgram(t, "ldconfig", "libc-bin"), "-n", dir).CombinedOutput(); err != nil {
		t.Errorf("ldconfig: %v\n%s", err, out)
	}
	if target, err := os.Readlink(filepath.Join(dir, "libsome.so.1")); err != nil || target != "libsome.so.9" {
		t.Errorf("ldconfig made the link to %q, %v", target, err)
	}
}

func TestWriteSimulatedDriverTwice(t *testing.T) {
	dir := simulatedRoot(t)
	before := readTree(t, dir)
	if err := WriteSimulatedDriver(dir, v535); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, readTree(t, dir)); diff != "" {
		t.Errorf("the second time changed (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"", "535", "../535.1", "535.1/x", "535.1\n"} {
		if err := WriteSimulatedDriver(dir, bad); err == nil {
			t.Errorf("version %q was taken", bad)
		}
	}
	if err := WriteSimulatedDriver("/dev/null", v535); err == nil {
		t.Error("a driver was written below a file")
	}
}

// runSMI runs the simulated nvidia-smi with a folder as /dev.
func runSMI(t *testing.T, dev string) (string, error) {
	t.Helper()
	cmd := exec.Command(filepath.Join(simulatedRoot(t), "usr/bin/nvidia-smi"))
	cmd.Env = []string{"MESOS_GPU_DEV=" + dev, "PATH=/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestSimulatedSMIWithoutGPUs(t *testing.T) {
	dev := t.TempDir()
	mustWrite(t, filepath.Join(dev, "nvidia0"), "no device")
	out, err := runSMI(t, dev)
	if err == nil || !strings.Contains(out, "SIMULATED") || !strings.Contains(out, "No devices were found") {
		t.Errorf("got %v and\n%s", err, out)
	}
}
