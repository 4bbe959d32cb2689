package limiter

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Any damage to the files stops allocation with a message on stderr, but never the task.
func TestDamagedUsageFileStopsAllocation(t *testing.T) {
	write := func(name string, at int64, data []byte) func(*testing.T, *container) {
		return func(t *testing.T, c *container) {
			f, err := os.OpenFile(c.path(name), os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt(data, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	must := func(t *testing.T, err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	used := int64(slotsAt + 32) // the memory figures of the first slot
	for name, damage := range map[string]func(*testing.T, *container){
		"no usage file":   func(t *testing.T, c *container) { must(t, os.Remove(c.path("books"))) },
		"cut to nothing":  func(t *testing.T, c *container) { must(t, os.Truncate(c.path("books"), 0)) },
		"cut in a slot":   func(t *testing.T, c *container) { must(t, os.Truncate(c.path("books"), slotsAt+100)) },
		"another's usage": write("books", 8, []byte{1, 2, 3}),
		"another version": write("books", 0, []byte("X")),
		"another device":  write("books", 64, []byte{9}),
		"use lowered":     write("books", used, make([]byte, 8)),
		"owner wiped":     write("books", slotsAt, make([]byte, 4)),
		"all use wiped":   write("books", slotsAt, make([]byte, 256*maxSlots)),
		"free contexts":   write("books", 64+56, []byte{1, 0, 0, 0, 0}),
		"credit":          write("books", 64+24, []byte{0, 0, 0, 0, 0, 0, 0, 1}),
		"noise":           write("books", slotsAt+256*5, []byte{1, 2, 3, 4, 5, 6, 7, 8}),
		"usage file of another container": func(t *testing.T, c *container) {
			l := c.limits
			l.Nonce++
			must(t, CreateUsageFile(c.path("books"), l))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(512*mib, 100))
			holder := c.start("proc")
			holder.must(0, "ctx 0")
			holder.must(1, "alloc %d", 100*mib)
			damage(t, c)
			p := c.start("proc")
			// Random data in an unowned slot is cleared, because no process holds its
			// lock.
			if name == "noise" {
				p.must(0, "ctx 0")
				p.want(outOfMemory, 1, "alloc %d", 400*mib)
				return
			}
			if rc, _ := p.do(0, "ctx 0"); rc == 0 {
				t.Errorf("a context could be made")
			}
			if said := p.end(); strings.Count(said, "missing or damaged") != 1 {
				t.Errorf("got %q, want one line on stderr", said)
			}
			if _, most := c.deviceUsage(0); most != ctxBytes+100*mib {
				t.Errorf("the device had %d bytes taken, want %d", most, ctxBytes+100*mib)
			}
			holder.must(1, "free 1") // the holder continues
			holder.end()
		})
	}
}

func TestInvalidLimitsStopAllocation(t *testing.T) {
	good := "mesos-gpu-limits 1\nbooks 00000000d1ceb00c\ndevice " + deviceOne + " memory=536870912 cores=100\n"
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(512*mib, 100))
	for name, text := range map[string]string{
		"good":            good,
		"empty":           "",
		"newer":           strings.Replace(good, "limits 1", "limits 2", 1),
		"no end":          strings.TrimSuffix(good, "\n"),
		"unlimited":       strings.Replace(good, "536870912", "0", 1),
		"too large":       strings.Replace(good, "536870912", "18446744073709551616", 1),
		"negative":        strings.Replace(good, "536870912", "-1", 1),
		"no cores":        strings.Replace(good, " cores=100", "", 1),
		"cores":           strings.Replace(good, "cores=100", "cores=101", 1),
		"unknown flag":    strings.Replace(good, "cores=100", "cores=100 flags=unlimited", 1),
		"trailing words":  strings.Replace(good, "cores=100", "cores=100 flags=burst more", 1),
		"short UUID":      strings.Replace(good, "0fa0", "0fa", 1),
		"the same twice":  good + good[strings.Index(good, "device"):],
		"unknown line":    good + "override all\n",
		"zero byte":       good + "\x00\n",
		"other's devices": strings.Replace(good, "0fa0", "0fa7", 1),
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.Remove(c.path("limits")); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(c.path("limits"), []byte(text), 0o444); err != nil {
				t.Fatal(err)
			}
			_, err := ParseLimits([]byte(text))
			p := c.start("proc")
			rc, _ := p.do(0, "ctx 0")
			p.end()
			if wantOpen := name == "good"; (rc == 0) != wantOpen {
				t.Errorf("context: got %d", rc)
			}
			if wantErr := name != "good" && name != "other's devices"; (err != nil) != wantErr {
				t.Errorf("ParseLimits: got %v", err)
			}
		})
	}
}

// A process that closes all its files, including the usage file, gains nothing: its
// memory stays charged while it lives.
func TestClosingFilesReleasesNothing(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 4096*mib, 0, 0), newLimits(1024*mib, 100))
	a := c.start("proc")
	a.must(0, "ctx 0")
	a.must(1, "alloc %d", 800*mib)
	a.must(2, "closefiles 0")
	b := c.start("proc")
	b.must(0, "ctx 0")
	b.want(outOfMemory, 1, "alloc %d", 100*mib)
	if got, want := c.used(0), uint64(2*ctxBytes+800*mib); got != want {
		t.Errorf("the usage file has %d, want %d", got, want)
	}
	a.must(2, "closefiles 0")
	a.must(3, "alloc %d", 10*mib) // opens the usage file again
	b.want(outOfMemory, 1, "alloc %d", 90*mib)
	a.kill()
	b.must(1, "alloc %d", 900*mib)
}

// A limits file that is not on a read-only mount may have been written by the task.
func TestLimitsMustBeMountedReadOnly(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(512*mib, 100))
	c.library = c.copyWithPaths("mounted.so")
	p := c.start("proc")
	if rc, _ := p.do(0, "ctx 0"); rc == 0 {
		t.Error("a limits file that the task could have written was believed")
	}
	if said := p.end(); !strings.Contains(said, "writable") {
		t.Errorf("got %q", said)
	}
	script := `mount --bind "$1/limits" "$1/limits" && mount -o remount,bind,ro "$1/limits" && shift && exec "$@"`
	cmd := c.command("proc")
	env := append([]string{"sh", "-c", script, "sh", c.dir, "env"}, append(cmd.Env, cmd.Args...)...)
	if out, err := exec.Command("unshare", "-Urm", "true").CombinedOutput(); err != nil {
		t.Skipf("needs leave to mount: %v %s", err, out)
	}
	path, err := exec.LookPath("unshare")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path, cmd.Args, cmd.Env = path, append([]string{"unshare", "-Urm"}, env...), []string{"PATH=" + os.Getenv("PATH")}
	q := startProgram(t, cmd)
	q.must(0, "ctx 0")
	q.must(1, "alloc %d", 400*mib)
}

// Environment variables of a task, configuration files of other limiters, and later
// changes to the task's environment do not change the limit.
func TestEnvironmentAndFilesDoNotLiftTheLimit(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(256*mib, 100))
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "overrideEnv"), []byte("CUDA_DEVICE_MEMORY_LIMIT=64g\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(home, "limits")
	if err := WriteLimits(other, newLimits(900*mib, 100)); err != nil {
		t.Fatal(err)
	}
	cmd := c.command("proc")
	cmd.Dir = home
	cmd.Env = append(cmd.Env, "CUDA_DEVICE_MEMORY_LIMIT=64g", "CUDA_DISABLE_CONTROL=true", "MESOS_GPU_LIMITS="+other, "HOME="+home)
	p := startProgram(t, cmd)
	p.must(9, "setenv x")
	p.must(0, "ctx 0")
	p.want(outOfMemory, 1, "alloc %d", 193*mib)
	p.must(1, "alloc %d", 192*mib)
	library, err := os.ReadFile(c.library)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(library, []byte("getenv")) {
		t.Error("the library reads the environment")
	}
}

// A program without CUDA runs normally, and RTLD_NEXT from another preloaded library
// finds the next definition.
func TestProgramsWithoutCUDAAreUnaffected(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(256*mib, 100))
	os.Remove(c.path("limits"))
	out, err := preloadCommand(c.library, "sh", "-c", "echo fine; exit 3").CombinedOutput()
	if code := err.(*exec.ExitError).ExitCode(); code != 3 || string(out) != "fine\n" {
		t.Errorf("got %q and exit code %d", out, code)
	}
	if out, err := preloadCommand(c.library+" "+c.built+"/next.so", c.built+"/main").CombinedOutput(); err != nil {
		t.Errorf("RTLD_NEXT: %v\n%s", err, out)
	}
}

func preloadCommand(libraries, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = []string{"LD_PRELOAD=" + libraries, "PATH=" + os.Getenv("PATH")}
	return cmd
}

// The library exports exactly the functions of the table. The table contains every
// function of the fake driver that allocates memory or starts work.
func TestHookTableMatchesExports(t *testing.T) {
	text, err := os.ReadFile("src/hooks.def")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"dlsym", "dlvsym"}
	for _, m := range regexp.MustCompile(`(?m)^HOOK\(\w+, (\w+)\)`).FindAllStringSubmatch(string(text), -1) {
		want = append(want, m[1])
	}
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(256*mib, 100))
	got := exportedSymbols(t, c.library)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	takes := regexp.MustCompile(`^cu(Mem(Alloc|Create|Import|MapArray)|CtxSetLimit|MulticastBind|GraphInstantiate|Array3?D?Create|Mipmapped\w*Create|Launch|GraphLaunch|GraphAdd(Node|MemAlloc)|CtxCreate|DevicePrimaryCtxRetain|ModuleLoad|LibraryLoad|MemPoolCreate)`)
	found := 0
	for _, name := range exportedSymbols(t, filepath.Join(c.built, "libcuda.so.1")) {
		if !takes.MatchString(name) || name == "cuMemAlloc_v9" {
			continue
		}
		found++
		if !slices.Contains(want, name) {
			t.Errorf("the driver's %s is not hooked", name)
		}
	}
	if found < 30 {
		t.Errorf("found only %d functions that take memory or launch", found)
	}
}

func exportedSymbols(t *testing.T, path string) []string {
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
	var names []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Images may have an old C library. If the preload fails, there is no limit.
func TestLibraryLoadsInOldImages(t *testing.T) {
	requireBuilt(t)
	dir, err := buildTargets("limiter")
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(filepath.Join(dir, "libmesosgpu.so"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.ImportedSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		minor := strings.TrimPrefix(s.Version, "GLIBC_2.")
		n, _ := strconv.Atoi(strings.Split(minor, ".")[0])
		if n > 17 {
			t.Errorf("%s needs %s, want at most GLIBC_2.17", s.Name, s.Version)
		}
	}
	libraries, err := f.ImportedLibraries()
	if err != nil || !slices.Equal(libraries, []string{"libc.so.6"}) {
		t.Errorf("got libraries %q, %v; want libc.so.6 alone", libraries, err)
	}
}
