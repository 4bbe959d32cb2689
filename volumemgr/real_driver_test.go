package volumemgr

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mesos-gpu/internal/elffile"
	"mesos-gpu/internal/testing/realdriver"
	"mesos-gpu/internal/testing/testneeds"
)

// installReal returns a root with these drivers and what the distribution built, and the drivers' versions by name.
func installReal(t *testing.T, names ...string) (root string, versions map[string]string) {
	t.Helper()
	root, versions = t.TempDir(), map[string]string{}
	for _, name := range append(names, "host") {
		_, from := realdriver.Find(t, name)
		if out, err := exec.Command("cp", "-a", from+"/.", root).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if name != "host" {
			versions[name] = realdriver.Version(t, name)
		}
	}
	return root, versions
}

// linkAlternative makes the links that Debian's scripts make for a driver.
func linkAlternative(t *testing.T, root, name string) {
	t.Helper()
	driver, _ := realdriver.Find(t, name)
	folder := driver.Alternative
	for link, target := range map[string]string{
		amd64 + "libcuda.so.1": amd64 + "nvidia/" + folder + "/libcuda.so.1", amd64 + "libnvidia-ml.so.1": amd64 + "nvidia/" + folder + "/libnvidia-ml.so.1",
		"usr/bin/nvidia-smi": "usr/lib/nvidia/" + folder + "/nvidia-smi",
	} {
		alternative := "/etc/alternatives/nvidia--" + filepath.Base(link)
		mustLink(t, "/"+target, filepath.Join(root, alternative))
		mustLink(t, alternative, filepath.Join(root, link))
	}
}

// The volume of each of Debian's drivers has all files of its version, of 32 bits too, with their SONAMEs as links, and the right nvidia-smi, also
// beside a driver of another version and whichever the alternatives select. Nothing needs a newer glibc than NVIDIA's libraries.
func TestRealDriverVolume(t *testing.T) {
	realdriver.Find(t, "535") // skipped once, not for each case
	for _, c := range []struct {
		drivers             []string
		alternative, module string
	}{
		{[]string{"535"}, "535", "535"},
		{[]string{"tesla-470"}, "tesla-470", "tesla-470"},
		{[]string{"tesla-535"}, "tesla-535", "tesla-535"},
		{[]string{"550"}, "550", "550"},
		{[]string{"535", "535-i386"}, "535", "535"},
		{[]string{"tesla-470"}, "tesla-470", ""},
		{[]string{"tesla-470", "tesla-535"}, "tesla-470", "tesla-535"},
		{[]string{"535", "tesla-470"}, "535", "tesla-470"},
		{[]string{"535", "tesla-470"}, "tesla-470", "535"},
	} {
		t.Run(fmt.Sprintf("%s, alternative %s, module %s", strings.Join(c.drivers, " and "), c.alternative, c.module), func(t *testing.T) {
			root, versions := installReal(t, c.drivers...)
			linkAlternative(t, root, c.alternative)
			v := versions[c.alternative]
			if c.module != "" {
				v = versions[c.module]
				writeModule(t, root, v)
			}
			s := Store{Dir: t.TempDir()}
			volume, err := EnsureVolume(t.Context(), DriverSearch{Root: root, Warn: func(path string, reason error) { t.Errorf("left out: %s: %v", path, reason) }}, s)
			if err != nil || volume.Version != v {
				t.Fatalf("volume of %q, %v; want %s", volume.Version, err, v)
			}
			var want []string
			walk := func(path string, e fs.DirEntry, err error) error {
				if err == nil && e.Type().IsRegular() && strings.HasSuffix(path, ".so."+v) {
					want = append(want, path)
				}
				return err
			}
			if err := filepath.WalkDir(filepath.Join(root, "usr/lib"), walk); err != nil {
				t.Fatal(err)
			}
			for _, source := range want {
				name, dir := filepath.Base(source), "lib64"
				if strings.Contains(source, "/i386-linux-gnu/") {
					dir = "lib"
				}
				f, err := elffile.Open(filepath.Join(volume.Path, dir, name))
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				sonames, _ := f.DynString(elf.DT_SONAME)
				f.Close()
				for _, soname := range sonames {
					if _, err := os.Stat(filepath.Join(volume.Path, dir, soname)); err != nil {
						t.Errorf("%s is not loaded by its SONAME: %v", name, err)
					}
				}
			}
			if text, err := os.ReadFile(filepath.Join(volume.Path, "bin/nvidia-smi")); err != nil || !bytes.Contains(text, []byte(v)) {
				t.Errorf("nvidia-smi is not of version %s: %v", v, err)
			}
			if damage := mustVerify(t, s, volume.Name); len(damage) > 0 {
				t.Errorf("verify: %v", damage)
			}
			if len(c.drivers) == 1 && c.module != "" {
				realdriver.Record(t, c.module, realdriver.Volume, fmt.Sprintf("(%d libraries)", len(want)), true)
			}
			for _, name := range listNamesInside(volume.Path, "lib64") {
				if strings.Contains(name, "GLX.so") || strings.Contains(name, "GLdispatch") || strings.Contains(name, "wayland") {
					t.Errorf("%s is the distribution's", name)
				}
			}
		})
	}
}

// After an upgrade of the packages without a restart there is no volume of the module's version, and an existing one is used.
func TestRealDriverUpgradeWithoutRestart(t *testing.T) {
	before, versions := installReal(t, "tesla-535")
	linkAlternative(t, before, "tesla-535")
	after, _ := installReal(t, "535")
	linkAlternative(t, after, "535")
	writeModule(t, after, versions["tesla-535"])
	s := Store{Dir: t.TempDir()}
	if _, err := EnsureVolume(t.Context(), DriverSearch{Root: after}, s); !errors.As(err, new(*IncompleteDriverError)) {
		t.Errorf("got %v", err)
	}
	volume, err := EnsureVolume(t.Context(), DriverSearch{Root: before}, s)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := EnsureVolume(t.Context(), DriverSearch{Root: after}, s); err != nil || got != volume {
		t.Errorf("got %v, %v; want the existing volume", got, err)
	}
}

// nvidia-smi of the volume starts in a root that has nothing but the volume and glibc: without a GPU it reports that it cannot
// communicate with the driver.
func TestRootRealDriverStartsInContainer(t *testing.T) {
	testneeds.RequireRoot(t)
	for _, name := range []string{"tesla-470", "535", "550"} {
		root, _ := installReal(t, name)
		linkAlternative(t, root, name)
		volume, err := EnsureVolume(t.Context(), DriverSearch{Root: root}, Store{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		container := t.TempDir()
		smi := filepath.Join(volume.Path, "bin/nvidia-smi")
		out, err := exec.Command("ldd", smi).Output()
		if err != nil {
			t.Skipf("needs ldd and glibc for amd64: %v", err)
		}
		var glibc []string
		for word := range strings.FieldsSeq(string(out)) {
			if strings.HasPrefix(word, "/") && !slices.Contains(glibc, word) {
				glibc = append(glibc, word)
			}
		}
		for _, path := range append(glibc, "/lib/x86_64-linux-gnu/libdl.so.2", "/lib/x86_64-linux-gnu/libpthread.so.0", "/lib/x86_64-linux-gnu/librt.so.1") {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := writeSimulated(filepath.Join(container, path), string(text), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := exec.Command("cp", "-a", volume.Path+"/.", filepath.Join(container, "nvidia")).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		cmd := exec.Command("/nvidia/bin/nvidia-smi")
		cmd.SysProcAttr = &unix.SysProcAttr{Chroot: container}
		cmd.Env = []string{"LD_LIBRARY_PATH=/nvidia/lib64:/lib/x86_64-linux-gnu"}
		cmd.Dir = "/"
		text, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 9 || !strings.Contains(string(text), "NVIDIA driver") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		realdriver.Record(t, name, realdriver.Container, "", true)
	}
}
