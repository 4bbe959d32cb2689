package isolator

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/opener"
	"mesos-gpu/isolator/rules"
)

// printAccessArgument starts the test binary as a process that waits for a byte and then
// prints the result of Granted for the nodes of a folder.
const printAccessArgument = "print-granted"

func printDeviceAccess(devRoot string) {
	_, _ = os.Stdin.Read(make([]byte, 1))
	reach, err := DetectDeviceAccessAt("/proc", devRoot)
	fmt.Println(reach.Minors, reach.Confined, err)
	if len(reach.Caps) > 0 {
		fmt.Println("caps", reach.Caps)
	}
	os.Exit(0)
}

// makeDevFolder creates a /dev that every user may list, with nodes named like GPUs or
// other devices.
func makeDevFolder(t *testing.T, mode uint32, nodes map[string]int) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "mesos-gpu-dev")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, number := range nodes {
		path := filepath.Join(dir, name)
		if err := errors.Join(unix.Mknod(path, unix.S_IFCHR, number), os.Chmod(path, os.FileMode(mode))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func nodeSet(others ...string) map[string]int {
	list := map[string]int{}
	for n := range 4 {
		list[fmt.Sprintf("nvidia%d", n)] = int(unix.Mkdev(rules.NvidiaMajor, uint32(n)))
	}
	for n, name := range others {
		list[name] = int(unix.Mkdev(196, uint32(n)))
	}
	return list
}

// detectIn runs Granted in a process of the container.
func (b *cgroupFixture) detectIn(container, dev string, uid uint32) string {
	b.Helper()
	cmd := exec.Command("/proc/self/exe", printAccessArgument, dev)
	cmd.Env = append(os.Environ(), opener.NoRaceDelay)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	moved := b.i.MoveProcess(b.path(container), cmd.Process.Pid)
	in.Close() // lets the process continue
	if err := cmd.Wait(); err != nil {
		b.Fatalf("%v: %s", err, said.String())
	}
	if moved != nil {
		b.Fatal(moved)
	}
	return strings.TrimSpace(out.String())
}

// A process detects its granted devices, as any user.
func TestRootDetectDeviceAccess(t *testing.T) {
	onBothVersions(t, fourGPUHost(t), func(b *cgroupFixture) {
		dev := makeDevFolder(b.T, 0o666, nodeSet("other"))
		for _, uid := range []uint32{0, 65534} {
			for _, c := range []struct {
				gpus []int
				want string
			}{
				{nil, "[] true <nil>"}, {[]int{2}, "[2] true <nil>"}, {[]int{3, 0}, "[0 3] true <nil>"},
				{[]int{0, 1, 2, 3}, "[0 1 2 3] true <nil>"},
			} {
				b.isolate("c", c.gpus...)
				if got := b.detectIn("c", dev, uid); got != c.want {
					b.Errorf("uid %d with GPUs %v: got %s, want %s", uid, c.gpus, got, c.want)
				}
			}
		}
		if err := b.i.cgroups.CreateCgroup(b.path("open")); err != nil {
			b.Fatal(err)
		}
		if got := b.detectIn("open", dev, 65534); got != "[] false <nil>" {
			b.Errorf("a process that nothing confines: %s", got)
		}
	})
}

// A process detects the capability nodes of its own MIG devices only.
func TestRootDetectDeviceAccessMIG(t *testing.T) {
	h := gpu.Host{Simulated: true, Devices: []gpu.Device{migDevice("MIG-1", "GPU-b", 1, 30), migDevice("MIG-2", "GPU-b", 1, 40)}}
	onBothVersions(t, h, func(b *cgroupFixture) {
		dev := makeDevFolder(b.T, 0o666, nodeSet())
		caps := filepath.Join(dev, capsDir)
		if err := errors.Join(os.Mkdir(caps, 0o755), os.Chmod(caps, 0o755)); err != nil {
			b.Fatal(err)
		}
		for _, n := range []uint32{1, 30, 31, 40, 41} {
			path := filepath.Join(caps, fmt.Sprintf("nvidia-cap%d", n))
			number := int(unix.Mkdev(b.i.driver.majors.Caps, n))
			if err := errors.Join(unix.Mknod(path, unix.S_IFCHR, number), os.Chmod(path, 0o444)); err != nil {
				b.Fatal(err)
			}
		}
		b.isolate("c", 1)
		for _, uid := range []uint32{0, 65534} {
			if got := b.detectIn("c", dev, uid); got != "[1] true <nil>\ncaps [40 41]" {
				b.Errorf("uid %d: got %s", uid, got)
			}
		}
	})
}

// Nodes with a GPU's name but another device number are ignored. Nodes whose mode denies
// this user access are an error, not a denial.
func TestRootDetectDeviceAccessFromNodes(t *testing.T) {
	requireMounted(t, "v2")
	b := newCgroupFixture(t, "v2", fourGPUHost(t))
	b.isolate("c", 1)
	strange := nodeSet("nvidia7")
	strange["nvidia254"] = int(unix.Mkdev(rules.NvidiaMajor, rules.ModesetMinor))
	strange["nvidiax"] = int(unix.Mkdev(rules.NvidiaMajor, 1))
	if got := b.detectIn("c", makeDevFolder(t, 0o666, strange), 65534); got != "[1] true <nil>" {
		t.Errorf("got %s", got)
	}
	got := b.detectIn("c", makeDevFolder(t, 0o600, nodeSet()), 65534)
	if !strings.HasPrefix(got, "[] false check access to GPU ") || !strings.Contains(got, "permission denied: the node's mode denies it to this user") {
		t.Errorf("got %s", got)
	}
}

func TestDetectDeviceAccessFromV1List(t *testing.T) {
	cases := []struct {
		name, list string
		minors     []int
		confined   bool
	}{
		{"stock agent", "c 1:3 rwm\nc 195:255 rwm\nc 510:0 rwm\nc 195:3 rw\nc 195:1 rw\n", []int{1, 3}, true},
		{"no GPU", "c 1:3 rwm\n", nil, true},
		{"unconfined", "a *:* rwm\n", nil, false},
		{"torn", "c 1:", nil, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			writeFile(t, filepath.Join(root, "proc/self/cgroup"), "4:devices:/mesos/x\n")
			writeFile(t, filepath.Join(root, "cgroup/devices/mesos/x/devices.list"), c.list)
			writeFile(t, filepath.Join(root, "proc/self/mountinfo"), "30 25 0:26 / "+root+"/cgroup/devices rw - cgroup cgroup rw,devices\n")
			got, err := DetectDeviceAccessAt(filepath.Join(root, "proc"), t.TempDir())
			if err != nil || got.Confined != c.confined || !slices.Equal(got.Minors, c.minors) {
				t.Errorf("got %+v, %v; want %v, %v", got, err, c.minors, c.confined)
			}
		})
	}
	if _, err := DetectDeviceAccessAt(t.TempDir(), filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("neither a list nor nodes: %v", err)
	}
}
