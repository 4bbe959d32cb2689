// Package nvmltest makes a stand-in for libnvidia-ml.so.1, so that tests take
// the real path through the loader and NVML's C functions on a machine that
// has no driver. What it reports stands in a file that it reads again when
// the file changes: a Machine heats, fills, hangs and loses its devices while
// a program holds the library.
package nvmltest

import (
	"embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"mesos-gpu/internal/testneeds"
)

// StateVariable is the environment variable that names the file. The library reads
// it at each nvmlInit, in whatever process loads it.
const StateVariable = "MESOS_GPU_NVML_STANDIN"

//go:embed testdata
var sources embed.FS

// BuildLibrary compiles the library into dir and returns its path. flags go to gcc:
// "-DDRIVER_390" leaves out what drivers of that age lack, "-DDRIVER_615" adds
// what came with that, kept while the library is loaded, and "-DWITHOUT_CUDA"
// lacks a function that none may lack.
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
