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

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/need"
	"mesos-gpu/isolator/cgroup"
	"mesos-gpu/isolator/internal/opener"
	"mesos-gpu/isolator/simulated"
)

// grantedArgument starts the test binary as a process that waits for a byte
// and then prints what Granted says of it.
const grantedArgument = "print-granted"

func TestMain(m *testing.M) {
	opener.Main()
	if len(os.Args) == 2 && os.Args[1] == grantedArgument {
		_, _ = os.Stdin.Read(make([]byte, 1))
		fmt.Println(Granted())
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func host(t *testing.T) gpu.Host {
	t.Helper()
	h, err := simulated.Host("2xV100,1xK80", "test")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func newIsolator(t *testing.T, cfg Config) *Isolator {
	t.Helper()
	i, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func prepare(t *testing.T, i *Isolator, ids ...string) Grant {
	t.Helper()
	g, err := i.Prepare("c", len(ids), ids)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func lines(g Grant) string {
	var text []string
	for _, r := range g.Rules {
		text = append(text, r.String())
	}
	return strings.Join(text, "\n")
}

func TestPrepare(t *testing.T) {
	h := host(t)
	i := newIsolator(t, Config{Host: h})
	g := prepare(t, i, h.Devices[2].UUID, h.Devices[0].UUID)
	if diff := cmp.Diff([]gpu.Device{h.Devices[2], h.Devices[0]}, g.Devices); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, want := range []string{"c 195:2 rw", "c 195:0 rw", "c 195:255 rwm", "c 510:0 rwm"} {
		if !strings.Contains(lines(g), want) {
			t.Errorf("no rule %q in\n%s", want, lines(g))
		}
	}
	if strings.Contains(lines(g), "c 195:1 ") {
		t.Error("a GPU that was not asked for is granted")
	}
	if len(g.Nodes) != 3+4 {
		t.Errorf("got %d nodes, want 3 GPUs and 4 control nodes", len(g.Nodes))
	}
	if none := prepare(t, i); len(none.Devices) != 0 || strings.Contains(lines(none), "195") {
		t.Errorf("a container without GPUs gets %v and\n%s", none.Devices, lines(none))
	}
}

func TestPrepareRefuses(t *testing.T) {
	h := host(t)
	i := newIsolator(t, Config{Host: h})
	a := h.Devices[0].UUID
	cases := []struct {
		name string
		gpus int
		ids  []string
		want string
	}{
		{"fewer ids", 2, []string{a}, "prepare container c: it has gpus:2 and 1 gpu_ids"},
		{"no scalar", 0, []string{a}, "it has gpus:0 and 1 gpu_ids"},
		{"unknown", 1, []string{"GPU-x"}, "prepare container c: device GPU-x is not among this host's 3 GPUs"},
		{"twice", 2, []string{a, a}, "prepare container c: device " + a + " is named twice"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := i.Prepare("c", c.gpus, c.ids)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestNewRefusesAmbiguousHosts(t *testing.T) {
	for name, devices := range map[string][]gpu.Device{
		"one UUID":  {{UUID: "GPU-a", Minor: 0}, {UUID: "GPU-a", Minor: 1}},
		"no UUID":   {{Minor: 0}},
		"one minor": {{UUID: "GPU-a", Minor: 0}, {UUID: "GPU-b", Minor: 0}},
	} {
		if _, err := New(Config{Host: gpu.Host{Simulated: true, Devices: devices}}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestUVMMajor(t *testing.T) {
	const header = "Character devices:\n  1 mem\n195 nvidia-frontend\n"
	cases := []struct{ name, devices, want, err string }{
		{"loaded", header + "507 nvidia-uvm\n\nBlock devices:\n  7 loop\n", "c 507:0 rwm", ""},
		{"not loaded", header, "", "has that name; load it: nvidia-modprobe -u -c=0"},
		{"a block device", header + "\nBlock devices:\n507 nvidia-uvm\n", "", "has that name; load it"},
		{"no number", header + "x nvidia-uvm\n", "", `"x" is none`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			proc := t.TempDir()
			if err := os.WriteFile(filepath.Join(proc, "devices"), []byte(c.devices), 0o600); err != nil {
				t.Fatal(err)
			}
			h := host(t)
			h.Simulated = false
			i, err := New(Config{Host: h, ProcRoot: proc})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if g := prepare(t, i, h.Devices[0].UUID); !strings.Contains(lines(g), c.want) {
				t.Errorf("no %q in\n%s", c.want, lines(g))
			}
		})
	}
	h := host(t)
	h.Simulated = false
	if _, err := New(Config{Host: h, ProcRoot: t.TempDir()}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no /proc/devices: %v", err)
	}
	// A machine without GPUs need not have the module.
	newIsolator(t, Config{ProcRoot: t.TempDir()})
}

func TestRootIsolate(t *testing.T) {
	devices := cgroup.V1{Root: need.DevicesCgroup(t)}
	path := fmt.Sprintf("mesos-gpu-isolator-test-%d", os.Getpid())
	t.Cleanup(func() {
		if err := devices.Remove(path); err != nil {
			t.Error(err)
		}
	})
	h := host(t)
	i := newIsolator(t, Config{Host: h})
	g := prepare(t, i, h.Devices[1].UUID)
	if err := i.Isolate(path, g); err != nil {
		t.Fatal(err)
	}
	o := opener.Start(t)
	if err := devices.AddProcess(path, o.PID); err != nil {
		t.Fatal(err)
	}
	dev := t.TempDir()
	for _, n := range g.Nodes {
		node := filepath.Join(dev, n.Name)
		if err := unix.Mknod(node, unix.S_IFCHR|0o666, int(unix.Mkdev(n.Major, n.Minor))); err != nil {
			t.Fatal(err)
		}
		want := unix.ENXIO
		if n.Name == "nvidia0" || n.Name == "nvidia2" {
			want = unix.EPERM
		}
		if got := o.Open(t, node); got != want {
			t.Errorf("open %s: got %q, want %q", n.Name, got.Error(), want.Error())
		}
	}
	if got := printGranted(t, devices, path); got != "[1] true <nil>" {
		t.Errorf("a process in the cgroup is told %q, want minor 1", got)
	}
	if err := i.Isolate(path, Grant{}); err == nil {
		t.Error("a grant without rules was taken for one")
	}
}

func TestGrantedFrom(t *testing.T) {
	cases := []struct {
		name, list string
		minors     []int
		confined   bool
	}{
		{"stock agent", "c 1:3 rwm\nc 195:255 rwm\nc 510:0 rwm\nc 195:3 rw\nc 195:1 rw\n", []int{1, 3}, true},
		{"no GPU", "c 1:3 rwm\n", nil, true},
		{"unconfined", "a *:* rwm\n", nil, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, filepath.Join(root, "proc/self/cgroup"), "4:devices:/mesos/x\n")
			write(t, filepath.Join(root, "cgroup/devices/mesos/x/devices.list"), c.list)
			mounted(t, filepath.Join(root, "proc"), filepath.Join(root, "cgroup/devices"))
			minors, confined, err := GrantedFrom(filepath.Join(root, "proc"))
			if err != nil || confined != c.confined || !slices.Equal(minors, c.minors) {
				t.Errorf("got %v, %v, %v; want %v, %v", minors, confined, err, c.minors, c.confined)
			}
		})
	}
	root := t.TempDir()
	if _, _, err := GrantedFrom(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no /proc: %v", err)
	}
	write(t, filepath.Join(root, "self/mountinfo"), "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n")
	if _, _, err := GrantedFrom(root); !errors.Is(err, cgroup.ErrNoHierarchy) {
		t.Errorf("cgroup v2 alone: %v", err)
	}
	mounted(t, root, filepath.Join(root, "cgroup"))
	write(t, filepath.Join(root, "self/cgroup"), "0::/\n")
	if _, _, err := GrantedFrom(root); !errors.Is(err, cgroup.ErrNoHierarchy) {
		t.Errorf("mounted, but this process is not in it: %v", err)
	}
	write(t, filepath.Join(root, "self/cgroup"), "4:devices:/gone\n")
	if _, _, err := GrantedFrom(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such cgroup: %v", err)
	}
}

// mounted makes a mountinfo file that names one devices hierarchy.
func mounted(t *testing.T, proc, devices string) {
	t.Helper()
	write(t, filepath.Join(proc, "self/mountinfo"), "30 25 0:26 / "+devices+" rw - cgroup cgroup rw,devices\n")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
