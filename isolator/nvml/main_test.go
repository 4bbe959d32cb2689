//go:build linux && cgo

package nvml

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/nvmltest"
	"mesos-gpu/internal/testing/testneeds"
)

// reportArgument starts the test binary as a process that prints what a library reports.
// A process binds NVML's functions at their first call and keeps them, so each other
// library needs its own process.
const reportArgument = "tell-what-library-reports"

// libraryReport is the output of that process.
type libraryReport struct {
	Host    gpu.Host
	Samples map[string]gpu.Sample
	Err     string
}

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == reportArgument {
		json.NewEncoder(os.Stdout).Encode(reportLibrary(LibraryConfig{Library: os.Args[2], SysRoot: os.Args[3]}))
		os.Exit(0)
	}
	dir, err := os.MkdirTemp("", "nvml")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	sharedStandIn.dir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

func reportLibrary(c LibraryConfig) libraryReport {
	l, err := Open(c)
	if err != nil {
		return libraryReport{Err: err.Error()}
	}
	defer l.Close()
	h, err := l.DescribeHost()
	if err != nil {
		return libraryReport{Err: err.Error()}
	}
	out := libraryReport{Host: h, Samples: map[string]gpu.Sample{}}
	for _, d := range h.Devices {
		s, err := l.SampleDevice(d.UUID)
		if err != nil {
			return libraryReport{Err: err.Error()}
		}
		out.Samples[d.UUID] = s
	}
	return out
}

func reportInChild(t *testing.T, library, sysRoot string) libraryReport {
	t.Helper()
	out, err := exec.Command("/proc/self/exe", reportArgument, library, sysRoot).Output()
	var got libraryReport
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return got
}

// sharedStandIn is the fake library of all tests of this process.
var sharedStandIn struct {
	once sync.Once
	dir  string
}

func buildStandIn(t testing.TB) string {
	t.Helper()
	testneeds.RequireProgram(t, "gcc", "gcc") // a test that is skipped within Do would leave no library for the others
	sharedStandIn.once.Do(func() { nvmltest.BuildLibrary(t, sharedStandIn.dir) })
	return filepath.Join(sharedStandIn.dir, "libnvidia-ml.so.1")
}

// openStandIn configures the fake library with the host and opens it.
func openStandIn(t testing.TB, h gpu.Host, c LibraryConfig) (*nvmltest.FakeMachine, *Library) {
	t.Helper()
	c.Library = buildStandIn(t)
	m := nvmltest.ReportHost(t, h)
	c.SysRoot, c.ProcRoot = m.SysRoot, m.ProcRoot
	l, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return m, l
}

// eventually calls f, which pauses itself, until it returns true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if f() {
			return
		}
	}
	t.Fatalf("not within a minute: %s", what)
}

// uuid returns the UUID of a test's i-th device.
func uuid(i int) string { return fmt.Sprintf("GPU-22222222-aaaa-bbbb-cccc-%012d", i) }

// v100s returns a host with n unconnected GPUs.
func v100s(n int) gpu.Host {
	h := gpu.Host{Driver: "535.104.05", CUDA: "12.2"}
	for i := range n {
		h.Devices = append(h.Devices, gpu.Device{
			UUID: uuid(i), Model: "Tesla V100-SXM3-32GB", Arch: "7.0", Brand: "tesla", MemMiB: 32510, Minor: i, PCI: fmt.Sprintf("0000:%02x:00.0", 0x10+i), NUMA: i / 8,
		})
	}
	return h
}

// behindSwitches returns a host with n GPUs, each with 6 links to NVSwitches.
func behindSwitches(n int) gpu.Host {
	h := v100s(n)
	for i := range h.Devices {
		h.Devices[i].NVLinks = map[string]int{}
		for j := range h.Devices {
			if i != j {
				h.Devices[i].NVLinks[uuid(j)] = 6
			}
		}
	}
	return h
}

// hostWithMIG returns a host with one whole GPU, and one GPU with two GPU instances, one
// of which has two compute instances.
func hostWithMIG() gpu.Host {
	const parent = "GPU-33333333-aaaa-bbbb-cccc-000000000000"
	slice := func(n int, profile string, mib int64, gi, ci, giCap, ciCap int) gpu.Device {
		return gpu.Device{
			UUID: fmt.Sprintf("MIG-44444444-aaaa-bbbb-cccc-%012d", n), Model: "NVIDIA A100-SXM4-40GB MIG " + profile, Arch: "8.0", Brand: "nvidia", MemMiB: mib,
			Minor: 3, PCI: "0000:07:00.0", NUMA: 1, Persistence: true,
			MIG: &gpu.MIG{Parent: parent, Profile: profile, GPUInstance: gi, ComputeInstance: ci, GPUInstanceCap: giCap, ComputeInstanceCap: ciCap},
		}
	}
	return gpu.Host{Driver: "535.104.05", CUDA: "12.2", Devices: []gpu.Device{
		slice(1, "1g.5gb", 4864, 7, 0, 66, 67),
		slice(2, "1c.3g.20gb", 19968, 2, 0, 21, 22),
		slice(3, "1c.3g.20gb", 19968, 3, 0, 31, 32),
		{UUID: uuid(9), Model: "NVIDIA A100-SXM4-40GB", Arch: "8.0", Brand: "nvidia", MemMiB: 40960, Minor: 0, PCI: "0000:0f:00.0", NUMA: 0},
	}}
}

// A missing function must not end the process, as a lazy binding by the loader would.
func TestTooOldLibrary(t *testing.T) {
	library := nvmltest.BuildLibrary(t, t.TempDir(), "-DWITHOUT_CUDA")
	m := nvmltest.ReportHost(t, fourGPUHost())
	want := "load " + library + ": it lacks nvmlSystemGetCudaDriverVersion; update the NVIDIA driver to 390 or later"
	if got := reportInChild(t, library, m.SysRoot).Err; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// A truncated library, as after an update on a full disk, is an error: to load it would end the process with SIGBUS.
func TestTruncatedLibrary(t *testing.T) {
	whole, err := os.ReadFile(buildStandIn(t))
	if err != nil {
		t.Fatal(err)
	}
	m := nvmltest.ReportHost(t, fourGPUHost())
	dir := t.TempDir()
	for _, name := range []string{filepath.Join(dir, "libnvidia-ml.so.1"), "libnvidia-ml.so.1"} {
		if err := os.WriteFile(filepath.Join(dir, "libnvidia-ml.so.1"), whole[:len(whole)/2], 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("LD_LIBRARY_PATH", dir)
		got := reportInChild(t, name, m.SysRoot).Err
		if !strings.Contains(got, "load "+name+": no NVIDIA driver: "+filepath.Join(dir, "libnvidia-ml.so.1")+": it is truncated") {
			t.Errorf("got %s", got)
		}
	}
}

// An old driver lacks functions: their values stay unset, and NVSwitches are identified
// by their PCI class.
func TestOldLibrary(t *testing.T) {
	library := nvmltest.BuildLibrary(t, t.TempDir(), "-DDRIVER_390")
	want := behindSwitches(16)
	m := nvmltest.ReportHost(t, want)
	m.SetMeasurements(uuid(3), map[gpu.SampleField]float64{gpu.Celsius: 41, gpu.ThrottleReasons: 4, gpu.RowsPending: 1})
	m.AddComputeProcess(uuid(3), gpu.DeviceProcess{PID: 77, MemBytes: 5 << 30})

	got := reportInChild(t, library, m.SysRoot)
	if got.Err != "" {
		t.Fatal(got.Err)
	}
	for i := range want.Devices {
		want.Devices[i].Arch = ""
	}
	if diff := cmp.Diff(want, got.Host); diff != "" {
		t.Errorf("host (-want +got):\n%s", diff)
	}
	sample := got.Samples[uuid(3)]
	values := map[gpu.SampleField]float64{gpu.MemUsedBytes: 0, gpu.MemTotalBytes: 32510 << 20, gpu.Celsius: 41, gpu.ThrottleReasons: 4}
	if diff := cmp.Diff(values, sample.Values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]gpu.DeviceProcess{{PID: 77, MemBytes: 5 << 30}}, sample.Processes); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
}
