// Package nvmltest makes a stand-in for libnvidia-ml.so.1, so that tests take
// the real path through the loader and NVML's C functions on a machine that
// has no driver. What it reports stands in a file that each nvmlInit reads.
package nvmltest

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/need"
)

// Variable is the environment variable that names the file. The library reads
// it, in whatever process loads it.
const Variable = "MESOS_GPU_NVML_STANDIN"

//go:embed testdata/nvml.c
var source string

// Build compiles the library into dir and returns its path. flags go to gcc:
// "-DWITHOUT_CUDA" leaves a function out, as an old driver does.
func Build(t testing.TB, dir string, flags ...string) string {
	t.Helper()
	gcc := need.Program(t, "gcc", "gcc")
	c := filepath.Join(dir, "nvml.c")
	if err := os.WriteFile(c, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	so := filepath.Join(dir, "libnvidia-ml.so.1")
	args := append([]string{"-shared", "-fPIC", "-Wall", "-Werror", "-Wl,-soname,libnvidia-ml.so.1", "-o", so, c}, flags...)
	if out, err := exec.Command(gcc, args...).CombinedOutput(); err != nil {
		t.Fatalf("compile the stand-in: %v\n%s", err, out)
	}
	return so
}

// Fail makes a function return an NVML error number: for every device, or
// for the one with that index.
type Fail struct {
	Function string
	Index    int // -1: all
	Return   int
}

// Report sets what the library reports in this process and its children
// until the test ends. Of the devices' fields, NUMA is not NVML's to report.
func Report(t *testing.T, h gpu.Host, fails ...Fail) {
	t.Helper()
	var text strings.Builder
	major, minor, _ := strings.Cut(h.CUDA, ".")
	fmt.Fprintf(&text, "driver %s\ncuda %s %s\n", h.Driver, major, minor)
	for _, d := range h.Devices {
		fmt.Fprintf(&text, "gpu %s %d %d %s %s\n", d.UUID, d.MemMiB, d.Minor, d.PCI, d.Model)
	}
	for _, f := range fails {
		fmt.Fprintf(&text, "fail %s %d %d\n", f.Function, f.Index, f.Return)
	}
	path := filepath.Join(t.TempDir(), "nvml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(Variable, path)
}
