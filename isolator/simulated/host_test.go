package simulated

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
)

func mustHost(t *testing.T, spec, seed string) gpu.Host {
	t.Helper()
	h, err := NewHost(spec, seed)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func models(h gpu.Host) []string {
	var names []string
	for _, d := range h.Devices {
		names = append(names, d.Model)
	}
	return names
}

func TestParseHost(t *testing.T) {
	const v100, k80 = "Tesla V100-SXM2-16GB", "Tesla K80"
	cases := []struct {
		spec string
		want []string
	}{
		{"V100", []string{v100}},
		{"2xV100,1xK80", []string{v100, v100, k80}},
		{" 1xK80 , V100", []string{k80, v100}},
		{"1xv100", []string{v100}},
		{"2xRTX 3090 Ti", []string{"NVIDIA GeForce RTX 3090 Ti", "NVIDIA GeForce RTX 3090 Ti"}},
		{"RTX3090", []string{"NVIDIA GeForce RTX 3090"}},
		{"TITAN Xp", []string{"NVIDIA TITAN Xp"}},
		{"Tesla K80", []string{k80}},
		{"1xK80,1xV100,1xK80", []string{k80, v100, k80}},
	}
	for _, c := range cases {
		t.Run(c.spec, func(t *testing.T) {
			h := mustHost(t, c.spec, "host")
			if diff := cmp.Diff(c.want, models(h)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if h.Driver != "535.104.05" || h.CUDA != "12.2" || !h.Simulated {
				t.Errorf("got driver %s, CUDA %s, simulated %v", h.Driver, h.CUDA, h.Simulated)
			}
			for i, d := range h.Devices {
				if d.Minor != i || d.MemMiB < 4096 {
					t.Errorf("device %d is %+v", i, d)
				}
			}
		})
	}
}

func TestErrorsNameTheWrongPart(t *testing.T) {
	cases := map[string]string{
		"":                 `simulate "": "" has no GPU type`,
		"2xV100,":          `simulate "2xV100,": "" has no GPU type`,
		"2x":               `"2x" has no GPU type`,
		"1xV100,2xV1000":   `"2xV1000": no GPU type is named "V1000"; some are K80,`,
		"0xV100":           `"0xV100": 0 GPUs is not between 1 and 254`,
		"300xV100":         `"300xV100": 300 GPUs is not between 1 and 254`,
		"99999999999xV100": `99999999999 GPUs is not between 1 and 254`,
		"-1xV100":          `no GPU type is named "-1xV100"`,
		"4V100":            `no GPU type is named "4V100": did you mean 4xV100?`,
		"200xV100,100xK80": `with "100xK80" there are 300 GPUs, one host has at most 254`,
		"V100;K80":         `no GPU type is named "V100;K80"`,
	}
	for spec, want := range cases {
		if h, err := NewHost(spec, "s"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, error %v; want %q", spec, h.Devices, err, want)
		}
	}
}

func TestNewHosts(t *testing.T) {
	hosts, err := NewHosts("2x4xV100, 1x2xA100+1xRTX 3090 Ti", "a")
	if err != nil {
		t.Fatal(err)
	}
	var specs []string
	seen := map[string]bool{}
	for _, h := range hosts {
		specs = append(specs, strings.Join(models(h), ","))
		for _, d := range h.Devices {
			if seen[d.UUID] {
				t.Errorf("two devices have UUID %s", d.UUID)
			}
			seen[d.UUID] = true
		}
	}
	const four = "Tesla V100-SXM2-16GB,Tesla V100-SXM2-16GB,Tesla V100-SXM2-16GB,Tesla V100-SXM2-16GB"
	if diff := cmp.Diff([]string{four, four, "NVIDIA A100-SXM4-40GB,NVIDIA A100-SXM4-40GB,NVIDIA GeForce RTX 3090 Ti"}, specs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(mustHost(t, "4xV100", "a"), hosts[0]); diff != "" {
		t.Errorf("the first host is not that of NewHost:\n%s", diff)
	}
	for spec, want := range map[string]string{
		"":                   `"" is not HOSTSxGPUSxTYPE`,
		"4xV100":             `"4xV100" is not HOSTSxGPUSxTYPE`,
		"0x4xV100":           `there are 0 hosts, want 1 to 100`,
		"60x1xK80,41x1xV100": `with "41x1xV100" there are 101 hosts`,
		"2x4xV1000":          `no GPU type is named "V1000"`,
		"1x0xV100":           `0 GPUs is not between 1 and 254`,
		"1x4xV100;":          `no GPU type is named "V100;"`,
	} {
		if h, err := NewHosts(spec, "a"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %d hosts, %v; want %q", spec, len(h), err, want)
		}
	}
}

func TestIdentitiesAreUniqueAndStable(t *testing.T) {
	form := regexp.MustCompile(`^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)
	a, again := mustHost(t, "254xV100", "a"), mustHost(t, "254xV100", "a")
	if diff := cmp.Diff(a, again); diff != "" {
		t.Errorf("one spec and seed gave two hosts:\n%s", diff)
	}
	seen := map[string]string{}
	pci := map[string]bool{}
	for _, h := range []gpu.Host{a, mustHost(t, "254xV100", "b"), mustHost(t, "9xK80", "1/a")} {
		for _, d := range h.Devices {
			if !form.MatchString(d.UUID) {
				t.Errorf("UUID %q has not the form of NVIDIA's", d.UUID)
			}
			if other := seen[d.UUID]; other != "" {
				t.Errorf("%s names %s and %s", d.UUID, other, d)
			}
			seen[d.UUID] = d.String()
		}
	}
	for _, d := range a.Devices {
		if pci[d.PCI] {
			t.Errorf("two devices at %s", d.PCI)
		}
		pci[d.PCI] = true
	}
	// Adding a GPU changes no UUID, so a job keeps its devices.
	grown := mustHost(t, "254xV100", "a")
	if small := mustHost(t, "2xV100", "a"); small.Devices[1].UUID != grown.Devices[1].UUID {
		t.Error("the second GPU's UUID depends on how many there are")
	}
}

func TestMIGDevices(t *testing.T) {
	h := mustHost(t, "A100-80GB,2xA100-80GB-1g.10gb,1xH100 3g.40gb", "a")
	var got []string
	for _, d := range h.Devices {
		got = append(got, fmt.Sprintf("%d %s %d", d.Minor, d.Model, d.MemMiB))
	}
	want := []string{
		"0 NVIDIA A100-SXM4-80GB 81920", "1 NVIDIA A100-SXM4-80GB MIG 1g.10gb 9728", "1 NVIDIA A100-SXM4-80GB MIG 1g.10gb 9728",
		"2 NVIDIA H100 80GB HBM3 MIG 3g.40gb 38912",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if a, b := h.Devices[1].MIG, h.Devices[2].MIG; a.Parent != b.Parent || a.ComputeInstanceCap == b.ComputeInstanceCap || h.Devices[1].UUID == h.Devices[2].UUID {
		t.Errorf("MIG devices of one GPU: %+v and %+v", a, b)
	}
	for spec, want := range map[string]string{"8xA100 1g.5gb": "at most 7", "1g.10gb": "no GPU type is named"} {
		if _, err := NewHost(spec, "a"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", spec, err, want)
		}
	}
}

func TestNUMA(t *testing.T) {
	var nodes []int
	for _, d := range mustHost(t, "5xV100", "a").Devices {
		nodes = append(nodes, d.NUMA)
	}
	if diff := cmp.Diff([]int{0, 0, 0, 1, 1}, nodes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Architectures and brands that images require, by NVIDIA's tables: one product of each
// generation and brand.
func TestArchAndBrand(t *testing.T) {
	for spec, want := range map[string]string{
		"K20": "3.5 tesla", "K80": "3.7 tesla", "M10": "5.0 tesla", "M60": "5.2 tesla", "P100": "6.0 tesla", "P40": "6.1 tesla",
		"V100": "7.0 tesla", "T4": "7.5 tesla", "A100": "8.0 nvidia", "A30": "8.0 nvidia", "A10G": "8.6 nvidia", "A40": "8.6 nvidia",
		"L4": "8.9 nvidia", "L40S": "8.9 nvidia", "H100": "9.0 nvidia", "H200": "9.0 nvidia", "GH200": "9.0 nvidia",
		"B200": "10.0 nvidia", "GB200": "10.0 nvidia", "B300": "10.3 nvidia", "GB300": "10.3 nvidia", "GB10": "12.1 nvidia",
		"GTX 1080": "6.1 geforce", "RTX 2080 Ti": "7.5 geforce", "RTX 3090": "8.6 geforce", "RTX 4090": "8.9 geforce", "RTX 5090": "12.0 geforce",
		"RTX 8000": "7.5 quadrortx", "RTX A6000": "8.6 nvidiartx", "RTX 6000 Ada": "8.9 nvidiartx",
		"TITAN V": "7.0 titan", "TITAN Xp": "6.1 titan", "TITAN RTX": "7.5 titan",
	} {
		d := mustHost(t, spec, "host").Devices[0]
		if got := d.Arch + " " + d.Brand; got != want {
			t.Errorf("%s: got %s, want %s", spec, got, want)
		}
	}
	for _, p := range products {
		if p.arch == "" || p.brandName() == "" {
			t.Errorf("%s has compute capability %q and brand %q", p.model, p.arch, p.brandName())
		}
	}
}

// Every product is found by its own name, and a product of its family by the short name, which is in common use.
func TestProducts(t *testing.T) {
	for _, p := range products {
		short := gpu.TypeOf(p.model)
		if got, ok := findProduct(p.model); !ok || got != p {
			t.Errorf("%q finds %v, want %v", p.model, got, p)
		}
		if got, ok := findProduct(short); !ok || gpu.TypeOf(got.model) != short {
			t.Errorf("%q finds %v, want one of its products", short, got)
		}
		if !gpu.IsKnownType(short) {
			t.Errorf("%q is a type that gpu.Known does not know", short)
		}
	}
}
