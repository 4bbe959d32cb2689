//go:build linux && cgo

package nvml

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/nvmltest"
)

// openMemoryLimits opens the limits of a driver that supports them.
func openMemoryLimits(t *testing.T, h gpu.Host) (*nvmltest.FakeMachine, *MemoryLimits) {
	t.Helper()
	m := nvmltest.ReportHost(t, h)
	return m, NewMemoryLimits(LibraryConfig{Library: nvmltest.BuildLibrary(t, t.TempDir(), "-DDRIVER_615", "-Wl,-z,nodelete"), StartTimeout: time.Minute})
}

// A limit reads back as it was set, separately for each cgroup and GPU, together with the
// driver's usage counter.
func TestMemoryLimit(t *testing.T) {
	m, l := openMemoryLimits(t, v100s(2))
	m.SetMeasurements(uuid(1), map[gpu.SampleField]float64{"cgroup_used_bytes": 123})
	a, b := t.TempDir(), t.TempDir()
	type at struct{ uuid, cgroup string }
	want := map[at]MemoryLimit{{uuid(0), a}: {1 << 30, 0}, {uuid(1), a}: {2 << 30, 123}, {uuid(0), b}: {3 << 30, 0}}
	for at, w := range want {
		if err := l.SetLimit(at.uuid, at.cgroup, w.LimitBytes); err != nil {
			t.Fatal(err)
		}
	}
	for at, w := range want {
		if got, err := l.ReadLimit(at.uuid, at.cgroup); err != nil || got != w {
			t.Errorf("%v: got %v, %v, want %v", at, got, err, w)
		}
	}
	if got, err := l.ReadLimit(uuid(1), b); err == nil {
		t.Errorf("cgroup without a limit: got %v", got)
	}
	if err := l.SetLimit(uuid(0), filepath.Join(a, "gone"), 1); err == nil || !strings.Contains(err.Error(), "limit cgroup "+a+"/gone to 1 bytes of GPU") {
		t.Errorf("cgroup that is not there: got %v", err)
	}
}

// An error names the missing requirement, and a hanging driver delays only its own GPU.
func TestMemoryLimitErrors(t *testing.T) {
	m, l := openMemoryLimits(t, hostWithMIG())
	slice, whole := hostWithMIG().Devices[0].UUID, hostWithMIG().Devices[3].UUID
	if err := l.CheckSupport(whole); err != nil {
		t.Errorf("whole GPU: got %v", err)
	}
	if err := l.SetLimit(slice, t.TempDir(), 1); err == nil || !strings.Contains(err.Error(), "(NVML error 3)") {
		t.Errorf("slice: got %v", err)
	}
	old := NewMemoryLimits(LibraryConfig{Library: buildStandIn(t)})
	if err := old.CheckSupport(whole); err == nil || !strings.Contains(err.Error(), "driver 535.104.05 has no memory limits, which come with 615") {
		t.Errorf("older driver: got %v", err)
	}
	none := NewMemoryLimits(LibraryConfig{Library: filepath.Join(t.TempDir(), "none.so")})
	if err := none.CheckSupport(whole); err == nil || !strings.Contains(err.Error(), ErrNoDriver.Error()) {
		t.Errorf("no driver: got %v", err)
	}
	l.c.StartTimeout = 50 * time.Millisecond
	m.HangFunction(whole, "nvmlDeviceSetMemoryLimits_v1")
	if err := l.SetLimit(whole, t.TempDir(), 1); err == nil || !strings.Contains(err.Error(), ErrNoAnswer.Error()) {
		t.Errorf("GPU that hangs: got %v", err)
	}
	l.c.StartTimeout = time.Minute
	if err := l.CheckSupport(slice); err != nil {
		t.Errorf("with another: got %v", err)
	}
	m.ResumeCalls()
	if err := l.CheckSupport(whole); err != nil { // once the hanging call is over
		t.Errorf("once it goes on: got %v", err)
	}
}
