//go:build linux && cgo

package nvml

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/nvmltest"
)

func fourGPUHost() gpu.Host {
	return gpu.Host{Driver: "535.104.05", CUDA: "12.2", Devices: []gpu.Device{
		{UUID: "GPU-11111111-aaaa-bbbb-cccc-000000000001", Model: "Tesla V100-SXM2-16GB", Arch: "7.0", Brand: "tesla",
			MemMiB: 16160, Minor: 1, PCI: "0000:3b:00.0", NUMA: 1},
		{UUID: "GPU-11111111-aaaa-bbbb-cccc-000000000002", Model: "Tesla K80", Arch: "3.7", Brand: "tesla", MemMiB: 11441, Minor: 0, PCI: "0001:d8:1f.0", NUMA: -1},
		{UUID: "GPU-11111111-aaaa-bbbb-cccc-000000000003", Model: "NVIDIA A100 80GB PCIe", Arch: "8.0", Brand: "nvidia",
			MemMiB: 81920, Minor: 2, PCI: "0000:5e:00.0", NUMA: -1},
	}}
}

// makeSysRoot creates a sysfs with one device's NUMA node, one unknown node, and one
// missing device.
func makeSysRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for address, node := range map[string]string{"0000:3b:00.0": "1\n", "0001:d8:1f.0": "-1\n"} {
		dir := filepath.Join(root, "bus/pci/devices", address)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "numa_node"), []byte(node), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestDiscoverHost(t *testing.T) {
	library := buildStandIn(t)
	sys := makeSysRoot(t)
	const lost = 15
	cases := []struct {
		name    string
		fails   []nvmltest.FunctionFailure
		without int // index of the device that is not discovered, -1 for none
		logged  string
		err     string
		none    bool // the error is ErrNoDriver
	}{
		{name: "all well", without: -1},
		{name: "lost GPU", fails: []nvmltest.FunctionFailure{{Function: "nvmlDeviceGetHandleByIndex_v2", Index: 1, Return: lost}},
			without: 1, logged: "open GPU 1: GPU is lost (NVML error 15)"},
		{name: "lost while asked", fails: []nvmltest.FunctionFailure{{Function: "nvmlDeviceGetName", Index: 0, Return: lost}},
			without: 0, logged: "read the name of GPU GPU-11111111-aaaa-bbbb-cccc-000000000001: GPU is lost (NVML error 15)"},
		{name: "no UUID", fails: []nvmltest.FunctionFailure{{Function: "nvmlDeviceGetUUID", Index: 2, Return: 999}},
			without: 2, logged: "read the UUID of GPU 2: Stand-in error (NVML error 999)"},
		{name: "no minor number", fails: []nvmltest.FunctionFailure{{Function: "nvmlDeviceGetMinorNumber", Index: 2, Return: 3}},
			without: 2, logged: "read the minor number of GPU"},
		{name: "no memory", fails: []nvmltest.FunctionFailure{{Function: "nvmlDeviceGetMemoryInfo", Index: 2, Return: 999}},
			without: 2, logged: "read the memory of GPU"},
		{name: "no PCI address", fails: []nvmltest.FunctionFailure{{Function: "nvmlDeviceGetPciInfo_v3", Index: 2, Return: 999}},
			without: 2, logged: "read the PCI address of GPU"},
		{name: "driver not loaded", fails: []nvmltest.FunctionFailure{{Function: "nvmlInit_v2", Index: -1, Return: 9}},
			err: "start LIBRARY: no NVIDIA driver: Driver Not Loaded (NVML error 9): the driver's libraries are installed, its kernel module is not loaded: " +
				"load it (modprobe nvidia)", none: true},
		{name: "version mismatch", fails: []nvmltest.FunctionFailure{{Function: "nvmlInit_v2", Index: -1, Return: 18}},
			err: "start LIBRARY: Stand-in error (NVML error 18): the driver's libraries are of another version than the kernel module that is loaded, " +
				"as after an upgrade: restart the machine, or unload and load the module"},
		{name: "no driver version", fails: []nvmltest.FunctionFailure{{Function: "nvmlSystemGetDriverVersion", Index: -1, Return: 999}},
			err: "read the driver's version from NVML: Stand-in error (NVML error 999)"},
		{name: "no CUDA version", fails: []nvmltest.FunctionFailure{{Function: "nvmlSystemGetCudaDriverVersion", Index: -1, Return: 999}},
			err: "read the CUDA version from NVML: Stand-in error (NVML error 999)"},
		{name: "no count", fails: []nvmltest.FunctionFailure{{Function: "nvmlDeviceGetCount_v2", Index: -1, Return: 999}},
			err: "read the number of GPUs from NVML: Stand-in error (NVML error 999)"},
		{name: "shutdown fails", fails: []nvmltest.FunctionFailure{{Function: "nvmlShutdown", Index: -1, Return: 999}},
			err: "shut down NVML: Stand-in error (NVML error 999)"},
		{name: "well again", without: -1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			nvmltest.ReportHost(t, fourGPUHost(), c.fails...)
			log, hook := logtest.NewNullLogger()
			got, err := DiscoverHost(LibraryConfig{Library: library, SysRoot: sys, Log: log})
			if c.err != "" {
				want := strings.ReplaceAll(c.err, "LIBRARY", library)
				if err == nil || err.Error() != want || errors.Is(err, ErrNoDriver) != c.none {
					t.Errorf("got error %v\nwant %s (no driver: %v)", err, want, c.none)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := fourGPUHost()
			if c.without >= 0 {
				want.Devices = append(want.Devices[:c.without:c.without], want.Devices[c.without+1:]...)
				if len(got.Lost) != 1 || got.Lost[0].IsKnown() || !strings.Contains(got.Lost[0].Reason, c.logged) {
					t.Errorf("lost %v, want one GPU: %s", got.Lost, c.logged)
				}
				got.Lost = nil
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			wantLogged(t, hook, c.logged)
		})
	}
	t.Run("memory not supported", func(t *testing.T) {
		nvmltest.ReportHost(t, fourGPUHost(), nvmltest.FunctionFailure{Function: "nvmlDeviceGetMemoryInfo", Index: 0, Return: 3})
		got, err := DiscoverHost(LibraryConfig{Library: library, SysRoot: sys})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Devices) != 3 || got.Devices[0].MemMiB != 0 {
			t.Errorf("got %v, want the device with 0 MiB", got.Devices)
		}
	})
}

// Maps NVML's brands to the names that NVIDIA's images use, and formats compute
// capabilities with one and two digits. Unreported values are empty, and the device is
// still usable.
func TestArchAndBrand(t *testing.T) {
	facts := func(arch, brand string) gpu.Host {
		return gpu.Host{Driver: "535.104.05", CUDA: "12.2", Devices: []gpu.Device{
			{UUID: uuid(0), Model: "NVIDIA X", Arch: arch, Brand: brand, MemMiB: 1024, PCI: "0000:10:00.0"},
		}}
	}
	var hosts []gpu.Host
	for _, brand := range brandNames {
		hosts = append(hosts, facts("9.0", brand))
	}
	if len(hosts) != 17 {
		t.Errorf("%d brands, NVML has 17", len(hosts))
	}
	hosts = append(hosts, facts("12.1", "nvidia"), facts("10.3", ""), facts("", "tesla"), facts("", ""))
	for _, want := range hosts {
		m := nvmltest.ReportHost(t, want)
		c := LibraryConfig{Library: buildStandIn(t), SysRoot: m.SysRoot}
		got, err := DiscoverHost(c)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	m := nvmltest.ReportHost(t, facts("9.0", "of tomorrow"))
	got, err := DiscoverHost(LibraryConfig{Library: buildStandIn(t), SysRoot: m.SysRoot})
	if diff := cmp.Diff(facts("9.0", ""), got); err != nil || diff != "" {
		t.Errorf("a brand that is newer than this: %v (-want +got):\n%s", err, diff)
	}
}

func loggedWarnings(hook *logtest.Hook) []string {
	var texts []string
	for _, e := range hook.AllEntries() {
		if e.Level == logrus.WarnLevel {
			err, _ := e.Data["error"].(error)
			texts = append(texts, err.Error())
		}
	}
	return texts
}

func wantLogged(t *testing.T, hook *logtest.Hook, want string) {
	t.Helper()
	switch got := loggedWarnings(hook); {
	case want == "" && len(got) > 0:
		t.Errorf("warned of %v", got)
	case want != "" && (len(got) != 1 || !strings.Contains(got[0], want)):
		t.Errorf("warned of %v, want one with %q", got, want)
	}
}

func TestMissingLibrary(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.so")
	if err := os.WriteFile(text, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, library := range []string{filepath.Join(dir, "none.so.1"), text} {
		_, err := DiscoverHost(LibraryConfig{Library: library})
		if !errors.Is(err, ErrNoDriver) {
			t.Fatalf("%s: got %v, want ErrNoDriver", library, err)
		}
		if strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "load "+library+": no NVIDIA driver: "+library+": ") {
			t.Errorf("got %q, want the loader's reason on one line", err)
		}
	}
}
