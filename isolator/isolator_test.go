package isolator

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/cgroup"
	"mesos-gpu/isolator/containers"
	"mesos-gpu/isolator/internal/opener"
	"mesos-gpu/isolator/rules"
	"mesos-gpu/isolator/simulated"
)

func TestMain(m *testing.M) {
	opener.Main()
	if len(os.Args) == 3 && os.Args[1] == grantedArgument {
		printGranted(os.Args[2])
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
		"one UUID":                   {{UUID: "GPU-a", Minor: 0}, {UUID: "GPU-a", Minor: 1}},
		"no UUID":                    {{Minor: 0}},
		"one minor":                  {{UUID: "GPU-a", Minor: 0}, {UUID: "GPU-b", Minor: 0}},
		"a slice on another's minor": {{UUID: "GPU-a", Minor: 0}, slice("MIG-1", "GPU-b", 0, 3)},
		"slices of two on one minor": {slice("MIG-1", "GPU-a", 0, 3), slice("MIG-2", "GPU-b", 0, 5)},
		"one capability":             {slice("MIG-1", "GPU-a", 0, 3), slice("MIG-2", "GPU-a", 0, 3)},
	} {
		if _, err := New(Config{Host: gpu.Host{Simulated: true, Devices: devices}}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// slice is a MIG device with the capability nodes cap and the next.
func slice(uuid, parent string, minor, gi int) gpu.Device {
	return gpu.Device{UUID: uuid, Minor: minor, MIG: &gpu.MIG{Parent: parent, GPUInstanceCap: gi, ComputeInstanceCap: gi + 1}}
}

func TestNewTakesSlicesOfOneGPU(t *testing.T) {
	h := gpu.Host{Simulated: true, Devices: []gpu.Device{slice("MIG-1", "GPU-a", 0, 3), slice("MIG-2", "GPU-a", 0, 5)}}
	i := newIsolator(t, Config{Host: h})
	if g := prepare(t, i, "MIG-2"); !strings.Contains(lines(g), "c 195:0 rw\nc 509:5 rw\nc 509:6 rw") {
		t.Errorf("got\n%s", lines(g))
	}
}

// The containers of the daemon are confined by this package.
var _ containers.Kernel = (*Isolator)(nil)

func TestChoosesCgroups(t *testing.T) {
	const v1, v2 = "30 25 0:26 / /one rw - cgroup cgroup rw,devices\n", "31 25 0:27 / /two rw - cgroup2 none rw\n"
	for _, c := range []struct {
		mounts, want string
		chosen       hierarchy
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
		write(t, filepath.Join(proc, "self/mountinfo"), c.mounts)
		i, err := New(Config{ProcRoot: proc, Cgroups: c.want})
		if !errors.Is(err, c.err) {
			t.Errorf("%q of %q: %v", c.want, c.mounts, err)
		}
		if err == nil && i.cgroups != c.chosen {
			t.Errorf("%q of %q: got %#v", c.want, c.mounts, i.cgroups)
		}
	}
	if _, err := New(Config{Cgroups: "v3"}); err == nil || !strings.Contains(err.Error(), `"v3" is neither v1 nor v2`) {
		t.Errorf("v3: %v", err)
	}
}

// A machine without cgroups has an isolator, which isolates nothing.
func TestNoCgroups(t *testing.T) {
	i := newIsolator(t, Config{Host: host(t), ProcRoot: t.TempDir()})
	_, holding := i.Holding("x")
	_, below := i.Below("x")
	for name, err := range map[string]error{
		"isolate": i.Isolate("x", prepare(t, i)), "default": i.Default("x"), "enter": i.Enter("x", 1),
		"holding": holding, "below": below, "remove": i.Remove("x"),
	} {
		if err == nil || !strings.Contains(err.Error(), "find cgroup v1 devices hierarchy") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func parse(t *testing.T, line string) rules.Rule {
	t.Helper()
	r, err := rules.Parse(line)
	if err != nil {
		t.Fatal(err)
	}
	return r
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
