package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// linkPrograms returns a folder with links to these programs of the machine, for a PATH
// without any others.
func linkPrograms(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(dir, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestMissingCompilersAreNamedFirst checks that packages for an architecture without a
// compiler are not begun: the message names the compiler and what installs it.
func TestMissingCompilersAreNamedFirst(t *testing.T) {
	arch, compiler := "arm64", "aarch64-linux-gnu-gcc"
	if runtime.GOARCH == arch {
		arch, compiler = "amd64", "x86_64-linux-gnu-gcc"
	}
	out := filepath.Join(t.TempDir(), "packages")
	cmd := exec.CommandContext(t.Context(), "../scripts/package.sh", runtime.GOARCH, arch)
	cmd.Env = []string{"PATH=" + linkPrograms(t, "bash", "dirname", "git", "go", "date", "paste", "sed", "sort"), "HOME=" + os.Getenv("HOME"),
		"CC=nocc", "PACKAGE_OUT=" + out, "SOURCE_DATE_EPOCH=1", "VERSION=v1.2.3"}
	got, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("succeeded: %s", got)
	}
	for _, want := range []string{
		compiler + " for " + arch, "nocc for " + runtime.GOARCH, "nothing was built", "scripts/package-tools.sh cross",
		"make package ARCH=" + runtime.GOARCH, "dpkg-deb",
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("the message lacks %q: %s", want, got)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("the folder of the packages exists")
	}
}

// TestBuildReportsProgress checks that a build counts the packages that it compiles, prints
// other messages as they are, and fails if go build does.
func TestBuildReportsProgress(t *testing.T) {
	dir := t.TempDir()
	fakeGo := filepath.Join(dir, "go")
	script := "#!/bin/bash\ncase $1 in\nlist) printf 'p\\n%.0s' {1..60} ;;\nbuild) echo 'go: downloading x v1'; " +
		"printf 'a/b%d\\n' {1..55}; [ \"${*: -1}\" = ./good ] || { echo 'a.go:1:2: wrong'; exit 3; } ;;\nesac\n"
	if err := os.WriteFile(fakeGo, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	progress := "go: downloading x v1\nbuild: compiled 25 of at most 60 packages\nbuild: compiled 50 of at most 60 packages\n"
	for name, want := range map[string]string{"./good": progress, "./bad": progress + "a.go:1:2: wrong\n"} {
		cmd := exec.CommandContext(t.Context(), "../scripts/build-progress.sh", "-o", "x", name)
		cmd.Env = append(os.Environ(), "GO="+fakeGo)
		got, err := cmd.CombinedOutput()
		if string(got) != want || (err == nil) != (name == "./good") {
			t.Errorf("%s: %v\n%s\nwant:\n%s", name, err, got, want)
		}
	}
}
