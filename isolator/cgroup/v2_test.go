package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"mesos-gpu/isolator/internal/opener"
	"mesos-gpu/isolator/rules"
)

// v2 gives the machine's hierarchy and a fresh cgroup in it.
func v2(t *testing.T) (V2, string) {
	t.Helper()
	c := V2{Root: unifiedRoot(t)}
	return c, fresh(t, c)
}

// names lists the programs attached to the cgroup.
func names(t *testing.T, c V2, path string) []string {
	t.Helper()
	var list []string
	onDir(t, c, path, func(cgroup int) {
		all, err := programs(cgroup)
		if err != nil {
			t.Fatal(err)
		}
		defer closeAll(all)
		for _, a := range all {
			list = append(list, a.name)
		}
	})
	return list
}

func onDir(t *testing.T, c V2, path string, do func(cgroup int)) {
	t.Helper()
	dir, err := os.Open(c.tree().dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	do(int(dir.Fd()))
}

// attach attaches a program that says verdict to everything.
func attach(t *testing.T, c V2, path string, r role, name string, verdict int32) {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.CGroupDevice, License: "Apache-2.0",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, verdict), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	onDir(t, c, path, func(cgroup int) {
		if err := r.attach(cgroup, p); err != nil {
			t.Fatal(err)
		}
	})
}

func wantPrograms(t *testing.T, c V2, path string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, names(t, c, path)); diff != "" {
		t.Errorf("programs on %s (-want +got):\n%s", path, diff)
	}
}

// A second value, as of a daemon that was started again, changes what the
// first attached; the programs of others stay, and count.
func TestRootV2OneProgram(t *testing.T) {
	c, path := v2(t)
	node0 := opener.Node(t, "nvidia0", 'c', 195, 0)
	o := opener.Start(t)
	attach(t, c, path, own, "anothers", 1)
	for _, uuid := range []string{"GPU-0", "GPU-1", "GPU-0"} {
		confine(t, V2{Root: c.Root}, path, granted(t, uuid))
		wantPrograms(t, c, path, "anothers", own.name())
	}
	add(t, c, path, o)
	wantOpen(t, o, node0, unix.ENXIO)
	attach(t, c, path, own, "anothers_no", 0)
	wantOpen(t, o, node0, unix.EPERM)
	confine(t, c, path, granted(t))
	wantPrograms(t, c, path, "anothers", own.name(), "anothers_no")
}

// A daemon of another version finds the program of the one before it.
func TestRootV2OtherVersion(t *testing.T) {
	c, path := v2(t)
	node0, node1 := opener.Node(t, "nvidia0", 'c', 195, 0), opener.Node(t, "nvidia1", 'c', 195, 1)
	o := opener.Start(t)
	attach(t, c, path, own, own.prefix+"dead", 1)
	add(t, c, path, o)
	wantOpen(t, o, node1, unix.ENXIO)
	confine(t, c, path, granted(t, "GPU-0"))
	wantPrograms(t, c, path, own.name())
	wantOpen(t, o, node0, unix.ENXIO)
	wantOpen(t, o, node1, unix.EPERM)
}

// What a process leaves that ends between attaching and detaching: two
// programs, of which the next one keeps one.
func TestRootV2AfterACrash(t *testing.T) {
	c, path := v2(t)
	confine(t, c, path, granted(t, "GPU-0"))
	entries, err := encode(granted(t, "GPU-1"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := own.load(entries)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	onDir(t, c, path, func(cgroup int) {
		if err := own.attach(cgroup, p); err != nil {
			t.Fatal(err)
		}
	})
	wantPrograms(t, c, path, own.name(), own.name())
	now, err := c.Read(path)
	if minors, all := rules.GPUMinors(now); err != nil || all || len(minors) != 0 {
		t.Errorf("two programs that share no GPU are said to allow %v (all %v, %v)", minors, all, err)
	}
	confine(t, c, path, granted(t, "GPU-1"))
	wantPrograms(t, c, path, own.name())
}

// The default holds for cgroups without a program and for no others,
// whichever was there first.
func TestRootV2Default(t *testing.T) {
	c, root := v2(t)
	node0, node1 := opener.Node(t, "nvidia0", 'c', 195, 0), opener.Node(t, "nvidia1", 'c', 195, 1)
	path, later := root+"/with", root+"/without"
	for _, p := range []string{path, later} {
		if err := c.Create(p); err != nil {
			t.Fatal(err)
		}
	}
	with, without := opener.Start(t), opener.Start(t)
	confine(t, c, path, granted(t, "GPU-0"))
	add(t, c, path, with)
	add(t, c, later, without)
	wantOpen(t, without, node0, unix.ENXIO)

	if err := c.Default(root, rules.Standard()); err != nil {
		t.Fatal(err)
	}
	wantOpen(t, without, node0, unix.EPERM)
	wantOpen(t, without, "/dev/null", 0)
	wantOpen(t, with, node0, unix.ENXIO)
	wantOpen(t, with, node1, unix.EPERM)
	for p, want := range map[string]int{path: 1, later: 0} {
		now, err := c.Read(p)
		if minors, all := rules.GPUMinors(now); err != nil || all || len(minors) != want {
			t.Errorf("%s is said to reach %v (all %v, %v), want %d GPUs", p, minors, all, err, want)
		}
	}

	// Again, as after a restart; then a grant takes its place.
	if err := c.Default(root, rules.Standard()); err != nil {
		t.Fatal(err)
	}
	wantPrograms(t, c, root, fallback.name())
	confine(t, c, later, granted(t, "GPU-1"))
	wantOpen(t, without, node0, unix.EPERM)
	wantOpen(t, without, node1, unix.ENXIO)
	if err := c.Release(later); err != nil { // it has a process, so nothing opens
		t.Fatal(err)
	}
	wantPrograms(t, c, later, own.name())
}

func TestRootV2DefaultOfAnotherVersion(t *testing.T) {
	c, root := v2(t)
	attach(t, c, root, fallback, fallback.prefix+"dead", 1)
	if err := c.Default(root, rules.Standard()); err != nil {
		t.Fatal(err)
	}
	wantPrograms(t, c, root, fallback.name())
}

// The root of the hierarchy holds the whole machine, by whatever name.
func TestRootV2DefaultOfAll(t *testing.T) {
	c, root := v2(t)
	c.Root = filepath.Join(c.Root, root) // stands for the mount point
	for _, all := range []string{"", "/", "..", "a/../.."} {
		if err := c.Default(all, rules.Standard()); err == nil || !strings.Contains(err.Error(), "the whole machine") {
			t.Errorf("%q: %v", all, err)
		}
	}
}

// A program that forbids others beside or below it is named.
func TestRootV2ProgramsInTheWay(t *testing.T) {
	c, root := v2(t)
	attach(t, c, root, role{flags: unix.BPF_F_ALLOW_OVERRIDE}, "anothers", 1)
	const want = "program anothers of another is attached there"
	if err := c.Default(root, rules.Standard()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Default over another's: %v", err)
	}
	if err := c.Confine(root, rules.Standard()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Confine over another's: %v", err)
	}
	wantPrograms(t, c, root, "anothers")

	path := root + "/below"
	if err := c.Create(path); err != nil {
		t.Fatal(err)
	}
	attach(t, c, path, role{}, "alone", 1)
	if err := c.Create(path + "/x"); err != nil {
		t.Fatal(err)
	}
	err := c.Confine(path+"/x", rules.Standard())
	if err == nil || !strings.Contains(err.Error(), "a cgroup above has a program that allows none below") {
		t.Errorf("Confine below a program that allows none: %v", err)
	}
}

func TestRootV2Release(t *testing.T) {
	c, path := v2(t)
	attach(t, c, path, own, "anothers", 1)
	confine(t, c, path, granted(t, "GPU-0"))
	if err := c.Release(path); err != nil {
		t.Fatal(err)
	}
	wantPrograms(t, c, path, "anothers")
	if err := c.Release(path); err != nil {
		t.Errorf("release what is released: %v", err)
	}
}

// A program that has our name and not our map is an error of Read, and is
// replaced by Confine.
func TestRootV2StrangeProgram(t *testing.T) {
	c, path := v2(t)
	attach(t, c, path, own, own.name(), 1)
	if _, err := c.Read(path); err == nil || !strings.Contains(err.Error(), "has 0 maps, want 1") {
		t.Errorf("read: %v", err)
	}
	confine(t, c, path, granted(t, "GPU-0"))
	wantPrograms(t, c, path, own.name())
}
