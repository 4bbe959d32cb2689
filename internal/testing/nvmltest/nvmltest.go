// Package nvmltest builds a stand-in for libnvidia-ml.so.1, so that tests use the real loader
// and NVML's C functions on a machine without a driver. The stand-in reports what is in a file,
// and reads the file again when it changes. So a FakeMachine can heat, fill, hang and lose its
// devices while a program uses the library.
package nvmltest

import (
	"embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"mesos-gpu/internal/testing/testneeds"
)

// StateVariable is the environment variable with the path of the file. The library reads it at
// each nvmlInit, in any process that loads it.
const StateVariable = "MESOS_GPU_NVML_STANDIN"

//go:embed testdata
var sources embed.FS

// BuildLibrary compiles the library into dir and returns its path. flags are for gcc:
// "-DDRIVER_390" and "-DDRIVER_470" leave out functions that such an old driver lacks, and
// "-DWITHOUT_CUDA" leaves out a function that every driver has.
func BuildLibrary(t testing.TB, dir string, flags ...string) string {
	t.Helper()
	gcc := testneeds.RequireProgram(t, "gcc", "gcc")
	for _, name := range []string{"nvml.c", "state.h", "instances.h"} {
		text, err := sources.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	so := filepath.Join(dir, "libnvidia-ml.so.1")
	args := append([]string{"-shared", "-fPIC", "-Wall", "-Werror", "-pthread", "-Wl,-soname,libnvidia-ml.so.1",
		"-o", so, filepath.Join(dir, "nvml.c")}, flags...)
	if out, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
		t.Fatalf("compile the stand-in: %v\n%s", err, out)
	}
	return so
}
