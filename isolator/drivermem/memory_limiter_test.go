//go:build linux && cgo

package drivermem

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/nvmltest"
	"mesos-gpu/isolator/nvml"
	"mesos-gpu/isolator/preload"
	"mesos-gpu/isolator/share"
)

const uuid = "GPU-22222222-aaaa-bbbb-cccc-000000000000"

// newHost returns a host whose driver can limit cgroups.
func newHost() gpu.Host {
	return gpu.Host{Driver: "615.10", CUDA: "13.4", Devices: []gpu.Device{
		{UUID: uuid, Model: "NVIDIA H100 80GB HBM3", Arch: "9.0", MemMiB: 81559, PCI: "0000:10:00.0"},
	}}
}

func newShares(mib int64, cores int) []gpu.DeviceShare {
	return []gpu.DeviceShare{{UUID: uuid, MemMiB: mib, Cores: cores}}
}

// newTestLimiter returns a limiter on a fake NVML and a cgroup folder with the given
// files, each with one line.
func newTestLimiter(t *testing.T, compute share.Limiter, files map[string]string) (*nvmltest.FakeMachine, *MemoryLimiter) {
	t.Helper()
	m := nvmltest.ReportHost(t, newHost())
	root := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	library := nvmltest.BuildLibrary(t, t.TempDir(), "-DDRIVER_615", "-Wl,-z,nodelete")
	return m, New(MemoryLimiterConfig{Driver: nvml.NewMemoryLimits(nvml.LibraryConfig{Library: library, StartTimeout: time.Minute}), Root: root, Compute: compute})
}

// filesWithoutDmem returns the files of a kernel without the dmem controller.
func filesWithoutDmem() map[string]string {
	return map[string]string{"cgroup.controllers": "cpu memory", "mesos/c1/cgroup.procs": ""}
}

func newLibraryLimiter(t *testing.T) *preload.LibraryLimiter {
	t.Helper()
	library := filepath.Join(t.TempDir(), "libmesosgpu.so")
	if err := os.WriteFile(library, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return preload.New(preload.LibraryLimiterConfig{Dir: t.TempDir(), Library: library})
}

// The driver limits memory in the container's own cgroup, and the library limits compute.
// The driver's counter is the reported use.
func TestDriverLimitsMemoryAndLibraryLimitsCompute(t *testing.T) {
	m, l := newTestLimiter(t, newLibraryLimiter(t), filesWithoutDmem())
	m.SetMeasurements(uuid, map[gpu.SampleField]float64{"cgroup_used_bytes": 777})
	if err := l.CheckDevice(t.Context(), newHost().Devices[0]); err != nil {
		t.Fatal(err)
	}
	setup, err := l.AdmitContainer(t.Context(), "c1", newShares(4096, 30))
	if err != nil {
		t.Fatal(err)
	}
	if len(setup.Mounts) != 4 {
		t.Errorf("got %d mounts, want the library's 4", len(setup.Mounts))
	}
	got, err := l.cfg.Driver.ReadLimit(uuid, filepath.Join(l.cfg.Root, "mesos/c1"))
	if want := (nvml.MemoryLimit{LimitBytes: 4 << 30, UsedBytes: 777}); err != nil || got != want {
		t.Errorf("the driver has %+v, want %+v: %v", got, want, err)
	}
	used, err := l.ReadUsage("c1")
	want := []share.ShareUsage{{UUID: uuid, MemLimitBytes: 4 << 30, Cores: 30, Measured: true, MemUsedBytes: 777}}
	if diff := cmp.Diff(want, used); err != nil || diff != "" {
		t.Errorf("use (-want +got):\n%s%v", diff, err)
	}
	if _, err := l.AdmitContainer(t.Context(), "c1", newShares(1024, 30)); err != nil {
		t.Fatal(err)
	}
	if got, _ := l.cfg.Driver.ReadLimit(uuid, filepath.Join(l.cfg.Root, "mesos/c1")); got.LimitBytes != 1<<30 {
		t.Errorf("changed part: the driver has %d bytes", got.LimitBytes)
	}
	setup, err = l.AdmitContainer(t.Context(), "c2", newShares(1024, 0))
	if err != nil || len(setup.Mounts) != 0 {
		t.Errorf("memory alone: got %d mounts, want none: %v", len(setup.Mounts), err)
	}
	if err := l.ReleaseContainer(t.Context(), "c1"); err != nil {
		t.Fatal(err)
	}
	if used, err := l.ReadUsage("c1"); err != nil || used != nil {
		t.Errorf("released: got %v, %v", used, err)
	}
}

// Without a cgroup, a container has no processes to limit. The next admission after the
// cgroup exists sets the limit. Nested containers have cgroups below it.
func TestLimitIsSetOnceCgroupExists(t *testing.T) {
	_, l := newTestLimiter(t, share.NoLimiter{}, filesWithoutDmem())
	for _, id := range []string{"c2", "c1.inner"} {
		dir := filepath.Join(l.cfg.Root, map[string]string{"c2": "mesos/c2", "c1.inner": "mesos/c1/mesos/inner"}[id])
		if _, err := l.AdmitContainer(t.Context(), id, newShares(512, 0)); err != nil {
			t.Fatal(err)
		}
		if used, err := l.ReadUsage(id); err != nil || len(used) != 1 || used[0].Measured {
			t.Errorf("%s before: got %+v, %v", id, used, err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := l.AdmitContainer(t.Context(), id, newShares(512, 0)); err != nil {
			t.Fatal(err)
		}
		if got, err := l.cfg.Driver.ReadLimit(uuid, dir); err != nil || got.LimitBytes != 512<<20 {
			t.Errorf("%s after: got %+v, %v", id, got, err)
		}
	}
}

// If the kernel has dmem, every ancestor of the container's cgroup enables it.
func TestDmemControllerIsEnabled(t *testing.T) {
	_, l := newTestLimiter(t, share.NoLimiter{}, map[string]string{
		"cgroup.controllers": "cpu dmem", "cgroup.subtree_control": "cpu dmem",
		"mesos/cgroup.controllers": "cpu dmem", "mesos/cgroup.subtree_control": "cpu",
		"mesos/c1/cgroup.controllers": "cpu", "mesos/c1/cgroup.subtree_control": "",
	})
	if _, err := l.AdmitContainer(t.Context(), "c1", newShares(512, 0)); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"cgroup.subtree_control": "cpu dmem\n", "mesos/cgroup.subtree_control": "+dmem", "mesos/c1/cgroup.subtree_control": "\n",
	} {
		if got, err := os.ReadFile(filepath.Join(l.cfg.Root, file)); err != nil || string(got) != want {
			t.Errorf("%s: got %q, want %q: %v", file, got, want, err)
		}
	}
}

// A limit that cannot be enforced is rejected with the missing requirement.
func TestAdmitErrors(t *testing.T) {
	m, l := newTestLimiter(t, share.NoLimiter{}, filesWithoutDmem())
	device := newHost().Devices[0]
	slice := device
	slice.MIG = &gpu.MIG{Parent: uuid}
	noCgroups := New(MemoryLimiterConfig{Driver: l.cfg.Driver, Root: t.TempDir(), Compute: share.NoLimiter{}})
	old := New(MemoryLimiterConfig{Driver: nvml.NewMemoryLimits(nvml.LibraryConfig{Library: nvmltest.BuildLibrary(t, t.TempDir())}), Root: l.cfg.Root, Compute: share.NoLimiter{}})
	noLibrary := New(MemoryLimiterConfig{Driver: l.cfg.Driver, Root: l.cfg.Root, Compute: preload.New(preload.LibraryLimiterConfig{Library: "/nowhere"})})
	for want, err := range map[string]error{
		"the driver limits no MIG device":                                  l.CheckDevice(t.Context(), slice),
		"cgroups of version 2 at " + noCgroups.cfg.Root + ", which is not": noCgroups.CheckDevice(t.Context(), device),
		"driver 615.10 has no memory limits, which come with 615":          old.CheckDevice(t.Context(), device),
		"compute cannot be by preload: no library at /nowhere":             noLibrary.CheckDevice(t.Context(), device),
		"the GPU is simulated":                                             New(MemoryLimiterConfig{Simulated: true}).CheckDevice(t.Context(), device),
		"it asks for 30 % of the cores of " + uuid + ", and the driver":    tryAdmit(t, l, newShares(512, 30)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	m.SetFailures(nvmltest.FunctionFailure{Function: "nvmlDeviceSetMemoryLimits_v1", Index: -1, Return: 4})
	if err := tryAdmit(t, l, newShares(512, 0)); err == nil || !strings.Contains(err.Error(), "(NVML error 4)") {
		t.Errorf("without the right to: got %v", err)
	}
	m.SetFailures()
	m.SetMeasurements(uuid, map[gpu.SampleField]float64{"limit_lost_bytes": 1})
	if err := tryAdmit(t, l, newShares(512, 0)); err == nil || !strings.Contains(err.Error(), "the driver has 536870911 bytes after 536870912 were set") {
		t.Errorf("another limit than was set: got %v", err)
	}
}

func tryAdmit(t *testing.T, l *MemoryLimiter, shares []gpu.DeviceShare) error {
	t.Helper()
	_, err := l.AdmitContainer(t.Context(), "c1", shares)
	return err
}
