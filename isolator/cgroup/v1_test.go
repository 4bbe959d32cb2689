package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/need"
	"mesos-gpu/isolator/internal/opener"
	"mesos-gpu/isolator/rules"
)

func TestMain(m *testing.M) {
	opener.Main()
	os.Exit(m.Run())
}

// node makes a simulated GPU node; no driver is behind it, so that opening it
// gives ENXIO where the cgroup lets it through.
func node(t *testing.T, minor int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), fmt.Sprintf("nvidia%d", minor))
	if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(195, uint32(minor)))); err != nil {
		t.Fatal(err)
	}
	return path
}

// machine gives the machine's hierarchy and a cgroup in it that ends with the
// test. Call it before opener.Start, whose process must end first.
func machine(t *testing.T) (V1, string) {
	t.Helper()
	c := V1{Root: need.DevicesCgroup(t)}
	path := fmt.Sprintf("mesos-gpu-test-%d/%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-"))
	t.Cleanup(func() {
		if err := c.Remove(filepath.Dir(path)); err != nil {
			t.Error(err)
		}
	})
	if err := c.Create(path); err != nil {
		t.Fatal(err)
	}
	return c, path
}

func granted(t *testing.T, uuids ...string) []rules.Rule {
	t.Helper()
	h := gpu.Host{Devices: []gpu.Device{{UUID: "GPU-0", Minor: 0}, {UUID: "GPU-1", Minor: 1}}}
	list, err := rules.ForGPUs(h, 510, uuids)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func confine(t *testing.T, c V1, path string, list []rules.Rule) {
	t.Helper()
	if err := c.Confine(path, list); err != nil {
		t.Fatal(err)
	}
}

func wantOpen(t *testing.T, o *opener.Opener, path string, want unix.Errno) {
	t.Helper()
	if got := o.Open(t, path); got != want {
		t.Errorf("open %s: got %q, want %q", filepath.Base(path), got.Error(), want.Error())
	}
}

func TestRootConfinedProcess(t *testing.T) {
	c, path := machine(t)
	node0, node1 := node(t, 0), node(t, 1)
	o := opener.Start(t)
	wantOpen(t, o, node1, unix.ENXIO)

	confine(t, c, path, granted(t, "GPU-0"))
	if err := c.AddProcess(path, o.PID); err != nil {
		t.Fatal(err)
	}
	wantOpen(t, o, node0, unix.ENXIO)
	wantOpen(t, o, node1, unix.EPERM)
	wantOpen(t, o, "/dev/null", 0)

	confine(t, c, path, granted(t, "GPU-1"))
	wantOpen(t, o, node0, unix.EPERM)
	wantOpen(t, o, node1, unix.ENXIO)

	confine(t, c, path, granted(t))
	wantOpen(t, o, node0, unix.EPERM)
	wantOpen(t, o, node1, unix.EPERM)
	wantOpen(t, o, "/dev/null", 0)
}

func TestRootReadGivesWhatWasWritten(t *testing.T) {
	c, path := machine(t)
	fresh, err := c.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, all := rules.GPUMinors(fresh); !all {
		t.Errorf("a fresh cgroup allows %v, want everything", fresh)
	}
	want := granted(t, "GPU-1")
	confine(t, c, path, want)
	got, err := c.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rules.Merge(want), rules.Merge(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRootNestedCgroups(t *testing.T) {
	c, path := machine(t)
	node0, node1 := node(t, 0), node(t, 1)
	o := opener.Start(t)
	confine(t, c, path, granted(t, "GPU-0"))
	nested := path + "/nested"
	if err := c.Create(nested); err != nil {
		t.Fatal(err)
	}
	if err := c.AddProcess(nested, o.PID); err != nil {
		t.Fatal(err)
	}
	wantOpen(t, o, node0, unix.ENXIO)
	wantOpen(t, o, node1, unix.EPERM)

	err := c.Confine(nested, granted(t, "GPU-1"))
	if err == nil || !strings.Contains(err.Error(), "c 195:1 rw") {
		t.Errorf("a nested cgroup got more than its parent: %v", err)
	}
	wantOpen(t, o, node1, unix.EPERM)

	// The parent of a living cgroup can still be narrowed.
	confine(t, c, nested, granted(t, "GPU-0"))
	wantOpen(t, o, node0, unix.ENXIO)
	confine(t, c, path, granted(t))
	wantOpen(t, o, node0, unix.EPERM)
}

// A kernel list that differs from what was asked for is an error: here two
// rules for the fake to disagree about, since the real kernel does as told.
func TestReadBackMismatch(t *testing.T) {
	c := fake(t, "c 1:3 rwm\nc 195:7 rw\n")
	err := c.Confine("x", []rules.Rule{{Kind: 'c', Major: 195, Minor: 1, Access: "rw"}, {Kind: 'c', Major: 1, Minor: 3, Access: "rwm"}})
	want := "confine device cgroup x: after writing, the kernel allows [c 195:7 rw] too much and [c 195:1 rw] too little"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
