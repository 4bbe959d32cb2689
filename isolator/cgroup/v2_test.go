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

	"mesos-gpu/internal/testing/opener"
	"mesos-gpu/isolator/rules"
)

// newV2Cgroup returns the machine's hierarchy and a new cgroup in it.
func newV2Cgroup(t *testing.T) (V2, string) {
	t.Helper()
	c := V2{Root: requireV2Root(t)}
	return c, newCgroup(t, c)
}

// programNames returns the names of the programs attached to the cgroup.
func programNames(t *testing.T, c V2, path string) []string {
	t.Helper()
	var list []string
	withCgroupDir(t, c, path, func(cgroup int) {
		all, err := listPrograms(cgroup)
		if err != nil {
			t.Fatal(err)
		}
		defer closePrograms(all)
		for _, a := range all {
			list = append(list, a.name)
		}
	})
	return list
}

func withCgroupDir(t *testing.T, c V2, path string, do func(cgroup int)) {
	t.Helper()
	dir, err := os.Open(c.rootTree().cgroupPath(path))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	do(int(dir.Fd()))
}

// attachForeignProgram attaches a program that returns verdict for every access.
func attachForeignProgram(t *testing.T, c V2, path string, r programRole, name string, verdict int32) {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.CGroupDevice, License: "Apache-2.0",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, verdict), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	withCgroupDir(t, c, path, func(cgroup int) {
		if err := r.attachProgram(cgroup, p); err != nil {
			t.Fatal(err)
		}
	})
}

func wantPrograms(t *testing.T, c V2, path string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, programNames(t, c, path)); diff != "" {
		t.Errorf("programs on %s (-want +got):\n%s", path, diff)
	}
}

// A second V2 value, as after a daemon restart, replaces the program of the first.
// Programs of other owners stay attached and effective.
func TestRootV2AttachesOneProgram(t *testing.T) {
	c, path := newV2Cgroup(t)
	node0 := opener.MakeNode(t, "nvidia0", 'c', 195, 0)
	o := opener.Start(t)
	attachForeignProgram(t, c, path, ownRole, "anothers", 1)
	for _, uuid := range []string{"GPU-0", "GPU-1", "GPU-0"} {
		confine(t, V2{Root: c.Root}, path, grantedRules(t, uuid))
		wantPrograms(t, c, path, "anothers", ownRole.programName())
	}
	addOpener(t, c, path, o)
	wantOpen(t, o, node0, unix.ENXIO)
	attachForeignProgram(t, c, path, ownRole, "anothers_no", 0)
	wantOpen(t, o, node0, unix.EPERM)
	confine(t, c, path, grantedRules(t))
	wantPrograms(t, c, path, "anothers", ownRole.programName(), "anothers_no")
}

// A daemon of another version finds and replaces the old program.
func TestRootV2ReplacesOtherProgramVersion(t *testing.T) {
	c, path := newV2Cgroup(t)
	node0, node1 := opener.MakeNode(t, "nvidia0", 'c', 195, 0), opener.MakeNode(t, "nvidia1", 'c', 195, 1)
	o := opener.Start(t)
	attachForeignProgram(t, c, path, ownRole, ownRole.prefix+"dead", 1)
	addOpener(t, c, path, o)
	wantOpen(t, o, node1, unix.ENXIO)
	confine(t, c, path, grantedRules(t, "GPU-0"))
	wantPrograms(t, c, path, ownRole.programName())
	wantOpen(t, o, node0, unix.ENXIO)
	wantOpen(t, o, node1, unix.EPERM)
}

// A process that ends between attach and detach leaves two programs; the next one keeps
// one of them.
func TestRootV2RecoversFromCrashBetweenAttachAndDetach(t *testing.T) {
	c, path := newV2Cgroup(t)
	confine(t, c, path, grantedRules(t, "GPU-0"))
	entries, err := encodeRules(grantedRules(t, "GPU-1"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := ownRole.loadProgram(entries)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	withCgroupDir(t, c, path, func(cgroup int) {
		if err := ownRole.attachProgram(cgroup, p); err != nil {
			t.Fatal(err)
		}
	})
	wantPrograms(t, c, path, ownRole.programName(), ownRole.programName())
	now, err := c.ReadRules(path)
	if minors, all := rules.GPUMinors(now); err != nil || all || len(minors) != 0 {
		t.Errorf("two programs that share no GPU are said to allow %v (all %v, %v)", minors, all, err)
	}
	confine(t, c, path, grantedRules(t, "GPU-1"))
	wantPrograms(t, c, path, ownRole.programName())
}

// The default applies exactly to cgroups without a program, in either order of creation.
func TestRootV2SetDefaultRules(t *testing.T) {
	c, root := newV2Cgroup(t)
	node0, node1 := opener.MakeNode(t, "nvidia0", 'c', 195, 0), opener.MakeNode(t, "nvidia1", 'c', 195, 1)
	path, later := root+"/with", root+"/without"
	for _, p := range []string{path, later} {
		if err := c.CreateCgroup(p); err != nil {
			t.Fatal(err)
		}
	}
	with, without := opener.Start(t), opener.Start(t)
	confine(t, c, path, grantedRules(t, "GPU-0"))
	addOpener(t, c, path, with)
	addOpener(t, c, later, without)
	wantOpen(t, without, node0, unix.ENXIO)

	if err := c.SetDefaultRules(root, rules.StandardRules()); err != nil {
		t.Fatal(err)
	}
	wantOpen(t, without, node0, unix.EPERM)
	wantOpen(t, without, "/dev/null", 0)
	wantOpen(t, with, node0, unix.ENXIO)
	wantOpen(t, with, node1, unix.EPERM)
	for p, want := range map[string]int{path: 1, later: 0} {
		now, err := c.ReadRules(p)
		if minors, all := rules.GPUMinors(now); err != nil || all || len(minors) != want {
			t.Errorf("%s is said to reach %v (all %v, %v), want %d GPUs", p, minors, all, err, want)
		}
	}

	// Set the default again, as after a restart; then a grant replaces it.
	if err := c.SetDefaultRules(root, rules.StandardRules()); err != nil {
		t.Fatal(err)
	}
	wantPrograms(t, c, root, defaultRole.programName())
	confine(t, c, later, grantedRules(t, "GPU-1"))
	wantOpen(t, without, node0, unix.EPERM)
	wantOpen(t, without, node1, unix.ENXIO)
	if err := c.DetachRules(later); err != nil { // its process cannot open any device then
		t.Fatal(err)
	}
	wantPrograms(t, c, later, ownRole.programName())
}

func TestRootV2DefaultReplacesOtherProgramVersion(t *testing.T) {
	c, root := newV2Cgroup(t)
	attachForeignProgram(t, c, root, defaultRole, defaultRole.prefix+"dead", 1)
	if err := c.SetDefaultRules(root, rules.StandardRules()); err != nil {
		t.Fatal(err)
	}
	wantPrograms(t, c, root, defaultRole.programName())
}

// The root of the hierarchy contains the whole machine, by any name.
func TestRootV2DefaultRejectsHierarchyRoot(t *testing.T) {
	c, root := newV2Cgroup(t)
	c.Root = filepath.Join(c.Root, root) // as if it were the mount point
	for _, all := range []string{"", "/", "..", "a/../.."} {
		if err := c.SetDefaultRules(all, rules.StandardRules()); err == nil || !strings.Contains(err.Error(), "all processes of the host") {
			t.Errorf("%q: %v", all, err)
		}
	}
}

// The error names a program that prevents others from being attached.
func TestRootV2ForeignProgramsBlockAttach(t *testing.T) {
	c, root := newV2Cgroup(t)
	attachForeignProgram(t, c, root, programRole{flags: unix.BPF_F_ALLOW_OVERRIDE}, "anothers", 1)
	const want = "program anothers of other software is attached there"
	if err := c.SetDefaultRules(root, rules.StandardRules()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Default over another's: %v", err)
	}
	if err := c.ConfineCgroup(root, rules.StandardRules()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Confine over another's: %v", err)
	}
	wantPrograms(t, c, root, "anothers")

	path := root + "/below"
	if err := c.CreateCgroup(path); err != nil {
		t.Fatal(err)
	}
	attachForeignProgram(t, c, path, programRole{}, "alone", 1)
	if err := c.CreateCgroup(path + "/x"); err != nil {
		t.Fatal(err)
	}
	err := c.ConfineCgroup(path+"/x", rules.StandardRules())
	if err == nil || !strings.Contains(err.Error(), "a cgroup above has a program that allows none below") {
		t.Errorf("Confine below a program that allows none: %v", err)
	}
}

func TestRootV2DetachRules(t *testing.T) {
	c, path := newV2Cgroup(t)
	attachForeignProgram(t, c, path, ownRole, "anothers", 1)
	confine(t, c, path, grantedRules(t, "GPU-0"))
	if err := c.DetachRules(path); err != nil {
		t.Fatal(err)
	}
	wantPrograms(t, c, path, "anothers")
	if err := c.DetachRules(path); err != nil {
		t.Errorf("release what is released: %v", err)
	}
}

// A program with our name but without our map is an error in Read, and Confine replaces
// it.
func TestRootV2RejectsUnreadableProgram(t *testing.T) {
	c, path := newV2Cgroup(t)
	attachForeignProgram(t, c, path, ownRole, ownRole.programName(), 1)
	if _, err := c.ReadRules(path); err == nil || !strings.Contains(err.Error(), "has 0 maps, want 1") {
		t.Errorf("read: %v", err)
	}
	confine(t, c, path, grantedRules(t, "GPU-0"))
	wantPrograms(t, c, path, ownRole.programName())
}
