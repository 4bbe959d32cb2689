package volumemgr

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const amd64, i386 = "usr/lib/x86_64-linux-gnu/", "usr/lib/i386-linux-gnu/"

// filesByName returns a driver's files by DIR/NAME.
func filesByName(d InstalledDriver) map[string]DriverFile {
	all := map[string]DriverFile{}
	for _, f := range d.Files {
		all[f.Dir+"/"+f.Name] = f
	}
	return all
}

func TestFindSimulated(t *testing.T) {
	dir := simulatedRoot(t)
	d := mustFind(t, dir)
	if d.Version != v535 {
		t.Errorf("got version %s", d.Version)
	}
	files := filesByName(d)
	if len(files) != 7+7+2 {
		t.Errorf("got %d files: %v", len(files), files)
	}
	cuda := files["lib64/libcuda.so."+v535]
	if diff := cmp.Diff([]string{"libcuda.so", "libcuda.so.1"}, cuda.Links); diff != "" {
		t.Errorf("links of libcuda (-want +got):\n%s", diff)
	}
	if want := filepath.Join(dir, amd64, "libcuda.so."+v535); cuda.Source != want {
		t.Errorf("libcuda is at %s, want %s", cuda.Source, want)
	}
	if got := files["lib/libcuda.so."+v535].Source; !strings.Contains(got, "i386") {
		t.Errorf("the 32 bit libcuda is at %q", got)
	}
	if got := files["lib64/libnvidia-ml.so."+v535].Links; !slices.Equal(got, []string{"libnvidia-ml.so.1"}) {
		t.Errorf("links of libnvidia-ml: %v", got)
	}
	if _, ok := files["lib64/libvdpau_nvidia.so."+v535]; !ok {
		t.Error("no vdpau library")
	}
	// If the SONAME is the file's own name, no link is created.
	if got := files["lib64/libnvidia-fatbinaryloader.so."+v535].Links; len(got) != 0 {
		t.Errorf("links of a library with its own name as SONAME: %v", got)
	}
	if files["bin/nvidia-smi"].Size == 0 {
		t.Error("no nvidia-smi")
	}
}

func TestFindVersion(t *testing.T) {
	cases := []struct{ name, proc, want, err string }{
		{"closed", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\nGCC version:  gcc version 12.2.0 (Debian)\n", v535, ""},
		{"open", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  535.104.05  Release Build  (dvs-builder@U16)\n", v535, ""},
		{"no module", "", v535, ""},
		{"nonsense", "hello\n", "", `proc/driver/nvidia/version names no version: "hello\n"`},
		{"updated", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.86.10  Fri\n", "", "its kernel module is loaded, but there is no libcuda.so.535.86.10 and no libnvidia-ml.so.535.86.10 (libraries found: 535.104.05; searched: "},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := simulatedRoot(t)
			proc := filepath.Join(dir, "proc/driver/nvidia/version")
			if err := os.Remove(proc); err != nil {
				t.Fatal(err)
			}
			if c.proc != "" {
				mustWrite(t, proc, c.proc)
			}
			d, err := FindDriver(dir)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || d.Version != c.want {
				t.Errorf("got %q, %v; want %q", d.Version, err, c.want)
			}
		})
	}
}

func TestFindWithoutDriver(t *testing.T) {
	if _, err := FindDriver(t.TempDir()); !errors.Is(err, ErrNoDriver) {
		t.Errorf("empty root: %v", err)
	}
	if _, err := FindDriver("/no/such/root"); err == nil {
		t.Error("no root: no error")
	}
	dir := simulatedRoot(t)
	if err := os.RemoveAll(filepath.Join(dir, "usr/lib")); err != nil {
		t.Fatal(err)
	}
	if _, err := FindDriver(dir); err == nil || errors.Is(err, ErrNoDriver) || !strings.Contains(err.Error(), "libraries found: none") {
		t.Errorf("a module without libraries: %v", err)
	}
}

// A version that cannot be read is an error: the version of the libraries may differ from that of the module.
func TestUnreadableVersionOfModule(t *testing.T) {
	dir := simulatedRoot(t)
	version := filepath.Join(dir, "proc/driver/nvidia/version")
	mustRemove(t, version)
	mustWrite(t, filepath.Join(version, "x"), "")
	if _, err := FindDriver(dir); err == nil || !strings.Contains(err.Error(), "proc/driver/nvidia/version is not a regular file") {
		t.Errorf("got %v", err)
	}
	if v, err := EnsureVolume(t.Context(), DriverSearch{Root: t.TempDir()}, Store{Dir: t.TempDir()}); !errors.Is(err, ErrNoDriver) || v != (DriverVolume{}) {
		t.Errorf("a volume without a driver: %v, %v", v, err)
	}
}

// Without the kernel module several drivers are an error that lists their versions in order.
func TestSeveralDriversWithoutModule(t *testing.T) {
	dir := simulatedRoot(t)
	if err := os.RemoveAll(filepath.Join(dir, "proc")); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, filepath.Join(dir, amd64, "libcuda.so.470.57.02"), string(sharedObject(elf.ELFCLASS64, "libcuda.so.1")))
	mustWrite(t, filepath.Join(dir, amd64, "libnvidia-ml.so.390.157"), string(sharedObject(elf.ELFCLASS64, "libnvidia-ml.so.1")))
	_, err := FindDriver(dir)
	if err == nil || !strings.Contains(err.Error(), "libraries of 3 drivers (390.157, 470.57.02, 535.104.05)") {
		t.Errorf("got %v", err)
	}
}

// Debian's layout: the libraries are in another folder, absolute links lead there, and
// /lib is a link too. The host's own /usr must not be read.
func TestLinksStayBelowRoot(t *testing.T) {
	dir := simulatedRoot(t)
	name := "libcuda.so." + v535
	mustMove(t, filepath.Join(dir, amd64, name), filepath.Join(dir, "opt/nvidia", name))
	mustLink(t, "/opt/nvidia/"+name, filepath.Join(dir, amd64, name))
	mustLink(t, "/usr/lib", filepath.Join(dir, "lib"))
	mustLink(t, "../../../../../../../etc/passwd", filepath.Join(dir, amd64, "libevil.so."+v535))
	mustLink(t, "/etc/hostname", filepath.Join(dir, amd64, "libgone.so."+v535))
	mustMove(t, filepath.Join(dir, "usr/bin/nvidia-smi"), filepath.Join(dir, "opt/nvidia/nvidia-smi"))
	mustLink(t, "/opt/nvidia/nvidia-smi", filepath.Join(dir, "usr/bin/nvidia-smi"))
	files := filesByName(mustFind(t, dir))
	if want := filepath.Join(dir, "opt/nvidia", name); files["lib64/"+name].Source != want {
		t.Errorf("libcuda is at %q, want %q", files["lib64/"+name].Source, want)
	}
	if want := filepath.Join(dir, "opt/nvidia/nvidia-smi"); files["bin/nvidia-smi"].Source != want {
		t.Errorf("nvidia-smi is at %q, want %q", files["bin/nvidia-smi"].Source, want)
	}
	for name, f := range files {
		if !strings.HasPrefix(f.Source, dir+"/") || strings.Contains(name, "evil") || strings.Contains(name, "gone") {
			t.Errorf("%s comes from %s", name, f.Source)
		}
	}
}

func TestResolveInside(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, "a/file"), "x")
	mustLink(t, "loop", filepath.Join(dir, "loop"))
	mustLink(t, "/../../a/./file", filepath.Join(dir, "up"))
	mustLink(t, "a/../a", filepath.Join(dir, "around"))
	for path, want := range map[string]string{"up": "a/file", "around/file": "a/file", "../..//a": "a", "": "."} {
		if got, err := resolveInside(dir, path); err != nil || got != filepath.Join(dir, want) {
			t.Errorf("%q: got %s, %v; want %s", path, got, err, want)
		}
	}
	if _, err := resolveInside(dir, "loop"); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a loop: %v", err)
	}
	if _, err := resolveInside(dir, "a/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
}

func TestBrokenLibraries(t *testing.T) {
	good := sharedObject(elf.ELFCLASS64, "x")
	for name, text := range map[string]string{
		"text": "GROUP ( libc.so )", "torn": string(good[:100]), "empty": "",
	} {
		t.Run(name, func(t *testing.T) {
			dir := simulatedRoot(t)
			mustWrite(t, filepath.Join(dir, amd64, "libx.so."+v535), text)
			wantLeftOut(t, dir, "libx.so."+v535, "")
		})
	}
	dir := simulatedRoot(t)
	if err := os.Mkdir(filepath.Join(dir, amd64, "libdir.so."+v535), 0o755); err != nil {
		t.Fatal(err)
	}
	wantLeftOut(t, dir, "libdir.so."+v535, "is not a regular file")
}

// wantLeftOut finds the driver without one file, which a warning names with the reason.
func wantLeftOut(t *testing.T, dir, name, reason string) {
	t.Helper()
	var warnings []string
	warn := func(path string, reason error) { warnings = append(warnings, path+": "+reason.Error()) }
	d, err := DriverSearch{Root: dir, Warn: warn}.Find()
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Files) != 7+7+2 {
		t.Errorf("the driver has %d files, want 16", len(d.Files))
	}
	if len(warnings) != 1 || !strings.HasPrefix(warnings[0], amd64+name+": ") || !strings.Contains(warnings[0], reason) {
		t.Errorf("got the warnings %q, want one about %s: %s", warnings, name, reason)
	}
}

// Without a library that every task needs, the reason why it cannot be read is the error.
func TestBrokenRequiredLibrary(t *testing.T) {
	for _, name := range []string{"libcuda.so.", "libnvidia-ml.so."} {
		dir := simulatedRoot(t)
		path := filepath.Join(dir, amd64, name+v535)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		mustWrite(t, path, string(text[:len(text)/2]))
		_, err = FindDriver(dir)
		incomplete := (*IncompleteDriverError)(nil)
		if !errors.As(err, &incomplete) || !slices.Equal(incomplete.Missing, []string{name + v535}) ||
			!strings.Contains(err.Error(), path+": it is truncated") || !strings.Contains(err.Error(), "reinstall the driver") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A SONAME is used only as a file name inside the volume.
func TestUnsafeSONAMEIsIgnored(t *testing.T) {
	for _, soname := range []string{"../../etc/passwd", "/etc/passwd", "..", ".", ""} {
		dir := simulatedRoot(t)
		mustWrite(t, filepath.Join(dir, amd64, "libx.so."+v535), string(sharedObject(elf.ELFCLASS64, soname)))
		if links := filesByName(mustFind(t, dir))["lib64/libx.so."+v535].Links; len(links) != 0 {
			t.Errorf("SONAME %q became the links %q", soname, links)
		}
	}
}

func TestProgramsMustBeExecutable(t *testing.T) {
	dir := simulatedRoot(t)
	if err := os.Chmod(filepath.Join(dir, "usr/bin/nvidia-smi"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, ok := filesByName(mustFind(t, dir))["bin/nvidia-smi"]; ok {
		t.Error("a file that cannot be executed was taken for a program")
	}
}

// A program in several folders is taken from the first one.
func TestProgramIsTakenOnce(t *testing.T) {
	dir := simulatedRoot(t)
	before := len(mustFind(t, dir).Files)
	first := filepath.Join(dir, "usr/local/bin/nvidia-smi")
	mustWrite(t, first, "#!/bin/sh\necho "+v535+"\n")
	if err := os.Chmod(first, 0o755); err != nil {
		t.Fatal(err)
	}
	d := mustFind(t, dir)
	if len(d.Files) != before {
		t.Errorf("the driver has %d files, want %d", len(d.Files), before)
	}
	if got := filesByName(d)["bin/nvidia-smi"].Source; got != first {
		t.Errorf("nvidia-smi is %s, want %s", got, first)
	}
}

// A folder that several links lead to is listed once, with the path that was found first.
func TestLibraryFoldersAreListedOnce(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, filepath.Join(dir, "usr/lib/vdpau/x"), "")
	mustWrite(t, filepath.Join(dir, "usr/lib/other/x"), "")
	mustLink(t, "usr/lib", filepath.Join(dir, "lib"))
	mustLink(t, "lib", filepath.Join(dir, "usr/lib64"))
	list, err := DriverSearch{Root: dir}.listLibraryFolders()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range list {
		got = append(got, f.path)
		if real := filepath.Join(dir, strings.Replace(f.path, "lib64", "lib", 1)); f.resolved != real {
			t.Errorf("%s is at %s, want %s", f.path, f.resolved, real)
		}
	}
	if diff := cmp.Diff([]string{"usr/lib64", "usr/lib64/vdpau"}, got); diff != "" {
		t.Errorf("folders (-want +got):\n%s", diff)
	}
	if _, err := (DriverSearch{Root: filepath.Join(dir, "usr/lib/other/x")}).listLibraryFolders(); err == nil {
		t.Error("a file was accepted as root")
	}
}

func TestResolveBelowMissingRoot(t *testing.T) {
	dir := t.TempDir()
	for _, root := range []string{filepath.Join(dir, "none"), ""} {
		if got, err := resolveInside(root, "file"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("below %q: got %q, %v", root, got, err)
		}
	}
	mustWrite(t, filepath.Join(dir, "file"), "x")
	mustLink(t, dir, filepath.Join(dir, "root"))
	t.Chdir(dir)
	if got, err := resolveInside("root", "file"); err != nil || got != filepath.Join(mustResolve(t, dir), "file") {
		t.Errorf("below a relative link: got %s, %v", got, err)
	}
	if _, _, err := resolveFile(dir, "."); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	if _, _, err := resolveFile(dir, "none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
}

func mustResolve(t *testing.T, path string) string {
	t.Helper()
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return real
}
