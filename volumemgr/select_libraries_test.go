package volumemgr

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/internal/testing/testneeds"
)

// writeLibrary writes a fake library below a root.
func writeLibrary(t *testing.T, root, path string, o elfObject) {
	t.Helper()
	if o.class == elf.ELFCLASSNONE {
		o.class = elf.ELFCLASS64
	}
	mustWrite(t, filepath.Join(root, path), string(o.encodeELF())+"\x00"+o.text)
}

// listNamed lists a folder of the volume without the files that every simulated driver
// has.
func listNamed(t *testing.T, dir, folder string) []string {
	t.Helper()
	var names []string
	for path, f := range filesByName(mustFind(t, dir)) {
		_, simulated := simulatedLibraries[strings.TrimSuffix(f.Name, "."+v535)]
		if name, ok := strings.CutPrefix(path, folder+"/"); ok && !simulated && f.Name != "libvdpau_nvidia.so."+v535 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// An unknown library is included if its suffix is the driver's version; a library with a
// driver's name but another version is not.
func TestFindByVersionSuffix(t *testing.T) {
	dir := simulatedRoot(t)
	for _, name := range []string{
		"libnvidia-brandnew.so." + v535, "libnvidia-ml.so.470.57.02", "libnvidia-nvvm70.so.4", "libnvidia-egl-gbm.so.1.1.0",
		"libnvidia-egl-gbm.so.1", "libnvidia-egl-wayland2.so.1.0.0", "libcudart.so.12.2.140", "libnvidia-container.so.1",
		"libnvidia-vulkan-producer.so", "libnvidia-api.so.1",
	} {
		writeLibrary(t, dir, amd64+name, elfObject{soname: name})
	}
	writeLibrary(t, dir, "usr/lib/xorg/modules/drivers/nvidia_drv.so", elfObject{soname: "nvidia_drv.so", text: "nvidia " + v535})
	writeLibrary(t, dir, "usr/lib/xorg/modules/extensions/libglxserver_nvidia.so."+v535, elfObject{soname: "libglxserver_nvidia.so"})
	writeLibrary(t, dir, "usr/lib/nvidia/current/nvidia_drv.so", elfObject{soname: "nvidia_drv.so", text: "nvidia 470.57.02"})                 // Debian's folder
	writeLibrary(t, dir, "usr/lib/nvidia/current/libglxserver_nvidia.so", elfObject{soname: "libglxserver_nvidia.so", text: "nvidia " + v535}) // the same
	want := []string{
		"libglxserver_nvidia.so", "libglxserver_nvidia.so." + v535, "libnvidia-api.so.1", "libnvidia-brandnew.so." + v535, "libnvidia-egl-gbm.so.1.1.0",
		"libnvidia-egl-wayland2.so.1.0.0", "libnvidia-nvvm70.so.4", "libnvidia-vulkan-producer.so", "nvidia_drv.so",
	}
	if diff := cmp.Diff(want, listNamed(t, dir, "lib64")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLibrariesHaveCapabilities(t *testing.T) {
	dir := simulatedRoot(t)
	writeLibrary(t, dir, amd64+"libnvidia-ngx.so."+v535, elfObject{soname: "libnvidia-ngx.so.1"})
	writeLibrary(t, dir, amd64+"libGLX_nvidia.so."+v535, elfObject{soname: "libGLX_nvidia.so.0"})
	writeLibrary(t, dir, amd64+"libnvidia-brandnew.so."+v535, elfObject{soname: "x"})
	writeLibrary(t, dir, "usr/lib/xorg/modules/drivers/nvidia_drv.so", elfObject{soname: "nvidia_drv.so", text: v535})
	s := Store{Dir: t.TempDir()}
	v := mustCreate(t, s, mustFind(t, dir))
	m, err := s.Inspect(v.Name)
	if err != nil {
		t.Fatal(err)
	}
	count := func(text string) map[string]int {
		wanted, err := ParseCapabilities(text)
		if err != nil {
			t.Fatal(err)
		}
		n := map[string]int{}
		for _, e := range m.SelectFiles(wanted) {
			n[string(e.Capability)]++
		}
		return n
	}
	for text, want := range map[string]map[string]int{
		"compute":          {"": 1, "compute": 3},
		"utility":          {"": 1, "utility": 1 + 2},
		"video,ngx":        {"": 1, "video": 3, "ngx": 1},
		"graphics,display": {"": 1, "graphics": 1, "display": 1},
		"compute,compat32": {"": 1, "compute": 6},
		"all":              {"": 1, "compute": 6, "utility": 2 + 2, "video": 6, "ngx": 1, "graphics": 1, "display": 1},
	} {
		if diff := cmp.Diff(want, count(text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	if _, err := ParseCapabilities("compute,cuda"); err == nil || !strings.Contains(err.Error(), `"cuda" must be one of all, compat32, compute`) {
		t.Errorf("an unknown capability: %v", err)
	}
}

// The libraries of OpenGL that dispatch to a driver (GLVND) are the distribution's or the image's. The volume has the driver's
// own only, also if the driver has them under the common names.
func TestOpenGL(t *testing.T) {
	dir := simulatedRoot(t)
	for name, soname := range map[string]string{"libGL.so.1.7.0": "libGL.so.1", "libEGL.so.1.1.0": "libEGL.so.1", "libGLdispatch.so.0.0.0": "libGLdispatch.so.0"} {
		writeLibrary(t, dir, amd64+name, elfObject{soname: soname, needed: []string{"libGLdispatch.so.0"}})
		mustLink(t, name, filepath.Join(dir, amd64, soname))
	}
	writeLibrary(t, dir, amd64+"libGLX_nvidia.so."+v535, elfObject{soname: "libGLX_nvidia.so.0"})
	writeLibrary(t, dir, amd64+"libGLESv2.so."+v535, elfObject{soname: "libGLESv2.so.2"})
	if diff := cmp.Diff([]string{"libGLESv2.so." + v535, "libGLX_nvidia.so." + v535}, listNamed(t, dir, "lib64")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// compileForNewGlibc writes a program that is also a library, and needs glibc 2.34 or newer, with a text in it.
func compileForNewGlibc(t *testing.T, path, text string, flags ...string) {
	t.Helper()
	gcc := testneeds.RequireProgram(t, "gcc", "gcc")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	const source = "int pthread_create(void *, void *, void *, void *); const char *text = TEXT; int main(void) { return pthread_create(0, 0, 0, 0); }"
	cmd := exec.Command(gcc, append(flags, "-x", "c", "-fPIC", "-fno-builtin", "-DTEXT=\""+text+"\"", "-o", path, "-")...)
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// What the distribution built, which needs a newer glibc than libcuda does, would fail in images of older distributions: it is
// left out, and repair removes it from volumes of earlier releases.
func TestFilesForNewerGlibcAreLeftOut(t *testing.T) {
	dir := simulatedRoot(t)
	wayland, persistenced := filepath.Join(dir, amd64, "libnvidia-egl-wayland.so.1.1.13"), filepath.Join(dir, "usr/bin/nvidia-persistenced")
	compileForNewGlibc(t, wayland, "", "-shared", "-Wl,-soname,libnvidia-egl-wayland.so.1")
	compileForNewGlibc(t, persistenced, v535)
	d := mustFind(t, dir)
	if len(d.Files) != 7+7+2 {
		t.Errorf("found %v", slices.Sorted(maps.Keys(filesByName(d))))
	}
	for path, place := range map[string]string{wayland: "lib64", persistenced: "bin"} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		d.Files = append(d.Files, DriverFile{Source: path, Dir: place, Name: filepath.Base(path), Size: info.Size()})
	}
	s := Store{Dir: t.TempDir()}
	volume := mustCreate(t, s, d)
	want := []string{
		"bin/nvidia-persistenced needs glibc 2.34, the driver's libraries none",
		"lib64/libnvidia-egl-wayland.so.1.1.13 needs glibc 2.34, the driver's libraries none",
	}
	if diff := cmp.Diff(want, mustVerify(t, s, volume.Name)); diff != "" {
		t.Errorf("damage (-want +got):\n%s", diff)
	}
	if repaired, _, err := s.Repair(t.Context(), mustFind(t, dir)); err != nil || repaired.Files != 7+7+2 {
		t.Errorf("repair: %d files, %v", repaired.Files, err)
	}
}

func TestLinksOfLibraries(t *testing.T) {
	dir := simulatedRoot(t)
	for name, soname := range map[string]string{
		"libGLX_nvidia":         "libGLX_nvidia.so.0",
		"libnvidia-opticalflow": "libnvidia-opticalflow.so.1",
		"libnvidia-allocator":   "libnvidia-allocator.so.1",
	} {
		writeLibrary(t, dir, amd64+name+".so."+v535, elfObject{soname: soname})
	}
	// The host's unversioned link is included if it leads to the same library.
	mustLink(t, "libnvidia-encode.so.1", filepath.Join(dir, amd64, "libnvidia-encode.so"))
	mustLink(t, "libnvidia-encode.so."+v535, filepath.Join(dir, amd64, "libnvidia-encode.so.1"))
	mustLink(t, "libcuda.so."+v535, filepath.Join(dir, amd64, "libnvcuvid.so"))
	files := filesByName(mustFind(t, dir))
	for name, want := range map[string][]string{
		"libcuda": {"libcuda.so", "libcuda.so.1"}, "libGLX_nvidia": {"libGLX_indirect.so.0", "libGLX_nvidia.so.0"},
		"libnvidia-opticalflow": {"libnvidia-opticalflow.so", "libnvidia-opticalflow.so.1"}, "libnvcuvid": {"libnvcuvid.so.1"},
		"libnvidia-encode": {"libnvidia-encode.so", "libnvidia-encode.so.1"}, "libnvidia-allocator": {"libnvidia-allocator.so.1", "nvidia-drm_gbm.so"},
	} {
		if diff := cmp.Diff(want, files["lib64/"+name+".so."+v535].Links); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Older drivers have two libraries of the same name for two threading models.
func TestOldThreadLibrariesAreExcluded(t *testing.T) {
	for _, c := range []struct {
		name   string
		kernel []uint32
		taken  bool
	}{{"old", []uint32{2, 2, 5}, false}, {"new", []uint32{2, 3, 99}, true}, {"newer", []uint32{3, 2, 0}, true}, {"unsaid", nil, true}} {
		dir := simulatedRoot(t)
		writeLibrary(t, dir, amd64+"libnvidia-tls.so."+v535, elfObject{soname: "libnvidia-tls.so." + v535, kernel: c.kernel})
		if got := len(listNamed(t, dir, "lib64")) == 1; got != c.taken {
			t.Errorf("%s: taken %t, want %t", c.name, got, c.taken)
		}
	}
	dir := simulatedRoot(t)
	writeLibrary(t, dir, amd64+"libnvidia-tls.so."+v535, elfObject{soname: "x", kernel: []uint32{2, 2, 5}})
	writeLibrary(t, dir, amd64+"tls/libnvidia-tls.so."+v535, elfObject{soname: "x", kernel: []uint32{2, 3, 99}})
	if got := filesByName(mustFind(t, dir))["lib64/libnvidia-tls.so."+v535].Source; !strings.Contains(got, "/tls/") {
		t.Errorf("the newer of two is in tls, got %q", got)
	}
}

func TestHostFiles(t *testing.T) {
	dir := simulatedRoot(t)
	for _, path := range []string{
		"etc/OpenCL/vendors/nvidia.icd", "usr/share/vulkan/icd.d/nvidia_icd.json", "usr/share/vulkan/icd.d/intel_icd.json",
		"usr/share/glvnd/egl_vendor.d/10_nvidia.json", "usr/share/glvnd/egl_vendor.d/50_mesa.json",
		"usr/lib/firmware/nvidia/" + v535 + "/gsp_tu10x.bin", "usr/lib/firmware/nvidia/470.1/gsp.bin",
	} {
		mustWrite(t, filepath.Join(dir, path), "1234")
	}
	mustLink(t, "usr/lib", filepath.Join(dir, "lib"))
	var got []HostFile
	for _, f := range mustFind(t, dir).HostFiles {
		f.Source = strings.TrimPrefix(f.Source, dir)
		got = append(got, f)
	}
	want := []HostFile{
		{"/etc/OpenCL/vendors/nvidia.icd", "/etc/OpenCL/vendors/nvidia.icd", 4, Compute},
		{"/usr/share/vulkan/icd.d/nvidia_icd.json", "/usr/share/vulkan/icd.d/nvidia_icd.json", 4, Graphics},
		{"/usr/share/glvnd/egl_vendor.d/10_nvidia.json", "/usr/share/glvnd/egl_vendor.d/10_nvidia.json", 4, Graphics},
		{"/lib/firmware/nvidia/" + v535 + "/gsp_tu10x.bin", "/usr/lib/firmware/nvidia/" + v535 + "/gsp_tu10x.bin", 4, Utility},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProgramsOnPath(t *testing.T) {
	dir := simulatedRoot(t)
	mustMove(t, filepath.Join(dir, "usr/bin/nvidia-smi"), filepath.Join(dir, "opt/nvidia/bin/nvidia-smi"))
	if _, ok := filesByName(mustFind(t, dir))["bin/nvidia-smi"]; ok {
		t.Fatal("found without its PATH")
	}
	d, err := DriverSearch{Root: dir, Path: "/nowhere:/opt/nvidia/bin"}.Find()
	if err != nil {
		t.Fatal(err)
	}
	if got := filesByName(d)["bin/nvidia-smi"].Source; got != filepath.Join(dir, "opt/nvidia/bin/nvidia-smi") {
		t.Errorf("nvidia-smi is at %q", got)
	}
}

// A driver in its own folder is found through the loader's cache, in each format that the
// host's ldconfig writes.
func TestFindUsesLoaderCache(t *testing.T) {
	t.Setenv("PATH", os.Getenv("PATH")+":/sbin:/usr/sbin")
	ldconfig := testneeds.RequireProgram(t, "ldconfig", "libc-bin")
	for _, format := range []string{"old", "compat", "new"} {
		t.Run(format, func(t *testing.T) {
			dir := simulatedRoot(t)
			mustMove(t, filepath.Join(dir, amd64), filepath.Join(dir, "opt/driver"))
			mustWrite(t, filepath.Join(dir, "conf"), "")
			if err := os.MkdirAll(filepath.Join(dir, "etc"), 0o755); err != nil {
				t.Fatal(err)
			}
			command := exec.Command(ldconfig, "-X", "-c", format, "-f", filepath.Join(dir, "conf"), "-C",
				filepath.Join(dir, "etc/ld.so.cache"), filepath.Join(dir, "opt/driver"))
			if out, err := command.CombinedOutput(); err != nil {
				t.Skipf("this ldconfig does not write the format %s: %v %s", format, err, out)
			}
			// ldconfig runs outside the root, so a link makes its paths valid inside.
			mustLink(t, "/", filepath.Join(dir, dir))
			if got := filesByName(mustFind(t, dir))["lib64/libcuda.so."+v535].Source; got != filepath.Join(dir, "opt/driver/libcuda.so."+v535) {
				t.Errorf("libcuda is at %q", got)
			}
		})
	}
	dir := simulatedRoot(t)
	mustWrite(t, filepath.Join(dir, "etc/ld.so.cache"), "glibc-ld.so.cache1.1 torn")
	var warning string
	warn := func(path string, reason error) { warning = path + ": " + reason.Error() }
	if _, err := (DriverSearch{Root: dir, Warn: warn}).Find(); err != nil || !strings.HasPrefix(warning, "etc/ld.so.cache: read ld.so.cache: torn") ||
		!strings.HasSuffix(warning, "run ldconfig") {
		t.Errorf("a torn cache: %v, warning %q", err, warning)
	}
}

// A name that several libraries have leads to the first of them by path, whichever was found first. The name of a file
// is never a link.
func TestAssignLinks(t *testing.T) {
	library := func(dir, name string, links ...string) sharedLibrary {
		return sharedLibrary{DriverFile: DriverFile{Dir: dir, Name: name, Links: links}}
	}
	got := map[string][]string{}
	var order []string
	for _, f := range assignLinks([]sharedLibrary{
		library("lib64", "c.so.1", "x.so"), library("lib64", "b.so.1", "a.so.1", "x.so", "y.so"),
		library("lib64", "a.so.1", "y.so"), library("lib", "d.so.1", "x.so"),
	}) {
		order = append(order, f.volumePath())
		got[f.volumePath()] = f.Links
	}
	if diff := cmp.Diff([]string{"lib/d.so.1", "lib64/a.so.1", "lib64/b.so.1", "lib64/c.so.1"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	want := map[string][]string{"lib/d.so.1": {"x.so"}, "lib64/a.so.1": {"y.so"}, "lib64/b.so.1": {"x.so"}, "lib64/c.so.1": {}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}

func TestSafeLinks(t *testing.T) {
	got := safeLinks([]string{"b.so", "", "a.so", "..", "b.so", ".", "../c.so", "/d.so", "own.so", "e/", "f/g.so"}, "own.so")
	if diff := cmp.Diff([]string{"a.so", "b.so"}, got); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}

// A library with a note of the oldest kernel that is too short is left out, as any damaged library of the driver.
func TestShortKernelNote(t *testing.T) {
	for _, words := range []int{0, 2, 3} {
		dir := simulatedRoot(t)
		writeLibrary(t, dir, amd64+"libnvidia-x.so."+v535, elfObject{soname: "x", kernel: make([]uint32, words)})
		if words == 3 {
			if _, ok := filesByName(mustFind(t, dir))["lib64/libnvidia-x.so."+v535]; !ok {
				t.Error("a library with a whole note was left out")
			}
			continue
		}
		wantLeftOut(t, dir, "libnvidia-x.so."+v535, fmt.Sprintf(".note.ABI-tag has %d bytes, want at least 32", 20+4*words))
	}
}

// A library of the driver whose headers are damaged is left out with a warning that names the part.
func TestDamagedHeaders(t *testing.T) {
	const section, offsetField, linkField = 64, 24, 40 // in section headers of 64 bits
	for name, c := range map[string]struct {
		section, field int
		value          uint32
		want           string
	}{
		"names of the dynamic section": {2, linkField, 99, "SONAME: "},
		"place of the note":            {4, offsetField, 1 << 30, "is truncated"},
	} {
		dir := simulatedRoot(t)
		o := elfObject{class: elf.ELFCLASS64, soname: "x", kernel: []uint32{2, 3, 99}}
		text := o.encodeELF()
		headers := int(binary.LittleEndian.Uint64(text[0x28:]))
		binary.LittleEndian.PutUint32(text[headers+c.section*section+c.field:], c.value)
		mustWrite(t, filepath.Join(dir, amd64, "libnvidia-x.so."+v535), string(text))
		t.Log(name)
		wantLeftOut(t, dir, "libnvidia-x.so."+v535, c.want)
	}
}

// A program that several folders have is taken once, from the first of them; files that cannot be executed are not programs.
func TestProgramsInSeveralFolders(t *testing.T) {
	dir := simulatedRoot(t)
	for _, folder := range []string{"usr/local/bin", "bin", "opt"} {
		if err := writeSimulated(filepath.Join(dir, folder, "nvidia-smi"), "#!"+folder+" "+v535+"\n", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mustWrite(t, filepath.Join(dir, "usr/local/sbin/nvidia-smi"), "notes")
	d, err := DriverSearch{Root: dir, Path: "/opt"}.Find()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range d.Files {
		if f.Name == "nvidia-smi" {
			got = append(got, f.Source)
		}
	}
	if diff := cmp.Diff([]string{filepath.Join(dir, "usr/local/bin/nvidia-smi")}, got); diff != "" {
		t.Errorf("programs (-want +got):\n%s", diff)
	}
}
