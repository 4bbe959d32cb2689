package volumemgr

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mesos-gpu/internal/elffile"
	"mesos-gpu/internal/testing/testneeds"
)

// realPackages are Debian's packages of NVIDIA's drivers, by the folder of the driver. They are downloaded by apt into the
// user's cache, and unpacked without their scripts; the tests make the links of these.
var realPackages = map[string][]string{
	"current": {"libcuda1", "libnvidia-ml1", "libnvidia-ptxjitcompiler1", "nvidia-smi", "nvidia-cuda-mps"},
	"tesla-470": {
		"libnvidia-tesla-470-cuda1", "libnvidia-tesla-470-ml1", "libnvidia-tesla-470-glcore", "nvidia-tesla-470-smi",
	},
	"tesla-535": {"libnvidia-tesla-535-cuda1", "libnvidia-tesla-535-ml1", "libnvidia-tesla-535-glcore", "nvidia-tesla-535-smi"},
	// What the distribution built.
	"host": {"libnvidia-egl-wayland1", "libglvnd0", "libglx0"},
}

// driverCache returns the folder with unpacked packages, by the name of the driver's folder. The test is skipped without apt,
// or if the packages cannot be downloaded.
func driverCache(t *testing.T) string {
	t.Helper()
	if os.Getenv("MESOS_GPU_TEST_DRIVER") == "" {
		t.Skip("needs NVIDIA's drivers: make test-driver downloads 39 MB of Debian's packages")
	}
	base, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("needs a cache folder: %v", err)
	}
	cache := filepath.Join(base, "mesos-gpu", "drivers", "bookworm")
	done := filepath.Join(cache, "unpacked-1")
	if _, err := os.Stat(done); err == nil {
		return done
	}
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		testneeds.RequireProgram(t, program, "apt")
	}
	apt := func(dir string, args ...string) {
		cmd := exec.Command("apt-get", append([]string{
			"-o", "Dir::Etc::sourcelist=" + cache + "/sources.list", "-o", "Dir::Etc::sourceparts=-", "-o", "Dir::State=" + cache,
			"-o", "Dir::State::status=" + cache + "/status", "-o", "Dir::Cache=" + cache, "-o", "APT::Architecture=amd64",
			"-o", "APT::Architectures=amd64", "-o", "Acquire::Languages=none", "-o", "APT::Sandbox::User=",
		}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("needs Debian's packages from the network: apt-get %s: %v\n%s", args[0], err, out)
		}
	}
	const key = "/usr/share/keyrings/debian-archive-keyring.gpg"
	if _, err := os.Stat(key); err != nil {
		t.Skipf("needs the keys of Debian's archive: %v", err)
	}
	archives := filepath.Join(cache, "archives")
	for _, dir := range []string{"lists/partial", "archives/partial"} {
		if err := os.MkdirAll(filepath.Join(cache, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mustWrite(t, filepath.Join(cache, "status"), "")
	mustWrite(t, filepath.Join(cache, "sources.list"), "deb [signed-by="+key+"] http://deb.debian.org/debian bookworm main non-free\n")
	apt(cache, "update")
	stage, err := os.MkdirTemp(cache, "unpacking-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(stage)
	apt(archives, append([]string{"download"}, slices.Concat(slices.Collect(maps.Values(realPackages))...)...)...)
	for folder, packages := range realPackages {
		for _, name := range packages {
			found, err := filepath.Glob(filepath.Join(archives, name+"_*.deb"))
			if err != nil || len(found) == 0 {
				t.Fatalf("%s was not downloaded: %v", name, err)
			}
			if out, err := exec.Command("dpkg-deb", "-x", found[len(found)-1], filepath.Join(stage, folder)).CombinedOutput(); err != nil {
				t.Fatalf("unpack %s: %v\n%s", name, err, out)
			}
		}
	}
	if err := os.Rename(stage, done); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.ENOTEMPTY) {
		t.Fatal(err)
	}
	return done
}

// installReal returns a root with the drivers of these folders and what the distribution built, and the drivers' versions by folder.
func installReal(t *testing.T, folders ...string) (root string, versions map[string]string) {
	t.Helper()
	cache := driverCache(t)
	root, versions = t.TempDir(), map[string]string{}
	for _, folder := range append(folders, "host") {
		if out, err := exec.Command("cp", "-a", filepath.Join(cache, folder)+"/.", root).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		found, err := filepath.Glob(filepath.Join(root, amd64, "nvidia", folder, "libcuda.so.*.*"))
		if folder != "host" && (err != nil || len(found) != 1) {
			t.Fatalf("libcuda of %s: %v, %v", folder, found, err)
		}
		for _, path := range found {
			versions[folder] = strings.TrimPrefix(filepath.Base(path), "libcuda.so.")
		}
	}
	return root, versions
}

// linkAlternative makes the links that Debian's scripts make for a driver.
func linkAlternative(t *testing.T, root, folder string) {
	t.Helper()
	for link, target := range map[string]string{
		amd64 + "libcuda.so.1": amd64 + "nvidia/" + folder + "/libcuda.so.1", amd64 + "libnvidia-ml.so.1": amd64 + "nvidia/" + folder + "/libnvidia-ml.so.1",
		"usr/bin/nvidia-smi": "usr/lib/nvidia/" + folder + "/nvidia-smi",
	} {
		alternative := "/etc/alternatives/nvidia--" + filepath.Base(link)
		mustLink(t, "/"+target, filepath.Join(root, alternative))
		mustLink(t, alternative, filepath.Join(root, link))
	}
}

// The volume of each of Debian's drivers has all files of its version with their SONAMEs as links, and the right nvidia-smi, also
// beside a driver of another version and whichever the alternatives select. Nothing needs a newer glibc than NVIDIA's libraries.
func TestRealDriverVolume(t *testing.T) {
	driverCache(t) // skipped once, not for each case
	for _, c := range []struct {
		folders             []string
		alternative, module string
	}{
		{[]string{"current"}, "current", "current"},
		{[]string{"tesla-470"}, "tesla-470", "tesla-470"},
		{[]string{"tesla-535"}, "tesla-535", "tesla-535"},
		{[]string{"tesla-470"}, "tesla-470", ""},
		{[]string{"tesla-470", "tesla-535"}, "tesla-470", "tesla-535"},
		{[]string{"current", "tesla-470"}, "current", "tesla-470"},
		{[]string{"current", "tesla-470"}, "tesla-470", "current"},
	} {
		t.Run(fmt.Sprintf("%s, alternative %s, module %s", strings.Join(c.folders, " and "), c.alternative, c.module), func(t *testing.T) {
			root, versions := installReal(t, c.folders...)
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
					want = append(want, filepath.Base(path))
				}
				return err
			}
			if err := filepath.WalkDir(filepath.Join(root, "usr/lib"), walk); err != nil {
				t.Fatal(err)
			}
			for _, name := range want {
				f, err := elffile.Open(filepath.Join(volume.Path, "lib64", name))
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				sonames, _ := f.DynString(elf.DT_SONAME)
				f.Close()
				for _, soname := range sonames {
					if _, err := os.Stat(filepath.Join(volume.Path, "lib64", soname)); err != nil {
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
	after, _ := installReal(t, "current")
	linkAlternative(t, after, "current")
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
	for _, folder := range []string{"current", "tesla-470"} {
		root, _ := installReal(t, folder)
		linkAlternative(t, root, folder)
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
			t.Errorf("%s: %v\n%s", folder, err, text)
		}
	}
}
