package volumemgr

import (
	"context"
	"debug/elf"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const v470, v550 = "470.256.02", "550.54.14"

// writeModule writes what the kernel module of that version reports.
func writeModule(t *testing.T, root, v string) {
	t.Helper()
	mustWrite(t, filepath.Join(root, "proc/driver/nvidia/version"), "NVRM version: NVIDIA UNIX x86_64 Kernel Module  "+v+"  Sat Aug 19\n")
}

// writeDriver writes the required libraries and one more of a driver into a folder.
func writeDriver(t *testing.T, root, dir, v string) {
	t.Helper()
	for _, name := range []string{"libcuda.so.", "libnvidia-ml.so.", "libnvidia-ptxjitcompiler.so."} {
		writeLibrary(t, root, dir+"/"+name+v, elfObject{soname: name + "1"})
		mustLink(t, name+v, filepath.Join(root, dir, name+"1"))
	}
}

// writeProgram writes a program that contains a text.
func writeProgram(t *testing.T, root, path, text string) {
	t.Helper()
	if err := writeSimulated(filepath.Join(root, path), "#!/bin/sh\necho "+text+"\n", 0o755); err != nil {
		t.Fatal(err)
	}
}

// writeDebianDriver writes the packages of one of Debian's drivers, which has its own folders.
func writeDebianDriver(t *testing.T, root, name, v string) {
	t.Helper()
	writeDriver(t, root, amd64+"nvidia/"+name, v)
	writeProgram(t, root, "usr/lib/nvidia/"+name+"/nvidia-smi", v)
	writeProgram(t, root, "usr/lib/nvidia/"+name+"/nvidia-debugdump", "no version")
	writeLibrary(t, root, amd64+"libnvidia-tls.so."+v, elfObject{soname: "libnvidia-tls.so." + v})
	writeLibrary(t, root, amd64+"nvidia/"+name+"/libnvidia-api.so.1", elfObject{soname: "libnvidia-api.so.1", text: v})
}

// selectAlternative makes the links of Debian's update-alternatives to one driver.
func selectAlternative(t *testing.T, root, name string) {
	t.Helper()
	for link, target := range map[string]string{
		amd64 + "libcuda.so.1":       "/" + amd64 + "nvidia/" + name + "/libcuda.so.1",
		amd64 + "libnvidia-ml.so.1":  "/" + amd64 + "nvidia/" + name + "/libnvidia-ml.so.1",
		amd64 + "libnvidia-api.so.1": "/" + amd64 + "nvidia/" + name + "/libnvidia-api.so.1",
		"usr/bin/nvidia-smi":         "/usr/lib/nvidia/" + name + "/nvidia-smi",
		"usr/bin/nvidia-debugdump":   "/usr/lib/nvidia/" + name + "/nvidia-debugdump",
	} {
		alternative := "/etc/alternatives/nvidia--" + filepath.Base(link)
		mustLink(t, target, filepath.Join(root, alternative))
		mustLink(t, alternative, filepath.Join(root, link))
	}
}

// A host with Debian's drivers gets the volume of its kernel module's version, whatever else is installed and whichever
// driver the alternatives select. Without a module it is the driver that the alternatives select.
func TestDebianDrivers(t *testing.T) {
	const current = "535.261.03"
	for name, c := range map[string]struct {
		drivers             map[string]string // by folder
		alternative, module string
		want                string
	}{
		"470 alone":                          {map[string]string{"tesla-470": v470}, "tesla-470", v470, v470},
		"470 without its module":             {map[string]string{"tesla-470": v470}, "tesla-470", "", v470},
		"535 without its module":             {map[string]string{"tesla-535": v535}, "tesla-535", "", v535},
		"two, no module":                     {map[string]string{"tesla-470": v470, "tesla-535": v535}, "tesla-535", "", v535},
		"two, the module is the other":       {map[string]string{"tesla-470": v470, "tesla-535": v535}, "tesla-470", v535, v535},
		"current and 470, the module is 470": {map[string]string{"current": current, "tesla-470": v470}, "current", v470, v470},
		"current and 470, alternative 470":   {map[string]string{"current": current, "tesla-470": v470}, "tesla-470", current, current},
		"no alternatives":                    {map[string]string{"tesla-470": v470}, "", v470, v470},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for folder, v := range c.drivers {
				writeDebianDriver(t, root, folder, v)
			}
			if c.alternative != "" {
				selectAlternative(t, root, c.alternative)
			}
			if c.module != "" {
				writeModule(t, root, c.module)
			}
			d := mustFind(t, root)
			want := []string{"bin/nvidia-debugdump", "bin/nvidia-smi", "lib64/libnvidia-api.so.1"}
			for _, stem := range []string{"libcuda.so.", "libnvidia-ml.so.", "libnvidia-ptxjitcompiler.so.", "libnvidia-tls.so."} {
				want = append(want, "lib64/"+stem+c.want)
			}
			var got []string
			for path, f := range filesByName(d) {
				got = append(got, path)
				if strings.HasSuffix(path, "nvidia-smi") && !containsVersion(f.Source, c.want) {
					t.Errorf("%s is of another version", f.Source)
				}
				if filepath.Base(path) == "nvidia-debugdump" && filepath.Dir(f.Source) != filepath.Dir(filesByName(d)["bin/nvidia-smi"].Source) {
					t.Errorf("%s is not beside nvidia-smi", f.Source)
				}
			}
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); d.Version != c.want || diff != "" {
				t.Errorf("version %s, want %s; files (-want +got):\n%s", d.Version, c.want, diff)
			}
		})
	}
}

// The driver is found where the distributions and images have it, without a cache of the loader.
func TestLayouts(t *testing.T) {
	for _, dir := range []string{
		"usr/lib64/nvidia", "usr/lib/nvidia-384", "usr/lib/nvidia", "usr/lib/nvidia-current", "usr/lib/x86_64-linux-gnu/nvidia",
		"usr/lib/x86_64-linux-gnu/nvidia/current", "usr/lib/x86_64-linux-gnu/nvidia/tesla", "usr/lib/x86_64-linux-gnu/nvidia/tesla-470",
		"usr/lib/nvidia/tesla", "opt/nvidia/lib64", "usr/local/glibc/usr/lib", "usr/lib64-nvidia", "home/kubernetes/bin/nvidia/lib64",
		"usr/lib/powerpc64le-linux-gnu", "usr/lib/wsl/lib", "run/opengl-driver/lib", "usr/lib64", "lib64", "lib", "usr/local/nvidia/lib64",
	} {
		t.Run(dir, func(t *testing.T) {
			root := t.TempDir()
			writeModule(t, root, v535)
			writeDriver(t, root, dir, v535)
			if d := mustFind(t, root); len(d.Files) != 3 {
				t.Errorf("found %v", slices.Collect(maps.Keys(filesByName(d))))
			}
		})
	}
}

// Programs beside the libraries are found: Container-Optimized OS has lib64 and bin in one folder.
func TestProgramsBesideLibraries(t *testing.T) {
	root := t.TempDir()
	writeModule(t, root, v535)
	writeDriver(t, root, "home/kubernetes/bin/nvidia/lib64", v535)
	writeProgram(t, root, "home/kubernetes/bin/nvidia/bin/nvidia-smi", v535)
	if got := filesByName(mustFind(t, root))["bin/nvidia-smi"].Source; !strings.HasSuffix(got, "nvidia/bin/nvidia-smi") {
		t.Errorf("nvidia-smi is %q", got)
	}
}

// The driver's folder of NixOS has links to the store of this machine, also if that folder is the root.
func TestLinksToPackageStore(t *testing.T) {
	machine := t.TempDir()
	store := filepath.Join(machine, "nix/store")
	t.Cleanup(func() { packageStores = packageStores[:len(packageStores)-1] })
	packageStores = append(packageStores, mustResolve(t, machine)+"/nix/store/")
	driver := store + "/4bcd-nvidia-x11-" + v535
	writeDriver(t, driver, "lib", v535)
	merged := store + "/9xyz-graphics-drivers"
	for _, name := range []string{"libcuda.so.", "libnvidia-ml.so.", "libnvidia-ptxjitcompiler.so."} {
		mustLink(t, driver+"/lib/"+name+"1", filepath.Join(merged, "lib", name+"1"))
		mustLink(t, driver+"/lib/"+name+v535, filepath.Join(merged, "lib", name+v535))
	}
	mustLink(t, "/etc/hostname", filepath.Join(merged, "lib/libgone.so."+v535))
	mustLink(t, merged, filepath.Join(machine, "run/opengl-driver"))
	for _, root := range []string{filepath.Join(machine, "run/opengl-driver"), merged} {
		d := mustFind(t, root)
		if len(d.Files) != 3 || d.Version != v535 {
			t.Errorf("below %s: version %s, %d files", root, d.Version, len(d.Files))
		}
		for _, f := range d.Files {
			if !strings.HasPrefix(f.Source, mustResolve(t, store)) {
				t.Errorf("%s is not in the store", f.Source)
			}
		}
	}
}

// A library for another machine is no library of the driver, whichever is found first.
func TestLibrariesOfOtherMachines(t *testing.T) {
	root := t.TempDir()
	writeModule(t, root, v535)
	writeDriver(t, root, "usr/lib64", v535)
	for _, name := range []string{"libcuda.so.", "libnvidia-ml.so."} {
		path := filepath.Join(root, "usr/lib64", name+v535)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text[18], text[19] = byte(elf.EM_S390), 0 // the machine
		mustWrite(t, path, string(text))
	}
	if _, err := FindDriver(root); !errors.As(err, new(*IncompleteDriverError)) {
		t.Errorf("libraries for another machine: %v", err)
	}
	writeDriver(t, root, amd64, v535)
	if got := filesByName(mustFind(t, root))["lib64/libcuda.so."+v535].Source; got != filepath.Join(root, amd64, "libcuda.so."+v535) {
		t.Errorf("libcuda is %q", got)
	}
}

func TestWindowsSubsystemIsNamed(t *testing.T) {
	root := t.TempDir()
	mustWrite(t, filepath.Join(root, "usr/lib/wsl/lib/libcuda.so.1"), "")
	if _, err := FindDriver(root); !errors.Is(err, ErrNoDriver) || !strings.Contains(err.Error(), "this is WSL") {
		t.Errorf("got %v", err)
	}
}

// upgradedRoot is a host whose packages were upgraded while the module of the earlier version is loaded. The distribution's
// library for Wayland belongs to no version.
func upgradedRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	writeModule(t, root, v535)
	writeDriver(t, root, amd64, v550)
	writeProgram(t, root, "usr/bin/nvidia-smi", v550)
	writeLibrary(t, root, amd64+"libnvidia-egl-wayland.so.1.1.10", elfObject{soname: "libnvidia-egl-wayland.so.1"})
	return root
}

// After an upgrade of the packages without a restart there is no volume, and an error that says what to do.
func TestUpgradeWithoutRestart(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	_, err := EnsureVolume(t.Context(), DriverSearch{Root: upgradedRoot(t)}, s)
	incomplete := (*IncompleteDriverError)(nil)
	if !errors.As(err, &incomplete) || !incomplete.ModuleLoaded || incomplete.Version != v535 || !slices.Equal(incomplete.Installed, []string{v550}) ||
		!strings.Contains(err.Error(), "reboot after an update") {
		t.Errorf("got %v", err)
	}
	wantEntries(t, s)
}

// A volume that was complete before the upgrade is used as it is; create, repair and verify change nothing in it.
func TestUpgradeKeepsUsableVolume(t *testing.T) {
	before := simulatedRoot(t)
	s := Store{Dir: t.TempDir()}
	volume := mustCreate(t, s, mustFind(t, before))
	if damage := mustVerify(t, s, volume.Name); len(damage) > 0 { // adds the digests
		t.Fatal(damage)
	}
	tree := readTree(t, volume.Path)
	search := DriverSearch{Root: upgradedRoot(t)}
	for range 2 {
		if got, err := EnsureVolume(t.Context(), search, s); err != nil || got != volume {
			t.Errorf("got %v, %v; want the existing volume", got, err)
		}
		if damage, err := RepairVolume(t.Context(), search, s); err != nil || len(damage) > 0 {
			t.Errorf("repair: %v, %v", damage, err)
		}
	}
	if diff := cmp.Diff(tree, readTree(t, volume.Path)); diff != "" {
		t.Errorf("the volume changed (-want +got):\n%s", diff)
	}
	mustRemove(t, filepath.Join(volume.Path, "lib64/libcuda.so."+v535))
	if _, err := EnsureVolume(t.Context(), search, s); !errors.As(err, new(*IncompleteDriverError)) ||
		!strings.Contains(err.Error(), "the volume nvidia_"+v535+" is damaged: lib64/libcuda.so."+v535+" is missing") {
		t.Errorf("a damaged volume: %v", err)
	}
}

// A volume without a required library, or with a program of another version, is damaged, though it is as its manifest says.
// Repair replaces the program, or removes it if the driver has none.
func TestVerifyFindsWhatNoTaskCanUse(t *testing.T) {
	root := t.TempDir()
	writeModule(t, root, v535)
	writeDriver(t, root, amd64, v535)
	s := Store{Dir: t.TempDir()}
	d := mustFind(t, root)
	other := t.TempDir()
	for _, name := range []string{"nvidia-smi", "nvidia-debugdump", "nvidia-cuda-mps-server"} {
		writeProgram(t, other, name, v550)
		path := filepath.Join(other, name)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		d.Files = append(d.Files, DriverFile{Source: path, Dir: "bin", Name: name, Size: info.Size()})
	}
	d.Files = slices.DeleteFunc(d.Files, func(f DriverFile) bool { return strings.HasPrefix(f.Name, "libcuda") })
	volume := mustCreate(t, s, d)
	want := []string{
		"bin/nvidia-cuda-mps-server is not of version " + v535, "bin/nvidia-debugdump is not of version " + v535, "bin/nvidia-smi is not of version " + v535,
		"lib64/libcuda.so." + v535 + " is missing, and no task can use a GPU without it",
	}
	if diff := cmp.Diff(want, mustVerify(t, s, volume.Name)); diff != "" {
		t.Errorf("damage (-want +got):\n%s", diff)
	}
	writeProgram(t, root, "usr/bin/nvidia-smi", v535)
	if _, damage, err := s.Repair(context.Background(), mustFind(t, root)); err != nil || len(damage) != 4 {
		t.Errorf("repair: %v, %v", damage, err)
	}
	if damage := mustVerify(t, s, volume.Name); len(damage) > 0 {
		t.Errorf("after the repair: %v", damage)
	}
	if names := listNamesInside(volume.Path, "bin"); !slices.Equal(names, []string{"nvidia-smi"}) {
		t.Errorf("programs after the repair: %v", names)
	}
}

// A version is found at the start and the end of a file and across the parts in which it is read, and not within a longer one.
func TestContainsVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	large := strings.Repeat("x", 1<<20)
	for text, want := range map[string]bool{
		v535: true, "Driver " + v535 + ".": true, "": false, "1" + v535: false, v535 + "1": false, v535 + ".1": false, "2." + v535: false,
		"1" + v535 + " " + v535: true, large[:1<<20-5] + v535: true, large[:1<<20-1] + v535 + large: true, large + large[:10] + v535 + "0": false,
	} {
		mustWrite(t, path, text)
		if got := containsVersion(path, v535); got != want {
			t.Errorf("%.40q…, %d bytes: %t, want %t", text, len(text), got, want)
		}
	}
	for shift := range 40 { // around the end of the first part
		mustWrite(t, path, large[:1<<20-20-shift+20]+v535+large[:shift])
		if !containsVersion(path, v535) {
			t.Errorf("not found %d bytes before the end of a part", shift)
		}
	}
}
