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
	"mesos-gpu/internal/testing/opener"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/isolator/cgroup"
	"mesos-gpu/isolator/simulated"
)

// cgroupFixture is a real hierarchy with a cgroup for one test, the isolator of a host
// with simulated GPUs, their nodes, and processes that try to open them.
type cgroupFixture struct {
	*testing.T
	version string
	host    gpu.Host
	i       *Isolator
	root    string // the agent's cgroup
	node    map[string]string
}

func newCgroupFixture(t *testing.T, version string, h gpu.Host) *cgroupFixture {
	t.Helper()
	b := &cgroupFixture{T: t, version: version, host: h, root: fmt.Sprintf("mesos-gpu-isolator-test-%d", os.Getpid()), node: map[string]string{}}
	b.restart()
	t.Cleanup(func() {
		if err := b.i.cgroups.RemoveCgroup(b.root); err != nil {
			t.Error(err)
		}
	})
	for _, n := range b.i.driver.nodes {
		b.node[n.Name] = opener.MakeNode(t, n.Name, 'c', n.Major, n.Minor)
	}
	return b
}

// restart replaces the isolator by a new one without state, as after a daemon restart.
func (b *cgroupFixture) restart() {
	b.Helper()
	i, err := New(HostConfig{Host: b.host, CgroupVersion: b.version})
	if err != nil {
		b.Fatal(err)
	}
	b.i = i
}

// onBothVersions runs a test under each version of cgroups.
func onBothVersions(t *testing.T, h gpu.Host, test func(b *cgroupFixture)) {
	t.Helper()
	for _, version := range []string{"v1", "v2"} {
		t.Run(version, func(t *testing.T) {
			requireMounted(t, version)
			test(newCgroupFixture(t, version, h))
		})
	}
}

func requireMounted(t testing.TB, version string) {
	t.Helper()
	if version == "v1" {
		testneeds.RequireDevicesCgroup(t)
		return
	}
	testneeds.RequireRoot(t)
	if _, err := cgroup.FindV2MountPoint("/proc/self/mountinfo"); err != nil {
		t.Skipf("needs cgroup v2: mount -t cgroup2 none /sys/fs/cgroup/unified: %v", err)
	}
}

func fourGPUHost(t testing.TB) gpu.Host {
	t.Helper()
	h, err := simulated.NewHost("4xV100", "test")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (b *cgroupFixture) path(container string) string { return filepath.Join(b.root, container) }

// isolate grants the devices with those minor numbers to a container's cgroup.
func (b *cgroupFixture) isolate(container string, gpus ...int) {
	b.Helper()
	var ids []string
	for _, n := range gpus {
		ids = append(ids, b.host.Devices[n].UUID)
	}
	if err := b.i.ConfineToDevices(b.path(container), ids); err != nil {
		b.Fatal(err)
	}
}

// start starts a process in the container.
func (b *cgroupFixture) start(container string) *opener.NodeOpener {
	b.Helper()
	o := opener.Start(b)
	if err := b.i.MoveProcess(b.path(container), o.PID); err != nil {
		b.Fatal(err)
	}
	return o
}

// wantOpens checks that the process can open exactly those nodes of the host, and that
// the kernel's rules match.
func (b *cgroupFixture) wantOpens(o *opener.NodeOpener, nodes ...string) {
	b.Helper()
	for name, path := range b.node {
		want := unix.EPERM
		if slices.Contains(nodes, name) {
			want = unix.ENXIO // the node has no driver
		}
		if got := o.OpenPath(b, path); got != want {
			b.Errorf("open %s: got %q, want %q", name, got.Error(), want.Error())
		}
	}
	if got := o.OpenPath(b, "/dev/null"); got != 0 {
		b.Errorf("open null: %v", got)
	}
}

func (b *cgroupFixture) wantAllowed(container string, gpus ...int) {
	b.Helper()
	var want []string
	for _, n := range gpus {
		want = append(want, b.host.Devices[n].UUID)
	}
	got, err := b.i.AllowedDevices(b.path(container))
	if err != nil || !slices.Equal(got, want) {
		b.Errorf("container %s holds %v, %v; want %v", container, got, err, want)
	}
}

var controlNodes = []string{"nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"}

func withControlNodes(gpus ...string) []string { return append(slices.Clone(controlNodes), gpus...) }

func TestRootApplyGrant(t *testing.T) {
	onBothVersions(t, fourGPUHost(t), func(b *cgroupFixture) {
		b.isolate("c")
		o := b.start("c")
		b.wantOpens(o)
		b.wantAllowed("c")
		b.isolate("c", 2)
		b.wantOpens(o, withControlNodes("nvidia2")...)
		b.wantAllowed("c", 2)
		b.isolate("c", 2, 0)
		b.wantOpens(o, withControlNodes("nvidia0", "nvidia2")...)
		b.wantAllowed("c", 0, 2)
		b.isolate("c", 0)
		b.wantOpens(o, withControlNodes("nvidia0")...)
		b.isolate("c")
		b.wantOpens(o)
		b.wantAllowed("c")
		if err := b.i.ApplyGrant(b.path("c"), DeviceGrant{}); err == nil {
			b.Error("a grant without rules was taken for one")
		}
		if err := b.i.ConfineToDevices(b.path("c"), []string{"GPU-x"}); err == nil || !strings.Contains(err.Error(), "GPU-x is not among this host's 4 GPUs") {
			b.Errorf("a GPU of another host: %v", err)
		}
	})
}

// Two containers hold two GPUs each; neither can open the other's.
func TestRootContainersAreIsolatedFromEachOther(t *testing.T) {
	onBothVersions(t, fourGPUHost(t), func(b *cgroupFixture) {
		b.isolate("one", 0, 1)
		b.isolate("two", 2, 3)
		b.wantOpens(b.start("one"), withControlNodes("nvidia0", "nvidia1")...)
		b.wantOpens(b.start("two"), withControlNodes("nvidia2", "nvidia3")...)
		if below, err := b.i.ListChildCgroups(b.root); err != nil || !slices.Equal(below, []string{"one", "two"}) {
			b.Errorf("below the agent's cgroup are %v, %v", below, err)
		}
		if below, err := b.i.ListChildCgroups(b.path("none")); err != nil || len(below) != 0 {
			b.Errorf("below no cgroup are %v, %v", below, err)
		}
	})
}

func TestRootNestedContainers(t *testing.T) {
	onBothVersions(t, fourGPUHost(t), func(b *cgroupFixture) {
		b.isolate("c", 0, 1)
		if err := b.i.cgroups.CreateCgroup(b.path("c/mesos/n")); err != nil {
			b.Fatal(err)
		}
		o := b.start("c/mesos/n")
		b.wantOpens(o, withControlNodes("nvidia0", "nvidia1")...)
		b.wantAllowed("c/mesos/n", 0, 1)
		b.isolate("c/mesos/n", 1)
		b.wantOpens(o, withControlNodes("nvidia1")...)
		b.wantAllowed("c/mesos/n", 1)
		b.isolate("c", 0) // a nested container loses what its parent lost
		b.wantOpens(o, controlNodes...)
		b.wantAllowed("c/mesos/n")
		if err := b.i.ConfineToDevices(b.path("c/mesos/n"), []string{b.host.Devices[3].UUID}); err == nil {
			b.Error("a nested container got a GPU that its parent lacks")
		}
		b.wantOpens(o, controlNodes...)
	})
}

func TestRootMIG(t *testing.T) {
	h := gpu.Host{Simulated: true, Devices: []gpu.Device{
		{UUID: "GPU-a", Minor: 0}, migDevice("MIG-1", "GPU-b", 1, 30), migDevice("MIG-2", "GPU-b", 1, 40),
	}}
	onBothVersions(t, h, func(b *cgroupFixture) {
		b.isolate("c", 1)
		o := b.start("c")
		b.wantOpens(o, withControlNodes("nvidia1", "nvidia-caps/nvidia-cap30", "nvidia-caps/nvidia-cap31")...)
		b.wantAllowed("c", 1)
		b.isolate("c", 1, 2)
		b.wantOpens(o, withControlNodes("nvidia1", "nvidia-caps/nvidia-cap30", "nvidia-caps/nvidia-cap31", "nvidia-caps/nvidia-cap40", "nvidia-caps/nvidia-cap41")...)
		b.wantAllowed("c", 1, 2)
		b.isolate("c", 2)
		b.wantOpens(o, withControlNodes("nvidia1", "nvidia-caps/nvidia-cap40", "nvidia-caps/nvidia-cap41")...)
		b.isolate("c", 0)
		b.wantOpens(o, withControlNodes("nvidia0")...)
		b.wantAllowed("c", 0)
	})
}

// After a restart the daemon finds, changes and revokes earlier grants, while the
// container's process continues.
func TestRootGrantsSurviveRestart(t *testing.T) {
	onBothVersions(t, fourGPUHost(t), func(b *cgroupFixture) {
		b.isolate("c", 0)
		o := b.start("c")
		b.restart()
		b.wantOpens(o, withControlNodes("nvidia0")...)
		b.wantAllowed("c", 0)
		b.isolate("c", 0, 3)
		b.wantOpens(o, withControlNodes("nvidia0", "nvidia3")...)
		b.restart()
		b.wantAllowed("c", 0, 3)
		b.isolate("c", 3)
		b.wantOpens(o, withControlNodes("nvidia3")...)
		b.restart()
		if err := b.i.ReleaseCgroup(b.path("c")); !errors.Is(err, unix.EBUSY) {
			b.Errorf("remove a cgroup with a process: %v", err)
		}
		b.wantOpens(o) // its GPUs are revoked anyway
	})
}

// Isolate keeps rules that an operator added and removes GPUs that were not granted.
func TestRootKeepsOperatorsRules(t *testing.T) {
	onBothVersions(t, fourGPUHost(t), func(b *cgroupFixture) {
		if err := b.i.cgroups.CreateCgroup(b.path("c")); err != nil {
			b.Fatal(err)
		}
		fuse := opener.MakeNode(b, "fuse", 'c', 196, 229) // a device number without a driver
		list := resolveTaskGrant(b.T, b.i, b.host.Devices[3].UUID).Rules
		list = append(list, parseRule(b.T, "c 196:229 rw"))
		if err := b.i.cgroups.ConfineCgroup(b.path("c"), list); err != nil {
			b.Fatal(err)
		}
		b.isolate("c", 1)
		o := b.start("c")
		b.wantOpens(o, withControlNodes("nvidia1")...)
		if got := o.OpenPath(b, fuse); got != unix.ENXIO {
			b.Errorf("open what the operator allowed: %v", got)
		}
	})
}

func TestRootMoveProcessAndReleaseCgroup(t *testing.T) {
	onBothVersions(t, fourGPUHost(t), func(b *cgroupFixture) {
		if err := b.i.cgroups.CreateCgroup(b.root); err != nil {
			b.Fatal(err)
		}
		if _, err := b.i.AllowedDevices(b.root); !errors.Is(err, ErrUnconfined) {
			b.Errorf("an unconfined cgroup: %v", err)
		}
		if _, err := b.i.AllowedDevices(b.path("none")); !errors.Is(err, fs.ErrNotExist) {
			b.Errorf("no cgroup: %v", err)
		}
		b.isolate("mine", 0)
		b.isolate("mine/leaf", 0)
		in := func(o *opener.NodeOpener) string {
			at, err := b.i.cgroups.ProcessCgroup(fmt.Sprintf("/proc/%d/cgroup", o.PID))
			if err != nil {
				b.Fatal(err)
			}
			return at
		}
		o := b.start("mine/leaf")
		if err := b.i.MoveProcess(b.path("mine"), o.PID); err != nil { // the process is already in it: below
			b.Fatal(err)
		}
		if got := in(o); got != "/"+b.path("mine/leaf") {
			b.Errorf("a process below the cgroup was moved to %s", got)
		}
		b.isolate("min", 1) // not a prefix match of mine
		if err := b.i.MoveProcess(b.path("min"), o.PID); err != nil {
			b.Fatal(err)
		}
		if got := in(o); got != "/"+b.path("min") {
			b.Errorf("a process of another cgroup is in %s", got)
		}
		if err := b.i.MoveProcess(b.path("mine"), 1<<30); !errors.Is(err, fs.ErrNotExist) {
			b.Errorf("a process that is not there: %v", err)
		}

		b.makeForeignCgroup("mesoss")
		b.isolate("mesoss", 2)
		for _, container := range []string{"mine", "mesoss", "none", "mine"} {
			if err := b.i.ReleaseCgroup(b.path(container)); err != nil {
				b.Error(err)
			}
		}
		if below, err := b.i.ListChildCgroups(b.root); err != nil || !slices.Equal(below, []string{"mesoss", "min"}) {
			b.Errorf("left are %v, %v; want what another made, and what was not removed", below, err)
		}
		if held, err := b.i.AllowedDevices(b.path("mesoss")); len(held) != 0 || err != nil && !errors.Is(err, ErrUnconfined) {
			b.Errorf("the cgroup that was released holds %v, %v", held, err)
		}
	})
}

// makeForeignCgroup creates a cgroup as the agent does, without the isolator.
func (b *cgroupFixture) makeForeignCgroup(container string) {
	b.Helper()
	find := cgroup.FindV1MountPoint
	if b.version == "v2" {
		find = cgroup.FindV2MountPoint
	}
	root, err := find("/proc/self/mountinfo")
	if err == nil {
		err = os.MkdirAll(filepath.Join(root, b.path(container)), 0o755)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// With the default rules a container without a grant opens no GPU, and a grant overrides
// them. The rules stay while no daemon runs.
func TestRootDenyGPUsByDefault(t *testing.T) {
	requireMounted(t, "v2")
	b := newCgroupFixture(t, "v2", fourGPUHost(t))
	b.makeForeignCgroup("c")
	o := b.start("c")
	b.wantOpens(o, withControlNodes("nvidia0", "nvidia1", "nvidia2", "nvidia3")...)
	if err := b.i.DenyGPUsByDefault(b.root); err != nil {
		t.Fatal(err)
	}
	b.wantOpens(o)
	b.wantAllowed("c")
	b.restart()
	if err := b.i.DenyGPUsByDefault(b.root); err != nil {
		t.Fatal(err)
	}
	b.isolate("c", 2)
	b.wantOpens(o, withControlNodes("nvidia2")...)
	if err := b.i.ReleaseCgroup(b.path("c")); err != nil { // another process created it, and it is not empty
		t.Fatal(err)
	}
	b.wantOpens(o)
}
