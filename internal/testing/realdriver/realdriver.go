// Package realdriver gives tests the user-space files of NVIDIA's real drivers. apt downloads Debian's packages from
// non-free into the user's cache, with a sources list and state of its own. They are unpacked without their scripts, and
// nothing is installed. No GPU and no kernel module is needed.
package realdriver

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mesos-gpu/internal/testing/testneeds"
)

// Driver is one driver in Debian's packages, or what the distribution built to use it.
type Driver struct {
	Name         string
	Alternative  string // the folder of its files, by which Debian's alternatives name it
	suite, arch  string
	hasMain      bool // some of the packages are in the component main
	packageNames []string
}

// drivers lists the drivers by name, in the order of their releases.
var drivers = []Driver{
	{Name: "tesla-470", Alternative: "tesla-470", suite: "bookworm", arch: "amd64", packageNames: []string{
		"libnvidia-tesla-470-cuda1", "libnvidia-tesla-470-ml1", "libnvidia-tesla-470-glcore", "nvidia-tesla-470-smi",
	}},
	{Name: "tesla-535", Alternative: "tesla-535", suite: "bookworm", arch: "amd64", packageNames: []string{
		"libnvidia-tesla-535-cuda1", "libnvidia-tesla-535-ml1", "libnvidia-tesla-535-glcore", "nvidia-tesla-535-smi",
	}},
	{Name: "535", Alternative: "current", suite: "bookworm", arch: "amd64", packageNames: []string{
		"libcuda1", "libnvidia-ml1", "libnvidia-ptxjitcompiler1", "nvidia-smi", "nvidia-cuda-mps",
	}},
	{Name: "535-i386", Alternative: "current", suite: "bookworm", arch: "i386", packageNames: []string{"libcuda1", "libnvidia-ml1"}},
	{Name: "550", Alternative: "current", suite: "trixie", arch: "amd64", packageNames: []string{
		"libcuda1", "libnvidia-ml1", "libnvidia-ptxjitcompiler1", "nvidia-smi", "nvidia-cuda-mps",
	}},
	{Name: "host", suite: "bookworm", arch: "amd64", hasMain: true, packageNames: []string{"libnvidia-egl-wayland1", "libglvnd0", "libglx0"}},
}

// Names returns the names of the drivers for this machine's programs, from the oldest to the newest.
func Names() []string { return []string{"tesla-470", "tesla-535", "535", "550"} }

// Find returns the driver of a name, and the root of its unpacked packages. The test is skipped without apt, or if the packages
// cannot be downloaded.
func Find(t testing.TB, name string) (Driver, string) {
	t.Helper()
	if os.Getenv("MESOS_GPU_TEST_DRIVER") == "" {
		t.Skip("needs NVIDIA's drivers: make test-driver downloads 55 MB of Debian's packages")
	}
	for _, d := range drivers {
		if d.Name == name {
			return d, d.unpack(t)
		}
	}
	t.Fatalf("no driver is named %q", name)
	return Driver{}, ""
}

// Library returns the path of a library of the driver by its SONAME, libcuda.so.1.
func Library(t testing.TB, name, soname string) string {
	t.Helper()
	d, root := Find(t, name)
	multiarch := map[string]string{"amd64": "x86_64-linux-gnu", "i386": "i386-linux-gnu"}[d.arch]
	path, err := filepath.EvalSymlinks(filepath.Join(root, "usr/lib", multiarch, "nvidia", d.Alternative, soname))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Version returns the release of the driver, 535.261.03.
func Version(t testing.TB, name string) string {
	t.Helper()
	return strings.TrimPrefix(filepath.Base(Library(t, name, "libcuda.so.1")), "libcuda.so.")
}

// unpack returns the folder with the driver's unpacked packages, which outlives the test.
func (d Driver) unpack(t testing.TB) string {
	t.Helper()
	base, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("needs a cache folder: %v", err)
	}
	cache := filepath.Join(base, "mesos-gpu", "drivers")
	done := filepath.Join(cache, d.Name)
	if _, err := os.Stat(done); err == nil {
		return done
	}
	testneeds.RequireProgram(t, "dpkg-deb", "apt")
	stage, err := os.MkdirTemp(cacheFolder(t, cache), "unpacking-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(stage)
	packages, root := filepath.Join(stage, "packages"), filepath.Join(stage, "root")
	cacheFolder(t, packages)
	d.download(t, filepath.Join(cache, "apt-"+d.suite+"-"+d.arch), packages)
	for _, name := range d.packageNames {
		found, err := filepath.Glob(filepath.Join(packages, name+"_*.deb"))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s was not downloaded: %v, %v", name, found, err)
		}
		if out, err := exec.Command("dpkg-deb", "-x", found[0], root).CombinedOutput(); err != nil {
			t.Fatalf("unpack %s: %v\n%s", name, err, out)
		}
	}
	// Another test may have unpacked it meanwhile.
	if err := os.Rename(root, done); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.ENOTEMPTY) {
		t.Fatal(err)
	}
	return done
}

// download has apt download the driver's packages into a folder. apt's state is in another.
func (d Driver) download(t testing.TB, state, packages string) {
	t.Helper()
	testneeds.RequireProgram(t, "apt-get", "apt")
	const key = "/usr/share/keyrings/debian-archive-keyring.gpg"
	if _, err := os.Stat(key); err != nil {
		t.Skipf("needs the keys of Debian's archive: %v", err)
	}
	if d.hasMain {
		state += "-main"
	}
	cacheFolder(t, filepath.Join(state, "lists/partial"))
	cacheFolder(t, filepath.Join(state, "archives/partial"))
	components := "non-free"
	if d.hasMain {
		components = "main non-free"
	}
	for name, text := range map[string]string{
		"status": "", "sources.list": "deb [signed-by=" + key + "] http://deb.debian.org/debian " + d.suite + " " + components + "\n",
	} {
		if err := os.WriteFile(filepath.Join(state, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	apt := func(args ...string) {
		cmd := exec.Command("apt-get", append([]string{
			"-o", "Dir::Etc::sourcelist=" + state + "/sources.list", "-o", "Dir::Etc::sourceparts=-", "-o", "Dir::State=" + state,
			"-o", "Dir::State::status=" + state + "/status", "-o", "Dir::Cache=" + state, "-o", "APT::Architecture=" + d.arch,
			"-o", "APT::Architectures=" + d.arch, "-o", "Acquire::Languages=none", "-o", "APT::Sandbox::User=",
			"-o", "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
		}, args...)...)
		cmd.Dir = packages
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("needs Debian's packages from the network: apt-get %s: %v\n%s", args[0], err, out)
		}
	}
	apt("update")
	apt(append([]string{"download"}, d.packageNames...)...)
}

func cacheFolder(t testing.TB, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
