package containers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/kerneltest"
	"mesos-gpu/isolator/allocation"
	"mesos-gpu/isolator/containers"
)

// managerFixture is a host with two named devices and three stock devices.
type managerFixture struct {
	*containers.Manager
	kernel *kerneltest.FakeKernel
	cfg    containers.ManagerConfig
	log    *logtest.Hook
}

func newManagerFixture(t *testing.T) *managerFixture {
	t.Helper()
	m := &managerFixture{kernel: kerneltest.New("GPU-0", "GPU-1", "GPU-2", "GPU-3", "GPU-4")}
	log, hook := logtest.NewNullLogger()
	m.log = hook
	m.cfg = containers.ManagerConfig{
		Kernel: m.kernel, Dir: filepath.Join(t.TempDir(), "run", "containers"), Stock: []string{"GPU-2", "GPU-3", "GPU-4"},
		DriverVolume: func(context.Context) (string, error) { return "/volumes/535", nil },
		NeedsDriver: func(labels, _ map[string]string) (bool, error) {
			return labels["driver"] == "yes", nil
		},
		Log: log,
	}
	m.restart(t)
	return m
}

// restart kills the daemon and starts it again.
func (m *managerFixture) restart(t *testing.T) {
	t.Helper()
	c, err := containers.Open(m.cfg)
	if err != nil {
		t.Fatal(err)
	}
	m.Manager = c
}

func resources(gpus float64, ids ...string) []allocation.MesosResource {
	return []allocation.MesosResource{{Name: "gpus", Scalar: gpus}, {Name: "gpu_ids", Set: ids}}
}

func (m *managerFixture) launch(t *testing.T, id string, r []allocation.MesosResource) {
	t.Helper()
	if _, err := m.Prepare(t.Context(), containers.LaunchRequest{Container: id, Resources: r, Task: "task of " + id, Rootfs: true}); err != nil {
		t.Fatal(err)
	}
	if err := m.Isolate(id, 1000+len(id)); err != nil {
		t.Fatal(err)
	}
}

// wantDevices checks a container's devices in the records and in the kernel.
func (m *managerFixture) wantDevices(t *testing.T, id, want string) {
	t.Helper()
	got, err := m.Devices(id)
	if err != nil || strings.Join(got, " ") != want {
		t.Errorf("container %s: got %v, %v; want %s", id, got, err, want)
	}
	if kernel, ok := m.kernel.ConfinedDevices()[cgroupOf(id)]; ok && strings.Join(kernel, " ") != want {
		t.Errorf("container %s: the kernel allows %v, want %s", id, kernel, want)
	}
}

func cgroupOf(id string) string { return "mesos/" + strings.ReplaceAll(id, ".", "/mesos/") }

func (m *managerFixture) wantLogged(t *testing.T, want string) {
	t.Helper()
	for _, e := range m.log.AllEntries() {
		if strings.Contains(e.Message, want) {
			return
		}
	}
	t.Errorf("no log line %q", want)
}

func TestPrepareReturnsLaunchSetup(t *testing.T) {
	m := newManagerFixture(t)
	l := containers.LaunchRequest{
		Container: "c", Rootfs: true, Framework: "f", Executor: "e", Task: "t", Job: "j",
		Resources: resources(2, "GPU-1"),
		Image:     containers.ImageSettings{Labels: map[string]string{"driver": "yes"}, Environment: map[string]string{"PATH": "/a:/b"}},
	}
	want := containers.LaunchSetup{
		Devices: []string{"GPU-1", "GPU-2"},
		Nodes:   []containers.DeviceNode{{Path: "/dev/nvidia1", Major: 195, Minor: 1}, {Path: "/dev/nvidia2", Major: 195, Minor: 2}},
		Mounts:  []containers.BindMount{{Source: "/volumes/535", Target: "/usr/local/nvidia", ReadOnly: true}},
		Environment: map[string]string{
			"NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-2", "MESOS_GPU_DEVICES": "GPU-1,GPU-2", "PATH": "/a:/b:/usr/local/nvidia/bin",
			"LD_LIBRARY_PATH": "/usr/local/cuda/compat:/usr/local/nvidia/lib:/usr/local/nvidia/lib64",
		},
	}
	for range 2 { // the second call returns the same
		got, err := m.Prepare(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	holder := gpu.ContainerDevices{Container: "c", Framework: "f", Executor: "e", Task: "t", Job: "j", Devices: want.Devices}
	if diff := cmp.Diff([]gpu.ContainerDevices{holder}, m.Holders()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	m.restart(t)
	if diff := cmp.Diff([]gpu.ContainerDevices{holder}, m.Holders()); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
}

func TestPrepareWithoutGPUs(t *testing.T) {
	m := newManagerFixture(t)
	got, err := m.Prepare(t.Context(), containers.LaunchRequest{Container: "c"})
	if err != nil {
		t.Fatal(err)
	}
	want := containers.LaunchSetup{Devices: []string{}, Nodes: []containers.DeviceNode{}, Mounts: []containers.BindMount{}, Environment: map[string]string{}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if h := m.Holders(); len(h) != 0 {
		t.Errorf("it holds nothing, but is listed: %v", h)
	}
}

func TestDriverVolume(t *testing.T) {
	m := newManagerFixture(t)
	m.cfg.DriverVolume = func(context.Context) (string, error) { return "", errors.New("no driver here") }
	m.restart(t)
	l := containers.LaunchRequest{Container: "c", Rootfs: true, Image: containers.ImageSettings{Labels: map[string]string{"driver": "yes"}}}
	got, err := m.Prepare(t.Context(), l)
	if err != nil || len(got.Mounts) != 0 || len(got.Environment) != 0 {
		t.Errorf("without GPUs: got %+v, %v", got, err)
	}
	l.Container, l.Resources = "d", resources(1)
	if _, err := m.Prepare(t.Context(), l); err == nil ||
		!strings.Contains(err.Error(), "prepare container d: its image requests the GPU driver: no driver here [mesos-gpu.machine_fault=no_driver]") {
		t.Errorf("with a GPU: got %v", err)
	}
	if h := m.Holders(); len(h) != 0 {
		t.Errorf("what failed holds devices: %v", h)
	}
	l.Rootfs = false
	if got, err := m.Prepare(t.Context(), l); err != nil || len(got.Mounts) != 0 {
		t.Errorf("without a file system of its own: got %+v, %v", got, err)
	}
}

func TestPrepareRejectsUnsupportedImage(t *testing.T) {
	m := newManagerFixture(t)
	m.cfg.NeedsDriver = func(map[string]string, map[string]string) (bool, error) {
		return true, errors.New("it wants cuda>=12.4, the agent has CUDA 12.2")
	}
	m.restart(t)
	l := containers.LaunchRequest{Container: "c", Rootfs: true}
	if got, err := m.Prepare(t.Context(), l); err != nil || len(got.Mounts) != 0 {
		t.Errorf("without GPUs: got %+v, %v", got, err)
	}
	m.wantLogged(t, "no driver volume; the container holds no GPU")
	l.Container, l.Resources = "d", resources(1)
	if _, err := m.Prepare(t.Context(), l); err == nil || !strings.Contains(err.Error(), "prepare container d: its image cannot run here: it wants cuda>=12.4") {
		t.Errorf("with a GPU: got %v", err)
	}
	if h := m.Holders(); len(h) != 0 {
		t.Errorf("what failed holds devices: %v", h)
	}
}

// The assigned GPUs are known only after they are claimed. If the image does not support
// one of them, they are released.
func TestPrepareRejectsImageUnsupportedByDevices(t *testing.T) {
	m := newManagerFixture(t)
	var asked [][]string
	m.cfg.CheckImage = func(labels, env map[string]string, devices []string) error {
		asked = append(asked, devices)
		if slices.Contains(devices, "GPU-0") && env["ARCH"] == "9.0" {
			return errors.New("it wants arch>=9.0, GPU-0 of arch 7.0")
		}
		return nil
	}
	m.restart(t)
	l := containers.LaunchRequest{Container: "c", Rootfs: true, Image: containers.ImageSettings{Environment: map[string]string{"ARCH": "9.0"}}}
	if _, err := m.Prepare(t.Context(), l); err != nil || len(asked) != 0 {
		t.Errorf("without GPUs: got %v, checked %v", err, asked)
	}
	l.Container, l.Resources = "d", resources(2, "GPU-0")
	if _, err := m.Prepare(t.Context(), l); err == nil || err.Error() != "prepare container d: its image cannot run here: it wants arch>=9.0, GPU-0 of arch 7.0" {
		t.Errorf("got %v", err)
	}
	if h := m.Holders(); len(h) != 0 {
		t.Errorf("what failed holds devices: %v", h)
	}
	m.restart(t)
	if h := m.Holders(); len(h) != 0 {
		t.Errorf("and after a restart: %v", h)
	}
	l.Resources = resources(2, "GPU-1")
	if got, err := m.Prepare(t.Context(), l); err != nil || len(got.Devices) != 2 {
		t.Errorf("on others: got %+v, %v", got, err)
	}
	nested := containers.LaunchRequest{Container: "d.n", Rootfs: true}
	if _, err := m.Prepare(t.Context(), nested); err != nil {
		t.Error(err)
	}
	want := [][]string{{"GPU-0", "GPU-2"}, {"GPU-1", "GPU-2"}, {"GPU-1", "GPU-2"}}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("checked devices (-want +got):\n%s", diff)
	}
	bare := containers.LaunchRequest{Container: "e", Resources: resources(1, "GPU-0"), Image: l.Image}
	if _, err := m.Prepare(t.Context(), bare); err != nil || len(asked) != 3 {
		t.Errorf("without an image: got %v, checked %v", err, asked)
	}
}

func TestPrepareRejects(t *testing.T) {
	m := newManagerFixture(t)
	m.launch(t, "a", resources(3, "GPU-0"))
	cases := []struct {
		name, id string
		r        []allocation.MesosResource
		want     string
	}{
		{"too many", "b", resources(2), "prepare container b: container b requests 2 more GPUs by number, and of the 3 reserved for that 1 are free"},
		{"held", "b", resources(1, "GPU-0"),
			"GPU GPU-0 is held by container a (task task of a): end the holder or wait for its end; " +
				"mesos-gpu agent devices on this machine shows it [mesos-gpu.machine_fault=device_held]"},
		{"set aside", "b", resources(1, "GPU-4"), "one of the 3 reserved"},
		{"not there", "b", resources(1, "GPU-9"), "device GPU-9 is not among this host's 5 GPUs"},
		{"a fraction", "b", resources(0.5), "gpus:0.5 is not a whole number"},
		{"runs with others", "a", resources(1), "it runs already, with 3 GPUs and not the 1 requested"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before := m.Holders()
			_, err := m.Prepare(t.Context(), containers.LaunchRequest{Container: c.id, Resources: c.r})
			if refusal := (*allocation.RejectedError)(nil); !errors.As(err, &refusal) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want a refusal with %q", err, c.want)
			}
			if diff := cmp.Diff(before, m.Holders()); diff != "" {
				t.Errorf("a rejected request changed the allocations:\n%s", diff)
			}
		})
	}
}

func TestContainerIDs(t *testing.T) {
	m := newManagerFixture(t)
	for _, id := range []string{"", "..", "a..b", ".a", "a.", "a/b", "a b", "a\x00", "é", strings.Repeat("x", 513)} {
		_, prepared := m.Prepare(t.Context(), containers.LaunchRequest{Container: id})
		_, updated := m.Update(id, nil)
		_, status := m.Status(id)
		_, devices := m.Devices(id)
		for call, err := range map[string]error{
			"prepare": prepared, "isolate": m.Isolate(id, 1), "update": updated, "status": status, "devices": devices,
			"cleanup": m.Cleanup(id), "recover": m.Recover([]string{"ok", id}),
		} {
			if invalid := (*containers.InvalidContainerError)(nil); !errors.As(err, &invalid) {
				t.Errorf("%s of %q: got %v, want it invalid", call, id, err)
			}
		}
	}
	long := strings.Repeat("x", 150) + "." + strings.Repeat("y", 150)
	m.launch(t, strings.Repeat("x", 150), resources(1))
	if _, err := m.Prepare(t.Context(), containers.LaunchRequest{Container: long}); err != nil {
		t.Fatal(err)
	}
	m.restart(t)
	m.wantDevices(t, long, "GPU-2")
}

func TestIsolateAndUpdate(t *testing.T) {
	m := newManagerFixture(t)
	m.kernel.MakeConfined("mesos/c")
	m.launch(t, "c", resources(2, "GPU-0"))
	m.wantDevices(t, "c", "GPU-0 GPU-2")
	if got := m.kernel.ProcessesIn("mesos/c"); len(got) != 1 {
		t.Errorf("processes in the cgroup: %v, want one", got)
	}
	for _, step := range []struct {
		r    []allocation.MesosResource
		want string
	}{
		{resources(4, "GPU-0", "GPU-1"), "GPU-0 GPU-1 GPU-2 GPU-3"},
		{resources(4, "GPU-0", "GPU-1"), "GPU-0 GPU-1 GPU-2 GPU-3"},
		{resources(2, "GPU-1"), "GPU-1 GPU-2"},
		{nil, ""},
		{resources(1), "GPU-2"},
	} {
		got, err := m.Update("c", step.r)
		if err != nil || strings.Join(got, " ") != step.want {
			t.Errorf("got %v, %v; want %s", got, err, step.want)
		}
		m.wantDevices(t, "c", step.want)
		m.restart(t)
		m.wantDevices(t, "c", step.want)
	}
	s, err := m.Status("c")
	if diff := cmp.Diff([]string{"c 195:2 rw"}, s.Rules); err != nil || diff != "" {
		t.Errorf("%v; rules (-want +got):\n%s", err, diff)
	}
}

func TestUnknownContainers(t *testing.T) {
	m := newManagerFixture(t)
	_, updated := m.Update("c", resources(1))
	_, status := m.Status("c")
	_, devices := m.Devices("c")
	for call, err := range map[string]error{"isolate": m.Isolate("c", 1), "update": updated, "status": status, "devices": devices} {
		if unknown := (*containers.UnknownContainerError)(nil); !errors.As(err, &unknown) {
			t.Errorf("%s: got %v, want it unknown", call, err)
		}
	}
	if got, err := m.Update("c", nil); err != nil || got == nil || len(got) != 0 {
		t.Errorf("update of one that never had GPUs: got %v, %v", got, err)
	}
	if err := m.Cleanup("c"); err != nil {
		t.Errorf("cleanup: %v", err)
	}
	var invalid *containers.InvalidContainerError
	if err := m.Isolate("c", 0); !errors.As(err, &invalid) {
		t.Errorf("isolate of process 0: got %v", err)
	}
}

func TestNestedContainers(t *testing.T) {
	m := newManagerFixture(t)
	m.launch(t, "p", resources(3, "GPU-0"))
	setup, err := m.Prepare(t.Context(), containers.LaunchRequest{Container: "p.debug"})
	if err != nil || strings.Join(setup.Devices, " ") != "GPU-0 GPU-2 GPU-3" || len(setup.Nodes) != 3 {
		t.Errorf("got %+v, %v", setup, err)
	}
	if err := m.Isolate("p.debug", 7); err != nil {
		t.Fatal(err)
	}
	if _, made := m.kernel.ConfinedDevices()["mesos/p/mesos/debug"]; made {
		t.Error("a container that shares its parent's cgroup was given one")
	}
	m.kernel.MakeConfined("mesos/p/mesos/own") // inherits, in a cgroup of its own
	m.launch(t, "p.own", nil)
	m.launch(t, "p.part", resources(1)) // has some of its parent's devices
	m.wantDevices(t, "p.own", "GPU-0 GPU-2 GPU-3")
	m.wantDevices(t, "p.part", "GPU-2")
	if _, err := m.Update("p", resources(4, "GPU-0", "GPU-1")); err != nil {
		t.Fatal(err)
	}
	m.wantDevices(t, "p.own", "GPU-0 GPU-1 GPU-2 GPU-3")
	if _, err := m.Update("p", resources(1, "GPU-1")); err != nil {
		t.Fatal(err)
	}
	m.wantDevices(t, "p.own", "GPU-1")
	m.wantDevices(t, "p.part", "")
	m.restart(t)
	m.wantDevices(t, "p.part", "")
	m.wantDevices(t, "p.debug", "GPU-1")
	if err := m.Cleanup("p"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"p", "p.own", "p.part", "p.debug"} {
		if _, err := m.Devices(id); err == nil {
			t.Errorf("%s is still known", id)
		}
	}
	files, err := filepath.Glob(filepath.Join(m.cfg.Dir, "*.json"))
	if err != nil || len(files) != 0 {
		t.Errorf("files left: %v, %v", files, err)
	}
}

// After a kernel error the records and the kernel are unchanged.
func TestKernelErrors(t *testing.T) {
	m := newManagerFixture(t)
	m.launch(t, "c", resources(2, "GPU-0"))
	refusal := errors.New("no space for rules")
	broken := true
	m.kernel.FailCall = func(call, _ string) error {
		if call == "confine" && broken {
			broken = false // rolling back succeeds
			return refusal
		}
		return nil
	}
	if _, err := m.Update("c", resources(3, "GPU-1")); !errors.Is(err, refusal) {
		t.Errorf("got %v", err)
	}
	m.wantDevices(t, "c", "GPU-0 GPU-2")
	m.restart(t)
	m.wantDevices(t, "c", "GPU-0 GPU-2")

	m.kernel.FailCall = func(call, _ string) error {
		if call == "confine" || call == "remove" {
			return refusal
		}
		return nil
	}
	if _, err := m.Update("c", resources(3, "GPU-1")); !errors.Is(err, refusal) {
		t.Errorf("got %v", err)
	}
	// The kernel's state is not known, so old and new devices stay claimed.
	if got, err := m.Devices("c"); err != nil || len(got) != 4 {
		t.Errorf("got %v, %v; want the old and the new", got, err)
	}
	if err := m.Cleanup("c"); !errors.Is(err, refusal) {
		t.Errorf("cleanup: got %v", err)
	}
	m.kernel.FailCall = nil
	if _, err := m.Update("c", resources(1, "GPU-1")); err != nil {
		t.Fatal(err)
	}
	m.wantDevices(t, "c", "GPU-1")
}

func TestDiskErrors(t *testing.T) {
	m := newManagerFixture(t)
	m.launch(t, "c", resources(1))
	if err := os.RemoveAll(m.cfg.Dir); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Update("c", resources(2)); err == nil || !strings.Contains(err.Error(), "write container's file") {
		t.Errorf("update: got %v", err)
	}
	m.wantDevices(t, "c", "GPU-2")
	if _, err := m.Prepare(t.Context(), containers.LaunchRequest{Container: "d", Resources: resources(1)}); err == nil {
		t.Error("prepare wrote no file and says nothing")
	}
	if h := m.Holders(); len(h) != 1 {
		t.Errorf("holders: %v, want c alone", h)
	}
}

func TestOpenRejectsIncompleteConfig(t *testing.T) {
	m := newManagerFixture(t)
	for name, spoil := range map[string]func(*containers.ManagerConfig){
		"kernel": func(c *containers.ManagerConfig) { c.Kernel = nil },
		"log":    func(c *containers.ManagerConfig) { c.Log = nil },
		"volume": func(c *containers.ManagerConfig) { c.DriverVolume = nil },
		"image":  func(c *containers.ManagerConfig) { c.NeedsDriver = nil },
		"folder": func(c *containers.ManagerConfig) { c.Dir = "/dev/null/x" },
		"below": func(c *containers.ManagerConfig) {
			k := kerneltest.New()
			k.FailCall = func(call, _ string) error { return fmt.Errorf("%s fails", call) }
			c.Kernel = k
		},
	} {
		cfg := m.cfg
		spoil(&cfg)
		if _, err := containers.Open(cfg); err == nil {
			t.Errorf("opened without a %s", name)
		}
	}
}

func silentLog() logrus.FieldLogger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

var _ containers.Kernel = (*kerneltest.FakeKernel)(nil)

func noVolume(context.Context) (string, error) { return "", errors.New("no volume") }

func noDriver(_, _ map[string]string) (bool, error) { return false, nil }
