package isolator

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/need"
	"mesos-gpu/isolator/cgroup"
	"mesos-gpu/isolator/internal/opener"
	"mesos-gpu/isolator/simulated"
)

// bed is a real hierarchy with a cgroup for one test, the isolator of a host
// with simulated GPUs, their nodes, and processes that try to open them.
type bed struct {
	*testing.T
	version string
	host    gpu.Host
	i       *Isolator
	root    string // the agent's cgroup
	node    map[string]string
}

func newBed(t *testing.T, version string, h gpu.Host) *bed {
	t.Helper()
	b := &bed{T: t, version: version, host: h, root: fmt.Sprintf("mesos-gpu-isolator-test-%d", os.Getpid()), node: map[string]string{}}
	b.restart()
	t.Cleanup(func() {
		if err := b.i.cgroups.Remove(b.root); err != nil {
			t.Error(err)
		}
	})
	for _, n := range b.i.driver.nodes {
		b.node[n.Name] = opener.Node(t, n.Name, 'c', n.Major, n.Minor)
	}
	return b
}

// restart is what a daemon that starts again knows: nothing.
func (b *bed) restart() {
	b.Helper()
	i, err := New(Config{Host: b.host, Cgroups: b.version})
	if err != nil {
		b.Fatal(err)
	}
	b.i = i
}

// both runs a test under each version of cgroups.
func both(t *testing.T, h gpu.Host, test func(b *bed)) {
	t.Helper()
	for _, version := range []string{"v1", "v2"} {
		t.Run(version, func(t *testing.T) {
			mounted(t, version)
			test(newBed(t, version, h))
		})
	}
}

func mounted(t testing.TB, version string) {
	t.Helper()
	if version == "v1" {
		need.DevicesCgroup(t)
		return
	}
	need.Root(t)
	if _, err := cgroup.Unified("/proc/self/mountinfo"); err != nil {
		t.Skipf("needs cgroup v2: mount -t cgroup2 none /sys/fs/cgroup/unified: %v", err)
	}
}

func four(t testing.TB) gpu.Host {
	t.Helper()
	h, err := simulated.Host("4xV100", "test")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (b *bed) path(container string) string { return filepath.Join(b.root, container) }

// isolate gives a container's cgroup the devices of those minor numbers.
func (b *bed) isolate(container string, gpus ...int) {
	b.Helper()
	var ids []string
	for _, n := range gpus {
		ids = append(ids, b.host.Devices[n].UUID)
	}
	if err := b.i.Confine(b.path(container), ids); err != nil {
		b.Fatal(err)
	}
}

// start starts a process in the container.
func (b *bed) start(container string) *opener.Opener {
	b.Helper()
	o := opener.Start(b)
	if err := b.i.Enter(b.path(container), o.PID); err != nil {
		b.Fatal(err)
	}
	return o
}

// opens checks that the process can open those nodes and no others of the
// host's, and that the kernel's rules say so.
func (b *bed) opens(o *opener.Opener, nodes ...string) {
	b.Helper()
	for name, path := range b.node {
		want := unix.EPERM
		if slices.Contains(nodes, name) {
			want = unix.ENXIO // no driver is behind it
		}
		if got := o.Open(b, path); got != want {
			b.Errorf("open %s: got %q, want %q", name, got.Error(), want.Error())
		}
	}
	if got := o.Open(b, "/dev/null"); got != 0 {
		b.Errorf("open null: %v", got)
	}
}

func (b *bed) holds(container string, gpus ...int) {
	b.Helper()
	var want []string
	for _, n := range gpus {
		want = append(want, b.host.Devices[n].UUID)
	}
	got, err := b.i.Holding(b.path(container))
	if err != nil || !slices.Equal(got, want) {
		b.Errorf("container %s holds %v, %v; want %v", container, got, err, want)
	}
}

var control = []string{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"}

func with(gpus ...string) []string { return append(slices.Clone(control), gpus...) }

func TestRootIsolate(t *testing.T) {
	both(t, four(t), func(b *bed) {
		b.isolate("c")
		o := b.start("c")
		b.opens(o)
		b.holds("c")
		b.isolate("c", 2)
		b.opens(o, with("nvidia2")...)
		b.holds("c", 2)
		b.isolate("c", 2, 0)
		b.opens(o, with("nvidia0", "nvidia2")...)
		b.holds("c", 0, 2)
		b.isolate("c", 0)
		b.opens(o, with("nvidia0")...)
		b.isolate("c")
		b.opens(o)
		b.holds("c")
		if err := b.i.Isolate(b.path("c"), Grant{}); err == nil {
			b.Error("a grant without rules was taken for one")
		}
		if err := b.i.Confine(b.path("c"), []string{"GPU-x"}); err == nil || !strings.Contains(err.Error(), "GPU-x is not among this host's 4 GPUs") {
			b.Errorf("a GPU of another host: %v", err)
		}
	})
}

// Two containers hold two GPUs each; neither can open the other's.
func TestRootTwoContainers(t *testing.T) {
	both(t, four(t), func(b *bed) {
		b.isolate("one", 0, 1)
		b.isolate("two", 2, 3)
		b.opens(b.start("one"), with("nvidia0", "nvidia1")...)
		b.opens(b.start("two"), with("nvidia2", "nvidia3")...)
		if below, err := b.i.Below(b.root); err != nil || !slices.Equal(below, []string{"one", "two"}) {
			b.Errorf("below the agent's cgroup are %v, %v", below, err)
		}
		if below, err := b.i.Below(b.path("none")); err != nil || len(below) != 0 {
			b.Errorf("below no cgroup are %v, %v", below, err)
		}
	})
}

func TestRootNested(t *testing.T) {
	both(t, four(t), func(b *bed) {
		b.isolate("c", 0, 1)
		if err := b.i.cgroups.Create(b.path("c/mesos/n")); err != nil {
			b.Fatal(err)
		}
		o := b.start("c/mesos/n")
		b.opens(o, with("nvidia0", "nvidia1")...)
		b.holds("c/mesos/n", 0, 1)
		b.isolate("c/mesos/n", 1)
		b.opens(o, with("nvidia1")...)
		b.holds("c/mesos/n", 1)
		b.isolate("c", 0) // what its parent lost a nested container loses too
		b.opens(o, control...)
		b.holds("c/mesos/n")
		if err := b.i.Confine(b.path("c/mesos/n"), []string{b.host.Devices[3].UUID}); err == nil {
			b.Error("a nested container got a GPU that its parent lacks")
		}
		b.opens(o, control...)
	})
}

func TestRootMIG(t *testing.T) {
	h := gpu.Host{Simulated: true, Devices: []gpu.Device{
		{UUID: "GPU-a", Minor: 0}, slice("MIG-1", "GPU-b", 1, 30), slice("MIG-2", "GPU-b", 1, 40),
	}}
	both(t, h, func(b *bed) {
		b.isolate("c", 1)
		o := b.start("c")
		b.opens(o, with("nvidia1", "nvidia-caps/nvidia-cap30", "nvidia-caps/nvidia-cap31")...)
		b.holds("c", 1)
		b.isolate("c", 1, 2)
		b.opens(o, with("nvidia1", "nvidia-caps/nvidia-cap30", "nvidia-caps/nvidia-cap31", "nvidia-caps/nvidia-cap40", "nvidia-caps/nvidia-cap41")...)
		b.holds("c", 1, 2)
		b.isolate("c", 2)
		b.opens(o, with("nvidia1", "nvidia-caps/nvidia-cap40", "nvidia-caps/nvidia-cap41")...)
		b.isolate("c", 0)
		b.opens(o, with("nvidia0")...)
		b.holds("c", 0)
	})
}

// A daemon that was started again finds, changes and takes back what the one
// before it gave, while the process of the container goes on.
func TestRootRestart(t *testing.T) {
	both(t, four(t), func(b *bed) {
		b.isolate("c", 0)
		o := b.start("c")
		b.restart()
		b.opens(o, with("nvidia0")...)
		b.holds("c", 0)
		b.isolate("c", 0, 3)
		b.opens(o, with("nvidia0", "nvidia3")...)
		b.restart()
		b.holds("c", 0, 3)
		b.isolate("c", 3)
		b.opens(o, with("nvidia3")...)
		b.restart()
		if err := b.i.Remove(b.path("c")); !errors.Is(err, unix.EBUSY) {
			b.Errorf("remove a cgroup with a process: %v", err)
		}
		b.opens(o) // its GPUs are gone all the same
	})
}

// Isolate keeps what an operator allowed, and takes GPUs that nobody granted.
func TestRootKeepsOperatorsRules(t *testing.T) {
	both(t, four(t), func(b *bed) {
		if err := b.i.cgroups.Create(b.path("c")); err != nil {
			b.Fatal(err)
		}
		fuse := opener.Node(b, "fuse", 'c', 196, 229) // a number that no driver has
		list := prepare(b.T, b.i, b.host.Devices[3].UUID).Rules
		list = append(list, parse(b.T, "c 196:229 rw"))
		if err := b.i.cgroups.Confine(b.path("c"), list); err != nil {
			b.Fatal(err)
		}
		b.isolate("c", 1)
		o := b.start("c")
		b.opens(o, with("nvidia1")...)
		if got := o.Open(b, fuse); got != unix.ENXIO {
			b.Errorf("open what the operator allowed: %v", got)
		}
	})
}

func TestRootEnterAndRemove(t *testing.T) {
	both(t, four(t), func(b *bed) {
		if err := b.i.cgroups.Create(b.root); err != nil {
			b.Fatal(err)
		}
		if _, err := b.i.Holding(b.root); !errors.Is(err, ErrUnconfined) {
			b.Errorf("an unconfined cgroup: %v", err)
		}
		if _, err := b.i.Holding(b.path("none")); !errors.Is(err, fs.ErrNotExist) {
			b.Errorf("no cgroup: %v", err)
		}
		b.isolate("mine", 0)
		b.isolate("mine/leaf", 0)
		in := func(o *opener.Opener) string {
			at, err := b.i.cgroups.Of(fmt.Sprintf("/proc/%d/cgroup", o.PID))
			if err != nil {
				b.Fatal(err)
			}
			return at
		}
		o := b.start("mine/leaf")
		if err := b.i.Enter(b.path("mine"), o.PID); err != nil { // it is there: below
			b.Fatal(err)
		}
		if got := in(o); got != "/"+b.path("mine/leaf") {
			b.Errorf("a process below the cgroup was moved to %s", got)
		}
		b.isolate("min", 1) // no part of mine
		if err := b.i.Enter(b.path("min"), o.PID); err != nil {
			b.Fatal(err)
		}
		if got := in(o); got != "/"+b.path("min") {
			b.Errorf("a process of another cgroup is in %s", got)
		}
		if err := b.i.Enter(b.path("mine"), 1<<30); !errors.Is(err, fs.ErrNotExist) {
			b.Errorf("a process that is not there: %v", err)
		}

		b.foreign("mesoss")
		b.isolate("mesoss", 2)
		for _, container := range []string{"mine", "mesoss", "none", "mine"} {
			if err := b.i.Remove(b.path(container)); err != nil {
				b.Error(err)
			}
		}
		if below, err := b.i.Below(b.root); err != nil || !slices.Equal(below, []string{"mesoss", "min"}) {
			b.Errorf("left are %v, %v; want what another made, and what was not removed", below, err)
		}
		if held, err := b.i.Holding(b.path("mesoss")); len(held) != 0 || err != nil && !errors.Is(err, ErrUnconfined) {
			b.Errorf("the cgroup that was released holds %v, %v", held, err)
		}
	})
}

// foreign makes a cgroup as the agent does, past the isolator.
func (b *bed) foreign(container string) {
	b.Helper()
	find := cgroup.Mounted
	if b.version == "v2" {
		find = cgroup.Unified
	}
	root, err := find("/proc/self/mountinfo")
	if err == nil {
		err = os.MkdirAll(filepath.Join(root, b.path(container)), 0o755)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// With the default in place a container without a grant opens no GPU, a grant
// takes its place, and nobody has to be there.
func TestRootDefault(t *testing.T) {
	mounted(t, "v2")
	b := newBed(t, "v2", four(t))
	b.foreign("c")
	o := b.start("c")
	b.opens(o, with("nvidia0", "nvidia1", "nvidia2", "nvidia3")...)
	if err := b.i.Default(b.root); err != nil {
		t.Fatal(err)
	}
	b.opens(o)
	b.holds("c")
	b.restart()
	if err := b.i.Default(b.root); err != nil {
		t.Fatal(err)
	}
	b.isolate("c", 2)
	b.opens(o, with("nvidia2")...)
	if err := b.i.Remove(b.path("c")); err != nil { // another made it, and it has a process
		t.Fatal(err)
	}
	b.opens(o)
}
