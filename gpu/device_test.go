package gpu

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTypeOf(t *testing.T) {
	for model, want := range map[string]string{
		"Tesla V100-SXM2-16GB":               "V100",
		"Tesla K80":                          "K80",
		"NVIDIA A100-SXM4-80GB":              "A100",
		"NVIDIA A100 80GB PCIe":              "A100",
		"NVIDIA H100 80GB HBM3":              "H100",
		"NVIDIA H200":                        "H200",
		"NVIDIA L40S":                        "L40S",
		"NVIDIA GeForce RTX 3090 Ti":         "RTX 3090 Ti",
		"NVIDIA GeForce RTX 3090":            "RTX 3090",
		"NVIDIA RTX A6000":                   "RTX A6000",
		"NVIDIA RTX 6000 Ada Generation":     "RTX 6000 Ada",
		"Quadro RTX 8000":                    "RTX 8000",
		"NVIDIA TITAN V":                     "TITAN V",
		"NVIDIA GH200 480GB":                 "GH200",
		"GeForce GTX 1080 Ti":                "GTX 1080 Ti",
		"V100":                               "V100",
		"a100":                               "A100",
		"":                                   "",
		"NVIDIA":                             "NVIDIA",
		"NVIDIA A100-SXM4-40GB MIG 1g.5gb":   "A100",
		"NVIDIA RTX PRO 6000 Blackwell":      "RTX PRO 6000",
		"Tesla P100-PCIE-16GB":               "P100",
		"NVIDIA Graphics Device of tomorrow": "Graphics",
	} {
		if got := TypeOf(model); got != want {
			t.Errorf("TypeOf(%q) = %q, want %q", model, got, want)
		}
	}
}

func TestTypesMatch(t *testing.T) {
	const v100, k80, rtx = "Tesla V100-SXM2-16GB", "Tesla K80", "NVIDIA GeForce RTX 3090"
	for _, c := range []struct {
		types TypeSelector
		model string
		want  bool
	}{
		{TypeSelector{}, v100, true},
		{TypeSelector{Include: []string{"V100"}}, v100, true},
		{TypeSelector{Include: []string{"v100"}}, v100, true},
		{TypeSelector{Include: []string{"tesla v100-sxm2-16gb"}}, v100, true},
		{TypeSelector{Include: []string{"V100", "K80"}}, k80, true},
		{TypeSelector{Include: []string{"V10"}}, v100, false},
		{TypeSelector{Include: []string{"A100"}}, v100, false},
		{TypeSelector{Exclude: []string{"K80"}}, v100, true},
		{TypeSelector{Exclude: []string{"k80"}}, k80, false},
		{TypeSelector{Include: []string{"K80"}, Exclude: []string{"K80"}}, k80, false},
		{TypeSelector{Include: []string{"RTX3090"}}, rtx, true},
		{TypeSelector{Include: []string{"rtx 3090"}}, rtx, true},
		{TypeSelector{Include: []string{"V100"}}, "V100", true},
	} {
		if got := c.types.Match(Product{Model: c.model}); got != c.want {
			t.Errorf("%s matches %q: got %t, want %t", c.types, c.model, got, c.want)
		}
	}
}

func TestIsKnownType(t *testing.T) {
	for name, want := range map[string]bool{"V100": true, "v100": true, "Tesla V100-SXM2-16GB": true, "RTX3090": true, "V1000": false, "": false, "TPU": false} {
		if got := IsKnownType(name); got != want {
			t.Errorf("Known(%q) = %t, want %t", name, got, want)
		}
	}
}

func TestRequestString(t *testing.T) {
	for want, r := range map[string]Request{
		"no GPU":                         {},
		"1 GPU":                          {GPUs: 1},
		"2 GPUs of V100 or A100":         {GPUs: 2, Types: TypeSelector{Include: []string{"V100", "A100"}}},
		"2 GPUs other than K80":          {GPUs: 2, Types: TypeSelector{Exclude: []string{"K80"}}},
		"1 GPU of V100, not V100M or T4": {GPUs: 1, Types: TypeSelector{Include: []string{"V100"}, Exclude: []string{"V100M", "T4"}}},
	} {
		if got := r.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func host() Host {
	return Host{Driver: "535.104.05", CUDA: "12.2", Devices: []Device{
		{UUID: "GPU-a", Model: "Tesla V100-SXM2-16GB", MemMiB: 16160, Minor: 0, PCI: "0000:3b:00.0", NUMA: 0},
		{UUID: "GPU-b", Model: "Tesla K80", MemMiB: 11441, Minor: 1, NUMA: -1},
		{UUID: "GPU-c", Model: "Tesla V100-PCIE-32GB", MemMiB: 32510, Minor: 2, NUMA: 1},
	}}
}

func TestHost(t *testing.T) {
	h := host()
	if diff := cmp.Diff([]string{"V100", "K80"}, h.Types()); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
	got, err := h.ByUUID([]string{"GPU-c", "GPU-a"})
	if err != nil || got[0].Minor != 2 || got[1].Minor != 0 {
		t.Errorf("ByUUID = %v, %v", got, err)
	}
	if _, err := h.ByUUID([]string{"GPU-x"}); err == nil || !strings.Contains(err.Error(), "GPU-x is not among this host's 3 GPUs") {
		t.Errorf("unknown UUID: %v", err)
	}
}

func TestDeviceAccessCanOpen(t *testing.T) {
	whole, other := Device{Minor: 1}, Device{Minor: 3}
	slice := Device{Minor: 2, MIG: &MIG{GPUInstanceCap: 12, ComputeInstanceCap: 13}}
	sibling := Device{Minor: 2, MIG: &MIG{GPUInstanceCap: 12, ComputeInstanceCap: 14}}
	reach := DeviceAccess{Confined: true, Minors: []int{1, 2}, Caps: []int{12, 13}}
	for _, c := range []struct {
		name   string
		device Device
		want   bool
	}{
		{"its GPU", whole, true}, {"another GPU", other, false}, {"its slice", slice, true}, {"another slice of the GPU", sibling, false},
	} {
		if got := reach.CanOpen(c.device); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestInventoryRoundTrip(t *testing.T) {
	text, err := EncodeInventory(host())
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(text, ":;{}[](),= \n") {
		t.Errorf("%q holds characters of Mesos's attribute grammar", text)
	}
	got, err := DecodeInventory(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(host(), got); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
}

func TestInventoryRejectsDecompressionBomb(t *testing.T) {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	if _, err := z.Write(bytes.Repeat([]byte{' '}, 8<<20)); err != nil {
		t.Fatal(err)
	}
	z.Close()
	_, err := DecodeInventory(base64.RawURLEncoding.EncodeToString(packed.Bytes()))
	if err == nil || !strings.Contains(err.Error(), "more than 1048576 bytes") {
		t.Errorf("got %v", err)
	}
}

func FuzzDecodeInventory(f *testing.F) {
	text, err := EncodeInventory(host())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := DecodeInventory(text)
		if err != nil {
			return
		}
		again, err := EncodeInventory(h)
		if err != nil {
			t.Fatalf("decoded but does not encode: %v", err)
		}
		if got, err := DecodeInventory(again); err != nil || !cmp.Equal(got, h) {
			t.Errorf("%v came back as %v, %v", h, got, err)
		}
	})
}

// The lost devices that are known are among the others, by their PCI addresses. One whose node is another
// device's has none.
func TestWithLost(t *testing.T) {
	d := func(pci string, minor int) Device {
		return Device{UUID: "GPU-" + pci, Model: "NVIDIA A100", PCI: pci, Minor: minor}
	}
	h := Host{Devices: []Device{d("a", 0), d("c", 1)}, Lost: []LostDevice{{Device: d("b", 1)}, {Device: Device{Minor: -1}}, {Device: d("d", 3)}}}
	want := h
	want.Devices = []Device{d("a", 0), d("b", -1), d("c", 1), d("d", 3)}
	if diff := cmp.Diff(want, h.WithLost()); diff != "" || len(h.Devices) != 2 {
		t.Errorf("of %v (-want +got):\n%s", h.Devices, diff)
	}
	if diff := cmp.Diff(h, h.WithLost().WithoutLost()); diff != "" {
		t.Errorf("without them (-want +got):\n%s", diff)
	}
}
