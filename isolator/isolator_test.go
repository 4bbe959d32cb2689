package isolator

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/opener"
	"mesos-gpu/isolator/cgroup"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/rules"
	"mesos-gpu/isolator/simulated"
)

func TestMain(m *testing.M) {
	opener.RunIfChild()
	if len(os.Args) == 3 && os.Args[1] == printAccessArgument {
		printDeviceAccess(os.Args[2])
	}
	os.Exit(m.Run())
}

func simulatedHost(t *testing.T) gpu.Host {
	t.Helper()
	h, err := simulated.NewHost("2xV100,1xK80", "test")
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func newIsolator(t *testing.T, cfg HostConfig) *Isolator {
	t.Helper()
	i, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func resolveTaskGrant(t *testing.T, i *Isolator, ids ...string) DeviceGrant {
	t.Helper()
	g, err := i.ResolveTaskGrant("c", len(ids), ids)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func formatRules(g DeviceGrant) string {
	var text []string
	for _, r := range g.Rules {
		text = append(text, r.String())
	}
	return strings.Join(text, "\n")
}

func TestResolveTaskGrant(t *testing.T) {
	h := simulatedHost(t)
	i := newIsolator(t, HostConfig{Host: h})
	g := resolveTaskGrant(t, i, h.Devices[2].UUID, h.Devices[0].UUID)
	if diff := cmp.Diff([]gpu.Device{h.Devices[2], h.Devices[0]}, g.Devices); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, want := range []string{"c 195:2 rw", "c 195:0 rw", "c 195:255 rwm", "c 510:0 rwm"} {
		if !strings.Contains(formatRules(g), want) {
			t.Errorf("no rule %q in\n%s", want, formatRules(g))
		}
	}
	if strings.Contains(formatRules(g), "c 195:1 ") {
		t.Error("a GPU that was not requested is granted")
	}
	if len(g.Nodes) != 3+4 {
		t.Errorf("got %d nodes, want 3 GPUs and 4 control nodes", len(g.Nodes))
	}
	if none := resolveTaskGrant(t, i); len(none.Devices) != 0 || strings.Contains(formatRules(none), "195") {
		t.Errorf("a container without GPUs gets %v and\n%s", none.Devices, formatRules(none))
	}
}

func TestResolveTaskGrantRejects(t *testing.T) {
	h := simulatedHost(t)
	i := newIsolator(t, HostConfig{Host: h})
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
			_, err := i.ResolveTaskGrant("c", c.gpus, c.ids)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestNewRejectsAmbiguousHosts(t *testing.T) {
	for name, devices := range map[string][]gpu.Device{
		"one UUID":                   {{UUID: "GPU-a", Minor: 0}, {UUID: "GPU-a", Minor: 1}},
		"no UUID":                    {{Minor: 0}},
		"one minor":                  {{UUID: "GPU-a", Minor: 0}, {UUID: "GPU-b", Minor: 0}},
		"a slice on another's minor": {{UUID: "GPU-a", Minor: 0}, migDevice("MIG-1", "GPU-b", 0, 3)},
		"slices of two on one minor": {migDevice("MIG-1", "GPU-a", 0, 3), migDevice("MIG-2", "GPU-b", 0, 5)},
		"one capability":             {migDevice("MIG-1", "GPU-a", 0, 3), migDevice("MIG-2", "GPU-a", 0, 3)},
	} {
		if _, err := New(HostConfig{Host: gpu.Host{Simulated: true, Devices: devices}}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// migDevice returns a MIG device with the capability nodes gi and gi + 1.
func migDevice(uuid, parent string, minor, gi int) gpu.Device {
	return gpu.Device{UUID: uuid, Minor: minor, MIG: &gpu.MIG{Parent: parent, GPUInstanceCap: gi, ComputeInstanceCap: gi + 1}}
}

func TestNewAcceptsMIGDevicesOfOneGPU(t *testing.T) {
	h := gpu.Host{Simulated: true, Devices: []gpu.Device{migDevice("MIG-1", "GPU-a", 0, 3), migDevice("MIG-2", "GPU-a", 0, 5)}}
	i := newIsolator(t, HostConfig{Host: h})
	if g := resolveTaskGrant(t, i, "MIG-2"); !strings.Contains(formatRules(g), "c 195:0 rw\nc 509:5 rw\nc 509:6 rw") {
		t.Errorf("got\n%s", formatRules(g))
	}
}

// Isolator implements the kernel interface of containers.Manager.
var _ containers.Kernel = (*Isolator)(nil)

func TestChooseHierarchy(t *testing.T) {
	const v1, v2 = "30 25 0:26 / /one rw - cgroup cgroup rw,devices\n", "31 25 0:27 / /two rw - cgroup2 none rw\n"
	for _, c := range []struct {
		mounts, want string
		chosen       cgroupHierarchy
		err          error
	}{
		{v1, "", cgroup.V1{Root: "/one"}, nil},
		{v2, "", cgroup.V2{Root: "/two"}, nil},
		{v2 + v1, "", cgroup.V1{Root: "/one"}, nil},
		{v1 + "31 25 0:27 / /sys/fs/cgroup rw - cgroup2 none rw\n", "", cgroup.V2{Root: "/sys/fs/cgroup"}, nil},
		{v2 + v1, "v1", cgroup.V1{Root: "/one"}, nil},
		{v2 + v1, "v2", cgroup.V2{Root: "/two"}, nil},
		{v1, "v2", nil, cgroup.ErrNoHierarchy},
		{v2, "v1", nil, cgroup.ErrNoHierarchy},
	} {
		proc := t.TempDir()
		writeFile(t, filepath.Join(proc, "self/mountinfo"), c.mounts)
		i, err := New(HostConfig{procRoot: proc, CgroupVersion: c.want})
		if !errors.Is(err, c.err) {
			t.Errorf("%q of %q: %v", c.want, c.mounts, err)
		}
		if err == nil && i.cgroups != c.chosen {
			t.Errorf("%q of %q: got %#v", c.want, c.mounts, i.cgroups)
		}
	}
	if _, err := New(HostConfig{CgroupVersion: "v3"}); err == nil || !strings.Contains(err.Error(), `"v3" is neither v1 nor v2`) {
		t.Errorf("v3: %v", err)
	}
}

// On a machine without cgroups the isolator does nothing.
func TestMissingHierarchy(t *testing.T) {
	i := newIsolator(t, HostConfig{Host: simulatedHost(t), procRoot: t.TempDir()})
	_, holding := i.AllowedDevices("x")
	_, below := i.ListChildCgroups("x")
	for name, err := range map[string]error{
		"isolate": i.ApplyGrant("x", resolveTaskGrant(t, i)), "default": i.DenyGPUsByDefault("x"), "enter": i.MoveProcess("x", 1),
		"holding": holding, "below": below, "remove": i.ReleaseCgroup("x"),
	} {
		if err == nil || !strings.Contains(err.Error(), "find cgroup v1 devices hierarchy") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func parseRule(t *testing.T, line string) rules.DeviceRule {
	t.Helper()
	r, err := rules.ParseRule(line)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
