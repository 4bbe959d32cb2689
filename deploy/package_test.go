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

	"mesos-gpu/internal/testneeds"
)

// files are those of every package and their modes; manual pages are
// counted apart. zsh looks for its completions elsewhere on other
// distributions.
func files(kind string) map[string]string {
	zsh := map[string]string{"deb": "vendor-completions", "rpm": "site-functions"}[kind]
	return map[string]string{
		"/etc/mesos-gpu/agent.conf":                           "-rw-r--r--",
		"/etc/mesos-gpu/scheduler.conf":                       "-rw-r--r--",
		"/usr/bin/mesos-gpu":                                  "-rwxr-xr-x",
		"/usr/lib/mesos-gpu/daemon":                           "-rwxr-xr-x",
		"/usr/lib/mesos-gpu/libmesosgpu.so":                   "-rw-r--r--",
		"/usr/lib/systemd/system/mesos-gpu-agent.service":     "-rw-r--r--",
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

// TestPackages makes the packages of this machine's architecture and reads them
// back. MESOS_GPU_PACKAGES names a folder of packages to read instead.
func TestPackages(t *testing.T) {
	testneeds.RequireProgram(t, "dpkg-deb", "dpkg")
	testneeds.RequireProgram(t, "rpm", "rpm")
	dir := os.Getenv("MESOS_GPU_PACKAGES")
	if dir == "" {
		dir = t.TempDir()
		make := exec.CommandContext(t.Context(), "../scripts/package.sh", runtime.GOARCH)
		make.Env = append(os.Environ(), "PACKAGE_OUT="+dir, "VERSION=v1.2.3")
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
			output(t, "dpkg-deb", "-x", deb, root)
			checkBinary(t, filepath.Join(root, "usr/bin/mesos-gpu"), base)
			checkBinary(t, filepath.Join(root, "usr/lib/mesos-gpu/libmesosgpu.so"), base)
			checkTexts(t, root)
		})
	}
}

func output(t *testing.T, name string, args ...string) string {
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

// found puts a listing's line where it belongs; folders are of no interest but
// for their owner.
type found struct {
	modes map[string]string
	pages int
}

func (f *found) add(t *testing.T, mode, owner, path string) {
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
		f.pages++
	default:
		f.modes[path] = mode
	}
}

func (f *found) compare(t *testing.T, kind string) {
	t.Helper()
	if diff := cmp.Diff(files(kind), f.modes); diff != "" {
		t.Errorf("%s: -want +got\n%s", kind, diff)
	}
	if f.pages < 20 {
		t.Errorf("%s: got %d manual pages, want at least 20", kind, f.pages)
	}
}

func checkDeb(t *testing.T, deb string) {
	t.Helper()
	got := found{modes: map[string]string{}}
	for line := range strings.Lines(output(t, "dpkg-deb", "-c", deb)) {
		field := strings.Fields(line)
		got.add(t, field[0], field[1], strings.TrimPrefix(field[5], "."))
	}
	got.compare(t, "deb")
	if got, want := output(t, "dpkg-deb", "-I", deb, "conffiles"), "/etc/mesos-gpu/agent.conf\n/etc/mesos-gpu/scheduler.conf\n"; got != want {
		t.Errorf("conffiles: got %q, want %q", got, want)
	}
	control := output(t, "dpkg-deb", "-f", deb, "Package", "Depends")
	if want := "Package: mesos-gpu\nDepends: libc6 (>= 2.34), passwd\n"; control != want {
		t.Errorf("control: got %q, want %q", control, want)
	}
}

func checkRPM(t *testing.T, rpm string) {
	t.Helper()
	got := found{modes: map[string]string{}}
	var configs []string
	for line := range strings.Lines(output(t, "rpm", "-qp", "--qf", `[%{FILEMODES:perms} %{FILEUSERNAME}/%{FILEGROUPNAME} %{FILENAMES} %{FILEFLAGS:fflags}\n]`, rpm)) {
		field := strings.Fields(line)
		got.add(t, field[0], field[1], field[2])
		if len(field) > 3 && field[3] == "cn" { // configuration, not replaced
			configs = append(configs, field[2])
		}
	}
	got.compare(t, "rpm")
	if want := []string{"/etc/mesos-gpu/agent.conf", "/etc/mesos-gpu/scheduler.conf"}; !slices.Equal(configs, want) {
		t.Errorf("configuration files: got %q, want %q", configs, want)
	}
	if requires := output(t, "rpm", "-qp", "--requires", rpm); !strings.Contains(requires, "glibc >= 2.34\n") {
		t.Errorf("requires: %q", requires)
	}
}

func checkTarball(t *testing.T, tarball string) {
	t.Helper()
	got := found{modes: map[string]string{}}
	top := strings.TrimSuffix(filepath.Base(tarball), ".tar.gz")
	for line := range strings.Lines(output(t, "tar", "-tvzf", tarball)) {
		field := strings.Fields(line)
		path, ok := strings.CutPrefix(field[5], top)
		if !ok {
			t.Errorf("%s is outside %s", field[5], top)
		}
		got.add(t, field[0], strings.ReplaceAll(field[1], "0/0", "root/root"), path)
	}
	got.compare(t, "deb")
}

var needsGlibc = regexp.MustCompile(`^GLIBC_2\.([0-9]+)`)

// checkBinary: it is for the architecture in its package's name, and needs no
// newer C library than the packages ask for.
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
		if m := needsGlibc.FindStringSubmatch(s.Version); m != nil {
			if minor, _ := strconv.Atoi(m[1]); minor > 34 {
				t.Errorf("%s needs %s, the packages ask for 2.34", s.Name, s.Version)
			}
		}
	}
}

// checkTexts: manual and licences can be read.
func checkTexts(t *testing.T, root string) {
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
