//go:build linux && cgo

package nvml

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/nvmltest"
)

func TestDiscoverMIG(t *testing.T) {
	m := nvmltest.ReportHost(t, hostWithMIG())
	got, err := DiscoverHost(LibraryConfig{Library: buildStandIn(t), SysRoot: m.SysRoot, ProcRoot: m.ProcRoot})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(hostWithMIG(), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Compute instances of one GPU instance share its memory: the one with the most compute is the only device of them.
func TestComputeInstancesThatShareMemoryAreOneDevice(t *testing.T) {
	host := hostWithMIG()
	large, small := &host.Devices[2], host.Devices[1]
	large.Model, large.MIG = "NVIDIA A100-SXM4-40GB MIG 2c.3g.20gb", &gpu.MIG{
		Parent: small.MIG.Parent, Profile: "2c.3g.20gb", GPUInstance: small.MIG.GPUInstance, ComputeInstance: 1, GPUInstanceCap: small.MIG.GPUInstanceCap, ComputeInstanceCap: 23,
	}
	m := nvmltest.ReportHost(t, host)
	log, hook := logtest.NewNullLogger()
	got, err := DiscoverHost(LibraryConfig{Library: buildStandIn(t), SysRoot: m.SysRoot, ProcRoot: m.ProcRoot, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	want := []gpu.Device{host.Devices[0], *large, host.Devices[3]}
	if diff := cmp.Diff(want, got.Devices); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if e := hook.LastEntry(); e == nil || !strings.Contains(e.Message, "shares the memory of its GPU instance") || e.Data["device"] != small.UUID {
		t.Errorf("logged %v, want the device that is left out", e)
	}
}

// A MIG device that cannot be accessed is not listed, and the reason is logged. Its GPU
// is not listed either.
func TestDiscoverMIGWithout(t *testing.T) {
	all := hostWithMIG().Devices
	const minors = "driver/nvidia-caps/mig-minors"
	cases := []struct {
		name   string
		minors string // the file's text, "-" for none
		fail   []nvmltest.FunctionFailure
		want   []gpu.Device
		logged string
	}{
		{name: "no capabilities", minors: "-", want: all[3:], logged: "mig-minors lacks gpu3/gi"},
		{name: "one capability", minors: "gpu3/gi7/access 66\ngpu3/gi7/ci0/access 67\ngpu3/gi2/access 21\n",
			want: []gpu.Device{all[0], all[3]}, logged: "mig-minors lacks gpu3/gi2/ci"},
		{name: "a file of another kind", minors: "gpu3/gi7/access many\n", want: all[3:], logged: "line 1: minor number of gpu3/gi7/access is \"many\""},
		{name: "no UUID", fail: []nvmltest.FunctionFailure{{Function: "nvmlDeviceGetUUID", Index: 3, Return: 999}},
			want: append(all[:1:1], all[2:]...), logged: "read the UUID of a MIG device"},
		{name: "no instance", fail: []nvmltest.FunctionFailure{{Function: "nvmlDeviceGetGpuInstanceId", Index: 2, Return: 999}},
			want: all[1:], logged: "read the GPU instance of"},
		{name: "no compute instance", fail: []nvmltest.FunctionFailure{{Function: "nvmlDeviceGetComputeInstanceId", Index: 4, Return: 999}},
			want: append(all[:2:2], all[3]), logged: "read the compute instance of"},
		{name: "no slots", fail: []nvmltest.FunctionFailure{{Function: "nvmlDeviceGetMaxMigDeviceCount", Index: -1, Return: 999}},
			want: all[3:], logged: "Stand-in error (NVML error 999)"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := nvmltest.ReportHost(t, hostWithMIG(), c.fail...)
			file := filepath.Join(m.ProcRoot, minors)
			switch {
			case c.minors == "-":
				os.Remove(file)
			case c.minors != "":
				if err := os.WriteFile(file, []byte(c.minors), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			log, hook := logtest.NewNullLogger()
			got, err := DiscoverHost(LibraryConfig{Library: buildStandIn(t), SysRoot: m.SysRoot, ProcRoot: m.ProcRoot, Log: log})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got.Devices); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !strings.Contains(strings.Join(loggedWarnings(hook), "\n"), c.logged) {
				t.Errorf("warned of %q, want %q", loggedWarnings(hook), c.logged)
			}
		})
	}
}

func TestProfileName(t *testing.T) {
	for name, want := range map[string]string{
		"NVIDIA A100-SXM4-40GB MIG 1g.5gb":     "1g.5gb",
		"NVIDIA H100 80GB HBM3 MIG 1g.10gb+me": "1g.10gb+me",
		"MIG 1c.3g.20gb":                       "1c.3g.20gb",
		"GRID A100X":                           "GRID A100X",
	} {
		if got := profileName(name); got != want {
			t.Errorf("profile(%q) = %q, want %q", name, got, want)
		}
	}
}
