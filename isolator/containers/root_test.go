package containers_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/opener"
	"mesos-gpu/internal/testing/testneeds"
	"mesos-gpu/isolator"
	"mesos-gpu/isolator/cgroup"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/simulated"
)

func TestMain(m *testing.M) {
	opener.RunIfChild()
	os.Exit(m.Run())
}

// kernelFixture is a host with four simulated GPUs, two named and two stock, on the real
// kernel.
type kernelFixture struct {
	t *testing.T
	*managerFixture
	host  gpu.Host
	nodes []string
}

func onBothVersions(t *testing.T, test func(*kernelFixture)) {
	for _, version := range []string{"v1", "v2"} {
		t.Run(version, func(t *testing.T) { test(newKernelFixture(t, version)) })
	}
}

func newKernelFixture(t *testing.T, version string) *kernelFixture {
	t.Helper()
	mountpoint := makeHierarchy(t, version)
	h, err := simulated.NewHost("4xV100", "test")
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := isolator.New(isolator.HostConfig{Host: h, CgroupVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	root := fmt.Sprintf("mesos-gpu-containers-test-%d-%s", os.Getpid(), path.Base(path.Dir(t.Name())))
	if err := os.Mkdir(filepath.Join(mountpoint, root), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { removeAll(t, filepath.Join(mountpoint, root)) })
	b := &kernelFixture{t: t, host: h, managerFixture: &managerFixture{cfg: containers.ManagerConfig{
		Kernel: kernel, Dir: t.TempDir(), CgroupsRoot: root, Stock: []string{h.Devices[2].UUID, h.Devices[3].UUID},
		DriverVolume: noVolume, NeedsDriver: noDriver, Log: silentLog(),
	}}}
	for _, d := range h.Devices {
		b.nodes = append(b.nodes, opener.MakeNode(t, fmt.Sprintf("nvidia%d", d.Minor), 'c', 195, uint32(d.Minor)))
	}
	b.restart(t)
	return b
}

func makeHierarchy(t *testing.T, version string) string {
	t.Helper()
	if version == "v1" {
		return testneeds.RequireDevicesCgroup(t)
	}
	testneeds.RequireRoot(t)
	mountpoint, err := cgroup.FindV2MountPoint("/proc/self/mountinfo")
	if err != nil {
		t.Skipf("needs cgroup v2: mount -t cgroup2 none /sys/fs/cgroup/unified: %v", err)
	}
	return mountpoint
}

// removeAll removes a cgroup and its children, which have no processes.
func removeAll(t *testing.T, dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			removeAll(t, filepath.Join(dir, e.Name()))
		}
	}
	if err := unix.Rmdir(dir); err != nil {
		t.Errorf("remove %s: %v", dir, err)
	}
}

// launch starts a process in the container.
func (b *kernelFixture) launch(id string, gpus int, named ...int) *opener.NodeOpener {
	b.t.Helper()
	l := containers.LaunchRequest{Container: id}
	if gpus > 0 {
		l.Resources = resources(float64(gpus), b.uuids(named...)...)
	}
	if _, err := b.Prepare(b.t.Context(), l); err != nil {
		b.t.Fatal(err)
	}
	p := opener.Start(b.t)
	if err := b.Isolate(id, p.PID); err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (b *kernelFixture) update(id string, gpus int, named ...int) {
	b.t.Helper()
	if _, err := b.Update(id, resources(float64(gpus), b.uuids(named...)...)); err != nil {
		b.t.Error(err)
	}
}

func (b *kernelFixture) uuids(minors ...int) []string {
	var ids []string
	for _, m := range minors {
		ids = append(ids, b.host.Devices[m].UUID)
	}
	return ids
}

// wantOpens checks which of the four devices the process can open.
func (b *kernelFixture) wantOpens(p *opener.NodeOpener, want ...int) {
	b.t.Helper()
	var got []int
	for minor, node := range b.nodes {
		switch errno := p.OpenPath(b.t, node); errno {
		case unix.ENXIO, 0:
			got = append(got, minor)
		case unix.EPERM:
		default:
			b.t.Errorf("open %s: %v", node, errno)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		b.t.Errorf("it opens %v, want %v", got, want)
	}
}

// Containers with 0, 1 and 2 of 4 devices grow and shrink. The daemon is killed and
// restarted, its files are lost, and the agent is restarted.
func TestRootContainerLifeCycle(t *testing.T) {
	onBothVersions(t, func(b *kernelFixture) {
		none, one, two := b.launch("none", 0), b.launch("one", 1), b.launch("two", 2, 0)
		b.wantOpens(none)
		b.wantOpens(one, 2)
		b.wantOpens(two, 0, 3)
		b.update("one", 2, 1)
		b.update("two", 1, 0)
		b.wantOpens(one, 1, 2)
		b.wantOpens(two, 0)
		b.update("none", 1)
		b.wantOpens(none, 3)

		b.restart(b.t)
		b.wantOpens(one, 1, 2)
		b.update("none", 0)
		if err := os.RemoveAll(b.cfg.Dir); err != nil {
			b.t.Fatal(err)
		}
		b.restart(b.t)
		b.wantOpens(one, 1, 2)
		b.wantOpens(none)
		if got, err := b.Devices("one"); err != nil || strings.Join(got, " ") != strings.Join(b.uuids(1, 2), " ") {
			b.t.Errorf("found again: %v, %v; want %v", got, err, b.uuids(1, 2))
		}
		if _, err := b.Prepare(b.t.Context(), containers.LaunchRequest{Container: "new", Resources: resources(2)}); err == nil {
			b.t.Error("two of two devices are granted though one is held")
		}
		if err := b.Recover([]string{"none", "one", "two"}); err != nil {
			b.t.Error(err)
		}
		b.wantOpens(one, 1, 2)
		b.update("one", 2)
		b.wantOpens(one, 2, 3)
		b.wantOpens(two, 0)
		b.wantOpens(none)
		if s, err := b.Status("two"); err != nil || !strings.Contains(strings.Join(s.Rules, ","), "c 195:0 rw") {
			b.t.Errorf("status: %v, %v", s, err)
		}
	})
}

// Nested and debug containers inherit their parent's devices or have some of them.
func TestRootNestedContainers(t *testing.T) {
	onBothVersions(t, func(b *kernelFixture) {
		parent := b.launch("p", 3, 0)
		part := b.launch("p.part", 1, 0)
		b.wantOpens(parent, 0, 2, 3)
		b.wantOpens(part, 0)

		// A container that shares its parent's cgroup has the parent's devices.
		if _, err := b.Prepare(b.t.Context(), containers.LaunchRequest{Container: "p.debug"}); err != nil {
			b.t.Fatal(err)
		}
		if err := b.Isolate("p.debug", os.Getpid()); err != nil {
			b.t.Fatal(err)
		}
		// A container with its own cgroup, which Mesos creates without devices.
		own := b.cfg.CgroupsRoot + "/p/mesos/own"
		if err := b.cfg.Kernel.ConfineToDevices(own, nil); err != nil {
			b.t.Fatal(err)
		}
		inherits := b.launch("p.own", 0)
		b.wantOpens(inherits, 0, 2, 3)

		b.update("p", 2, 0, 1)
		b.wantOpens(parent, 0, 1)
		b.wantOpens(inherits, 0, 1)
		b.wantOpens(part, 0)
		b.update("p", 1, 1)
		b.wantOpens(parent, 1)
		b.wantOpens(inherits, 1)
		b.wantOpens(part)
		b.update("p", 3, 1)
		b.wantOpens(parent, 1, 2, 3)
		b.wantOpens(inherits, 1, 2, 3)
		b.wantOpens(part)
	})
}

func TestRootCleanup(t *testing.T) {
	onBothVersions(t, func(b *kernelFixture) {
		t := b.t
		t.Run("container", func(t *testing.T) {
			inner := *b
			inner.t = t
			inner.wantOpens(inner.launch("c", 2), 2, 3)
		}) // its process ends here
		if err := b.Cleanup("c"); err != nil {
			b.t.Fatal(err)
		}
		if _, err := b.cfg.Kernel.DeviceRules(b.cfg.CgroupsRoot + "/c"); err == nil {
			b.t.Error("the cgroup that was made for it is still there")
		}
		b.wantOpens(b.launch("next", 2), 2, 3)
	})
}
