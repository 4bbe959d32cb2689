package limiter

import (
	"bytes"
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mesos-gpu/internal/testing/realdriver"
)

// readHooks returns the functions of src/hooks.def for a library, cuda or nvml, with whether programs get the limiter's.
func readHooks(t *testing.T, library string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("src/hooks.def")
	if err != nil {
		t.Fatal(err)
	}
	functions := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		for _, kind := range []string{"HOOK", "USE"} {
			if rest, ok := strings.CutPrefix(line, kind+"("+library+", "); ok {
				name, _, _ := strings.Cut(rest, ")")
				functions[name] = kind == "HOOK"
			}
		}
	}
	return functions
}

// readUnhookedFunctions returns the functions of libcuda that were checked and need no hook.
func readUnhookedFunctions(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("testdata/unhooked_functions.txt")
	if err != nil {
		t.Fatal(err)
	}
	functions := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "#") {
			for name := range strings.FieldsSeq(line) {
				if functions[name] {
					t.Errorf("unhooked_functions.txt lists %s twice", name)
				}
				functions[name] = true
			}
		}
	}
	return functions
}

// exportedFunctions returns the names that a library exports, without those of the debugger's interface.
func exportedFunctions(t *testing.T, path string) []string {
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
	names := map[string]bool{}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC && !strings.HasPrefix(s.Name, "cudbg") {
			names[s.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// uncheckedFunctions returns the functions that are neither hooked nor known to need no hook.
func uncheckedFunctions(exported []string, hooks, unhooked map[string]bool) []string {
	return slices.DeleteFunc(slices.Clone(exported), func(name string) bool { return hooks[name] || unhooked[name] })
}

// A function of a new driver, such as one that allocates, is found by its name until it is hooked or checked, also if it is a new
// version of a function that needs no hook. No function is both hooked and listed as needing no hook.
func TestNewFunctionOfDriverIsFound(t *testing.T) {
	hooks, unhooked := readHooks(t, "cuda"), readUnhookedFunctions(t)
	for name, hooked := range hooks {
		if hooked && unhooked[name] {
			t.Errorf("%s is hooked and in unhooked_functions.txt", name)
		}
	}
	exported := []string{"cuInit", "cuMemAlloc_v2", "cuMemAlloc_v3", "cuMemAllocOnMoon", "cuMemcpyAsync_v9", "cuStreamGetCtx"}
	if got, want := uncheckedFunctions(exported, hooks, unhooked), []string{"cuMemAlloc_v3", "cuMemAllocOnMoon", "cuMemcpyAsync_v9"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Each function that a real driver exports is hooked, or was checked and needs no hook.
func TestRealDriverFunctionsAreChecked(t *testing.T) {
	hooks, unhooked := readHooks(t, "cuda"), readUnhookedFunctions(t)
	all := map[string]bool{}
	for _, driver := range realdriver.Names() {
		exported := exportedFunctions(t, realdriver.Library(t, driver, "libcuda.so.1"))
		for _, name := range exported {
			all[name] = true
		}
		for _, name := range uncheckedFunctions(exported, hooks, unhooked) {
			t.Errorf("driver %s exports %s: hook it, or list it in unhooked_functions.txt with why the limit holds without a hook",
				realdriver.Version(t, driver), name)
		}
	}
	for name := range unhooked {
		if !all[name] {
			t.Errorf("unhooked_functions.txt lists %s, which no driver exports", name)
		}
	}
}

// The stand-ins of drivers lack exactly the functions of src/hooks.def that the real ones lack.
func TestRealDriverStandInsExportTheSame(t *testing.T) {
	hooks := readHooks(t, "cuda")
	for driver, profile := range map[string]string{"tesla-470": "470", "tesla-535": "535", "535": "535", "550": "550"} {
		text, err := os.ReadFile("testdata/standin/absent-" + profile)
		if err != nil {
			t.Fatal(err)
		}
		exported := exportedFunctions(t, realdriver.Library(t, driver, "libcuda.so.1"))
		var want []string
		for _, name := range slices.Sorted(maps.Keys(hooks)) {
			if !slices.Contains(exported, name) {
				want = append(want, name)
			}
		}
		if got := strings.Fields(string(text)); !slices.Equal(got, want) {
			t.Errorf("absent-%s has %v, driver %s lacks %v", profile, got, driver, want)
		}
	}
}

// With the limiter, cuGetProcAddress of a real driver answers for each name, version and stream variant as without it, and each
// hooked function that is called without a device returns the driver's error, except those of CUDA 3.1, which are refused.
func TestRealDriverAnswersAreTheSameWithLimiter(t *testing.T) {
	for _, driver := range realdriver.Names() {
		t.Run(driver, func(t *testing.T) {
			library := realdriver.Library(t, driver, "libcuda.so.1")
			c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(256*mib, 100))
			preload := c.copyWithPaths("real-clock.so")
			run := func(env ...string) []string {
				cmd := exec.Command(filepath.Join(c.built, "lookups"), exportedFunctions(t, library)...)
				cmd.Env = append([]string{"LD_LIBRARY_PATH=" + filepath.Dir(library), "PATH=" + os.Getenv("PATH")}, env...)
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%v\n%s%s", err, out[max(0, len(out)-200):], stderr.Bytes())
				}
				if stderr.Len() > 0 {
					t.Errorf("the limiter writes %s", stderr.Bytes())
				}
				return strings.Split(strings.TrimSpace(string(out)), "\n")
			}
			without, with := run(), run("LD_PRELOAD="+preload)
			if len(without) < 3000 {
				t.Errorf("got %d answers of the driver, want thousands", len(without))
			}
			if len(without) != len(with) {
				t.Fatalf("got %d answers without the limiter, %d with it", len(without), len(with))
			}
			for i, want := range without {
				name, _, _ := strings.Cut(want, " ")
				refused := !strings.Contains(name, "_v") && with[i] == name+" without a device: 801"
				// The driver may check its other arguments first.
				uninitialized := want == name+" without a device: 1" && with[i] == name+" without a device: 3"
				if got := with[i]; got != want && !refused && !uninitialized {
					t.Errorf("with the limiter %q, without it %q", got, want)
				}
			}
			realdriver.Record(t, driver, realdriver.Limiter, fmt.Sprintf("(%d equal answers)", len(with)), true)
		})
	}
}
