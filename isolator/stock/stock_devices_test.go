package stock

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
)

// host has two whole GPUs and one GPU with two MIG devices.
func host() gpu.Host {
	mig := func(uuid, profile string) gpu.Device {
		return gpu.Device{UUID: uuid, Model: "NVIDIA A100-SXM4-40GB MIG " + profile, Minor: 2, MIG: &gpu.MIG{Parent: "GPU-c", Profile: profile}}
	}
	return gpu.Host{Driver: "535.104.05", CUDA: "12.2", Devices: []gpu.Device{
		{UUID: "GPU-a", Model: "Tesla V100-SXM2-16GB", Minor: 0, NVLinks: map[string]int{"GPU-b": 2}, Paths: map[string]gpu.PCIePath{
			"MIG-x": gpu.AcrossNUMANodes,
			"MIG-y": gpu.AcrossNUMANodes,
		}},
		{UUID: "GPU-b", Model: "Tesla V100-SXM2-16GB", Minor: 1, NVLinks: map[string]int{"GPU-a": 2}, Paths: map[string]gpu.PCIePath{
			"MIG-x": gpu.AcrossNUMANodes,
			"MIG-y": gpu.AcrossNUMANodes,
		}},
		mig("MIG-x", "1g.5gb"), mig("MIG-y", "2g.10gb"),
	}}
}

func ids(devices []gpu.Device) string {
	var list []string
	for _, d := range devices {
		list = append(list, d.UUID)
	}
	return strings.Join(list, " ")
}

func TestSplitStockFromNamedDevices(t *testing.T) {
	cases := []struct{ list, named, stock string }{
		{"", "GPU-a GPU-b MIG-x MIG-y", ""},
		{"  ", "GPU-a GPU-b MIG-x MIG-y", ""},
		{"1", "GPU-a MIG-x MIG-y", "GPU-b"},
		{"gpu-B", "GPU-a MIG-x MIG-y", "GPU-b"},
		{" 1 , GPU-a", "MIG-x MIG-y", "GPU-a GPU-b"},
		{"2", "GPU-a GPU-b", "MIG-x MIG-y"},
		{"GPU-c", "GPU-a GPU-b", "MIG-x MIG-y"},
		{"MIG-y", "GPU-a GPU-b MIG-x", "MIG-y"},
		{"all", "", "GPU-a GPU-b MIG-x MIG-y"},
	}
	for _, c := range cases {
		t.Run(c.list, func(t *testing.T) {
			h := host()
			named, stock, err := SplitHost(h, c.list)
			if err != nil {
				t.Fatal(err)
			}
			if got := ids(named.Devices); got != c.named {
				t.Errorf("by name: %q, want %q", got, c.named)
			}
			if got := ids(stock); got != c.stock {
				t.Errorf("by count: %q, want %q", got, c.stock)
			}
			if named.Driver != h.Driver || named.CUDA != h.CUDA {
				t.Errorf("driver %q, CUDA %q", named.Driver, named.CUDA)
			}
			if diff := cmp.Diff(host(), h); diff != "" {
				t.Errorf("the argument changed:\n%s", diff)
			}
		})
	}
}

// Named devices have no links to stock devices.
func TestSplitForgetsLinks(t *testing.T) {
	named, _, err := SplitHost(host(), "1,MIG-x")
	if err != nil {
		t.Fatal(err)
	}
	want := gpu.Device{UUID: "GPU-a", Model: "Tesla V100-SXM2-16GB", Minor: 0, Paths: map[string]gpu.PCIePath{"MIG-y": gpu.AcrossNUMANodes}}
	if diff := cmp.Diff(want, named.Devices[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestErrorsNameTheWrongPart(t *testing.T) {
	for list, want := range map[string]string{
		"7":                    `stock GPUs "7": "7" names none of this host's 4 GPUs; want a minor number`,
		"1,GPU-z":              `"GPU-z" names none of this host's 4 GPUs`,
		"1,":                   `"" names none`,
		"-1":                   `"-1" names none`,
		"1,GPU-b":              `"GPU-b" names GPU-b a second time`,
		"2,MIG-x":              `"MIG-x" names MIG-x a second time`,
		"all,0":                `"0" names GPU-a a second time`,
		"99999999999999999999": `names none`,
	} {
		if named, stock, err := SplitHost(host(), list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, %v, error %v; want %q", list, named.Devices, stock, err, want)
		}
	}
}

// For any list, each device is on exactly one side, in the host's order.
func FuzzSplit(f *testing.F) {
	for _, list := range []string{"", "all", "0,1", "GPU-a,2", ",", "0x1", "GPU-c"} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		h := host()
		named, stock, err := SplitHost(h, list)
		if err != nil {
			return
		}
		both := slices.Concat(named.Devices, stock)
		for _, d := range h.Devices {
			if n := len(slices.DeleteFunc(slices.Clone(both), func(x gpu.Device) bool { return x.UUID != d.UUID })); n != 1 {
				t.Errorf("%q: %s is %d times on either side", list, d.UUID, n)
			}
		}
		if len(both) != len(h.Devices) {
			t.Errorf("%q: %d devices became %d", list, len(h.Devices), len(both))
		}
	})
}
