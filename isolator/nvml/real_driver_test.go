//go:build linux && cgo

package nvml

import (
	"debug/elf"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/internal/testing/nvmltest"
	"mesos-gpu/internal/testing/realdriver"
)

// missingFunctions returns which of these functions a library does not export.
func missingFunctions(t *testing.T, path string, functions []string) []string {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(slices.Clone(functions), func(name string) bool {
		return slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == name && s.Section != elf.SHN_UNDEF })
	})
}

// Real drivers have all required functions, and lack the same optional ones as the stand-in for their version. Without a kernel
// module NVML reports that.
func TestRealDriverFunctions(t *testing.T) {
	for _, driver := range realdriver.Names() {
		var flags []string
		if driver == "tesla-470" {
			flags = []string{"-DDRIVER_470"}
		}
		path := realdriver.Library(t, driver, "libnvidia-ml.so.1")
		if missing := missingFunctions(t, path, requiredFunctions); len(missing) > 0 {
			t.Errorf("driver %s lacks %v", driver, missing)
		}
		missing := missingFunctions(t, path, optionalFunctions)
		if want := missingFunctions(t, nvmltest.BuildLibrary(t, t.TempDir(), flags...), optionalFunctions); !slices.Equal(missing, want) {
			t.Errorf("driver %s lacks %v, its stand-in %v", driver, missing, want)
		}
		exception := ""
		if len(missing) > 0 {
			exception = "without " + strings.Join(missing, ", ")
		}
		realdriver.Record(t, driver, realdriver.NVML, exception, true)
		got := reportInChild(t, path, t.TempDir()).Err
		if !strings.Contains(got, "Driver Not Loaded (NVML error 9): the driver's libraries are installed, its kernel module is not loaded") {
			t.Errorf("driver %s: got %q", driver, got)
		}
	}
}

// With driver 470 GPUs are described as with newer ones, and MIG layouts need a newer driver.
func TestLibraryOfDriver470(t *testing.T) {
	m := nvmltest.ReportHost(t, hostWithMIG())
	got := reportInChild(t, nvmltest.BuildLibrary(t, t.TempDir(), "-DDRIVER_470"), m.SysRoot)
	want := reportInChild(t, nvmltest.BuildLibrary(t, t.TempDir()), m.SysRoot)
	if diff := cmp.Diff(want.Host, got.Host); diff != "" || got.Err != "" {
		t.Errorf("%s (-newer driver +470):\n%s", got.Err, diff)
	}
	s := nvmlSession{has: map[string]bool{}}
	if _, err := s.listProfiles(nil); err == nil || !strings.Contains(err.Error(), "newer than 470") {
		t.Errorf("got %v", errors.Unwrap(err))
	}
}
