package deploy

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/internal/testing/testneeds"
)

// expectedFiles returns the modes of the files in every package, by path. Manual pages are
// counted separately. The folder of zsh completions depends on the distribution.
func expectedFiles(kind string) map[string]string {
	zsh := map[string]string{"deb": "vendor-completions", "rpm": "site-functions"}[kind]
	return map[string]string{
		"/etc/mesos-gpu/agent.conf":                           "-rw-r--r--",
		"/etc/mesos-gpu/local.conf":                           "-rw-r--r--",
		"/etc/mesos-gpu/scheduler.conf":                       "-rw-r--r--",
		"/usr/bin/mesos-gpu":                                  "-rwxr-xr-x",
		"/usr/lib/mesos-gpu/daemon":                           "-rwxr-xr-x",
		"/usr/lib/mesos-gpu/libmesosgpu.so":                   "-rw-r--r--",
		"/usr/lib/systemd/system/mesos-gpu-agent.service":     "-rw-r--r--",
		"/usr/lib/systemd/system/mesos-gpu-local.service":     "-rw-r--r--",
		"/usr/lib/systemd/system/mesos-gpu-scheduler.service": "-rw-r--r--",
		"/usr/lib/sysusers.d/mesos-gpu.conf":                  "-rw-r--r--",
		"/usr/share/bash-completion/completions/mesos-gpu":    "-rw-r--r--",
		"/usr/share/doc/mesos-gpu/copyright":                  "-rw-r--r--",
		"/usr/share/doc/mesos-gpu/third-party-licences.gz":    "-rw-r--r--",
		"/usr/share/fish/vendor_completions.d/mesos-gpu.fish": "-rw-r--r--",
		"/usr/share/mesos-gpu/grafana/agents.json":            "-rw-r--r--",
		"/usr/share/mesos-gpu/grafana/scheduler.json":         "-rw-r--r--",
		"/usr/share/mesos-gpu/grafana/tasks.json":             "-rw-r--r--",
		"/usr/share/mesos-gpu/job.schema.json":                "-rw-r--r--",
		"/usr/share/mesos-gpu/access.yaml":                    "-rw-r--r--",
		"/usr/share/mesos-gpu/prometheus/alerts.yml":          "-rw-r--r--",
		"/usr/share/mesos-gpu/roles.yaml":                     "-rw-r--r--",
		fmt.Sprintf("/usr/share/zsh/%s/_mesos-gpu", zsh):      "-rw-r--r--",
	}
}

// TestPackages builds the packages for this machine's architecture and checks their contents.
// If MESOS_GPU_PACKAGES is set, it checks the packages in that folder instead.
func TestPackages(t *testing.T) {
	testneeds.RequireProgram(t, "dpkg-deb", "dpkg")
	testneeds.RequireProgram(t, "rpm", "rpm")
	dir := os.Getenv("MESOS_GPU_PACKAGES")
	if dir == "" {
		dir = t.TempDir()
		make := exec.CommandContext(t.Context(), "../scripts/package.sh", runtime.GOARCH)
		make.Env = append(os.Environ(), "PACKAGE_OUT="+dir, "VERSION=v1.2.3", "PACKAGE_COMPRESSION=zstd", "PACKAGE_CHECK_RELEASE=0")
		if out, err := make.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil || len(debs) == 0 {
		t.Fatalf("no packages in %s: %v", dir, err)
	}
	for _, deb := range debs {
		base := strings.TrimSuffix(deb, ".deb")
		t.Run(filepath.Base(base), func(t *testing.T) {
			checkDeb(t, deb)
			checkRPM(t, base+".rpm")
			checkTarball(t, base+".tar.gz")
			root := t.TempDir()
			runProgram(t, "dpkg-deb", "-x", deb, root)
			checkBinary(t, filepath.Join(root, "usr/bin/mesos-gpu"), base)
			checkBinary(t, filepath.Join(root, "usr/lib/mesos-gpu/libmesosgpu.so"), base)
			checkDocuments(t, root)
			checkBillOfMaterials(t, base+".spdx.json", filepath.Join(root, "usr/bin/mesos-gpu"))
			arch := base[strings.LastIndex(base, "-")+1:]
			for _, daemon := range []string{"scheduler", "agent"} {
				checkImage(t, strings.Replace(base, "/mesos-gpu-", "/mesos-gpu-"+daemon+"-", 1)+".image.tar", daemon, arch)
			}
		})
	}
	checkSums(t, dir)
	if os.Getenv("MESOS_GPU_PACKAGES") == "" {
		t.Run("images run", func(t *testing.T) { checkImagesRun(t, dir) })
	}
}

func runProgram(t *testing.T, name string, args ...string) string {
	t.Helper()
	var problem bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, &problem)
	}
	return string(out)
}

// fileListing collects the entries of a package's file list. Of folders only the owner and the
// mode are checked.
type fileListing struct {
	modes       map[string]string
	manualPages int
	documents   int // pages and examples
}

var documentPath = regexp.MustCompile(`^/usr/share/doc/mesos-gpu/(docs/|examples/|README\.md$|CHANGELOG\.md$)`)

func (f *fileListing) addFile(t *testing.T, mode, owner, path string) {
	t.Helper()
	if owner != "root/root" {
		t.Errorf("%s is owned by %s", path, owner)
	}
	switch {
	case mode[0] == 'd':
		if mode != "drwxr-xr-x" {
			t.Errorf("%s has the mode %s", path, mode)
		}
	case strings.HasPrefix(path, "/usr/share/man/man1/") && mode == "-rw-r--r--":
		f.manualPages++
	case documentPath.MatchString(path) && mode == "-rw-r--r--":
		f.documents++
	default:
		f.modes[path] = mode
	}
}

func (f *fileListing) compareFiles(t *testing.T, kind string) {
	t.Helper()
	if diff := cmp.Diff(expectedFiles(kind), f.modes); diff != "" {
		t.Errorf("%s: -want +got\n%s", kind, diff)
	}
	if f.manualPages < 20 {
		t.Errorf("%s: got %d manual pages, want at least 20", kind, f.manualPages)
	}
	if f.documents < 30 {
		t.Errorf("%s: got %d pages and examples, want at least 30", kind, f.documents)
	}
}

func checkDeb(t *testing.T, deb string) {
	t.Helper()
	got := fileListing{modes: map[string]string{}}
	for line := range strings.Lines(runProgram(t, "dpkg-deb", "-c", deb)) {
		field := strings.Fields(line)
		got.addFile(t, field[0], field[1], strings.TrimPrefix(field[5], "."))
	}
	got.compareFiles(t, "deb")
	if got, want := runProgram(t, "dpkg-deb", "-I", deb, "conffiles"),
		"/etc/mesos-gpu/agent.conf\n/etc/mesos-gpu/local.conf\n/etc/mesos-gpu/scheduler.conf\n"; got != want {
		t.Errorf("conffiles: got %q, want %q", got, want)
	}
	control := runProgram(t, "dpkg-deb", "-f", deb, "Package", "Depends")
	if want := "Package: mesos-gpu\nDepends: libc6 (>= 2.34), passwd\n"; control != want {
		t.Errorf("control: got %q, want %q", control, want)
	}
}

func checkRPM(t *testing.T, rpm string) {
	t.Helper()
	got := fileListing{modes: map[string]string{}}
	var configs []string
	for line := range strings.Lines(runProgram(t, "rpm", "-qp", "--qf",
		`[%{FILEMODES:perms} %{FILEUSERNAME}/%{FILEGROUPNAME} %{FILENAMES} %{FILEFLAGS:fflags}\n]`, rpm)) {
		field := strings.Fields(line)
		got.addFile(t, field[0], field[1], field[2])
		if len(field) > 3 && field[3] == "cn" { // configuration, not replaced
			configs = append(configs, field[2])
		}
	}
	got.compareFiles(t, "rpm")
	if want := []string{"/etc/mesos-gpu/agent.conf", "/etc/mesos-gpu/local.conf", "/etc/mesos-gpu/scheduler.conf"}; !slices.Equal(configs, want) {
		t.Errorf("configuration files: got %q, want %q", configs, want)
	}
	if requires := runProgram(t, "rpm", "-qp", "--requires", rpm); !strings.Contains(requires, "glibc >= 2.34\n") {
		t.Errorf("requires: %q", requires)
	}
}

func checkTarball(t *testing.T, tarball string) {
	t.Helper()
	got := fileListing{modes: map[string]string{}}
	top := strings.TrimSuffix(filepath.Base(tarball), ".tar.gz")
	for line := range strings.Lines(runProgram(t, "tar", "-tvzf", tarball)) {
		field := strings.Fields(line)
		path, ok := strings.CutPrefix(field[5], top)
		if !ok {
			t.Errorf("%s is outside %s", field[5], top)
		}
		got.addFile(t, field[0], strings.ReplaceAll(field[1], "0/0", "root/root"), path)
	}
	got.compareFiles(t, "deb")
}

var glibcVersion = regexp.MustCompile(`^GLIBC_2\.([0-9]+)`)

// checkBinary checks that a binary is for the architecture in its package's name, and that it
// needs no newer C library than the packages require.
func checkBinary(t *testing.T, path, name string) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "ppc64le": elf.EM_PPC64}[name[strings.LastIndex(name, "-")+1:]]
	if f.Machine != machine {
		t.Errorf("got a binary for %v, want %v", f.Machine, machine)
	}
	symbols, err := f.ImportedSymbols()
	if err != nil || len(symbols) == 0 {
		t.Fatalf("got %d imported symbols, %v: it needs the C library", len(symbols), err)
	}
	for _, s := range symbols {
		if m := glibcVersion.FindStringSubmatch(s.Version); m != nil {
			if minor, _ := strconv.Atoi(m[1]); minor > 34 {
				t.Errorf("%s needs %s, the packages ask for 2.34", s.Name, s.Version)
			}
		}
	}
}

// checkDocuments checks that the manual and the licences can be decompressed and contain an
// expected text.
func checkDocuments(t *testing.T, root string) {
	t.Helper()
	for file, want := range map[string]string{
		"usr/share/man/man1/mesos-gpu-scheduler.1.gz":     `--unreachable-timeout`,
		"usr/share/doc/mesos-gpu/third-party-licences.gz": "==== go.etcd.io/bbolt v",
	} {
		f, err := os.Open(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		unzipped, err := gzip.NewReader(f)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var text bytes.Buffer
		if _, err := text.ReadFrom(unzipped); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s lacks %q", file, want)
		}
	}
}
