package gpu

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// productNames are names that NVML reports, with the memory in MiB that the devices have, and their short type.
var productNames = []struct {
	model  string
	memMiB int64
	short  string
}{
	{"Tesla K20m", 4743, "K20"},
	{"Tesla K20Xm", 5700, "K20X"},
	{"Tesla K40c", 11441, "K40"},
	{"Tesla K40m", 11441, "K40"},
	{"Tesla K80", 11441, "K80"},
	{"Tesla M40", 11448, "M40"},
	{"Tesla M40 24GB", 22945, "M40"},
	{"Tesla P4", 7611, "P4"},
	{"Tesla P100-PCIE-12GB", 12198, "P100"},
	{"Tesla P100-PCIE-16GB", 16280, "P100"},
	{"Tesla P100-SXM2-16GB", 16280, "P100"},
	{"Tesla V100-SXM2-16GB", 16160, "V100"},
	{"Tesla V100-SXM2-32GB", 32510, "V100"},
	{"Tesla V100-SXM2-32GB-LS", 32510, "V100"},
	{"Tesla V100-PCIE-32GB", 32510, "V100"},
	{"Tesla V100S-PCIE-32GB", 32510, "V100S"},
	{"Tesla T4", 15109, "T4"},
	{"NVIDIA A2", 15356, "A2"},
	{"NVIDIA A10", 23028, "A10"},
	{"NVIDIA A10G", 23028, "A10G"},
	{"NVIDIA A16", 15356, "A16"},
	{"NVIDIA A30", 24576, "A30"},
	{"NVIDIA A40", 46068, "A40"},
	{"NVIDIA A40-8Q", 8192, "A40-8Q"},
	{"GRID A100-10C", 10240, "A100-10C"},
	{"GRID T4-16Q", 16384, "T4-16Q"},
	{"NVIDIA A100-1-5C", 4864, "A100-1-5C"},
	{"GRID K520", 4036, "GRID K520"},
	{"NVIDIA A100-SXM4-40GB", 40960, "A100"},
	{"NVIDIA A100-SXM4-80GB", 81920, "A100"},
	{"NVIDIA A100-PCIE-40GB", 40960, "A100"},
	{"NVIDIA A100 80GB PCIe", 81920, "A100"},
	{"NVIDIA A100X", 81920, "A100X"},
	{"NVIDIA L4", 23034, "L4"},
	{"NVIDIA L40", 46068, "L40"},
	{"NVIDIA L40S", 46068, "L40S"},
	{"NVIDIA H100 80GB HBM3", 81559, "H100"},
	{"NVIDIA H100 PCIe", 81559, "H100"},
	{"NVIDIA H100 NVL", 95830, "H100"},
	{"NVIDIA H200", 143771, "H200"},
	{"NVIDIA H200 NVL", 143771, "H200"},
	{"NVIDIA GH200 480GB", 97871, "GH200"},
	{"NVIDIA B200", 183359, "B200"},
	{"NVIDIA GeForce RTX 3080", 10240, "RTX 3080"},
	{"NVIDIA GeForce RTX 3080 Ti", 12288, "RTX 3080 Ti"},
	{"NVIDIA GeForce RTX 3080 Laptop GPU", 16384, "RTX 3080 Laptop"},
	{"NVIDIA GeForce RTX 3090", 24576, "RTX 3090"},
	{"GeForce GTX 1080 Ti", 11264, "GTX 1080 Ti"},
	{"NVIDIA GeForce GT 710", 2048, "GT 710"},
	{"NVIDIA GeForce GT 1030", 2048, "GT 1030"},
	{"NVIDIA CMP 50HX", 10240, "CMP 50HX"},
	{"NVIDIA CMP 170HX", 8192, "CMP 170HX"},
	{"Quadro RTX 6000", 24576, "RTX 6000"},
	{"NVIDIA RTX A6000", 49140, "RTX A6000"},
	{"NVIDIA RTX 6000 Ada Generation", 49140, "RTX 6000 Ada"},
	{"NVIDIA RTX 4000 SFF Ada Generation", 20475, "RTX 4000 SFF Ada"},
	{"NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, "RTX PRO 6000"},
	{"NVIDIA TITAN V", 12288, "TITAN V"},
	{"TITAN Xp", 12288, "TITAN Xp"},
	{"NVIDIA DGX Display", 4096, "DGX Display"},
	{"NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4864, "A100"},
	{"NVIDIA A100-SXM4-80GB MIG 1g.10gb", 9728, "A100"},
	{"NVIDIA A100-SXM4-80GB MIG 1g.10gb+me", 9728, "A100"},
	{"NVIDIA A100-SXM4-80GB MIG 1c.3g.40gb", 40192, "A100"},
	{"NVIDIA H100 80GB HBM3 MIG 1g.10gb", 9984, "H100"},
}

func TestShortTypesOfProducts(t *testing.T) {
	for _, p := range productNames {
		if got := TypeOf(p.model); got != p.short {
			t.Errorf("TypeOf(%q) = %q, want %q", p.model, got, p.short)
		}
	}
}

// TestProductNamesAreExact checks that a product name matches the devices of this product and no others, in the ways in
// which Kubernetes' labels and Slurm write it.
func TestProductNamesAreExact(t *testing.T) {
	for _, p := range productNames {
		for name, spelling := range map[string]string{
			"NVML":             p.model,
			"Kubernetes label": strings.ReplaceAll(p.model, " ", "-"),
			"Slurm":            strings.ReplaceAll(strings.ToLower(p.model), " ", "_"),
			"upper case":       strings.ToUpper(p.model),
		} {
			selector := TypeSelector{Include: []string{spelling}}
			for _, o := range productNames {
				if o.model == "Tesla M40 24GB" && p.model == "Tesla M40" { // its name has no word that excludes the other
					continue
				}
				request := Request{GPUs: 1, Types: selector}
				if got, want := request.AcceptsProduct(Product{o.model, o.memMiB}), o == p; got != want {
					t.Errorf("%s, %s spelling %q accepts %q: %t, want %t", p.model, name, spelling, o.model, got, want)
				}
			}
		}
	}
}

// typeNameExamples are the examples of the documentation.
var typeNameExamples = []struct{ name, matches, others string }{
	{"A100", "NVIDIA A100-SXM4-40GB, NVIDIA A100-SXM4-80GB, NVIDIA A100 80GB PCIe", "NVIDIA A100X, NVIDIA A10, NVIDIA A100-SXM4-40GB MIG 1g.5gb, GRID A100-10C, NVIDIA A100-1-5C"},
	{"A100-80GB", "NVIDIA A100-SXM4-80GB, NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-40GB, NVIDIA A100-PCIE-40GB, NVIDIA A100-SXM4-80GB MIG 1g.10gb"},
	{"A100-40GB", "NVIDIA A100-SXM4-40GB, NVIDIA A100-PCIE-40GB", "NVIDIA A100-SXM4-80GB, NVIDIA A100 80GB PCIe"},
	{"A100:80GB", "NVIDIA A100-SXM4-80GB, NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-40GB"},
	{"A100 80 GB", "NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-40GB"},
	{"A100-SXM4", "NVIDIA A100-SXM4-40GB, NVIDIA A100-SXM4-80GB", "NVIDIA A100-PCIE-40GB, NVIDIA A100 80GB PCIe"},
	{"A100-PCIe-80GB", "NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-80GB, NVIDIA A100-PCIE-40GB"},
	{"nvidia-a100-80gb", "NVIDIA A100-SXM4-80GB, NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-40GB"},
	{"nvidia-tesla-v100", "Tesla V100-SXM2-16GB, Tesla V100-PCIE-32GB", "Tesla V100S-PCIE-32GB"},
	{"V100-SXM2-32GB", "Tesla V100-SXM2-32GB", "Tesla V100-SXM2-32GB-LS, Tesla V100-SXM2-16GB, Tesla V100-PCIE-32GB"},
	{"V100-32GB", "Tesla V100-SXM2-32GB, Tesla V100-SXM2-32GB-LS, Tesla V100-PCIE-32GB", "Tesla V100-SXM2-16GB"},
	{"nvidia-tesla-t4", "Tesla T4", "GRID T4-16Q"},
	{"T4-16GB", "Tesla T4", "GRID T4-16Q"},
	{"A40-48GB", "NVIDIA A40", "NVIDIA A40-8Q"},
	{"A40", "NVIDIA A40", "NVIDIA A40-8Q"},
	{"A40-8Q", "NVIDIA A40-8Q", "NVIDIA A40"},
	{"H200-141GB", "NVIDIA H200, NVIDIA H200 NVL", ""},
	{"H200", "NVIDIA H200, NVIDIA H200 NVL", ""},
	{"NVIDIA H200", "NVIDIA H200", "NVIDIA H200 NVL"},
	{"GH200-96GB", "NVIDIA GH200 480GB", ""},
	{"RTX3080", "NVIDIA GeForce RTX 3080", "NVIDIA GeForce RTX 3080 Ti, NVIDIA GeForce RTX 3080 Laptop GPU"},
	{"rtx_3080-10gb", "NVIDIA GeForce RTX 3080", ""},
	{"RTX 3080 12GB", "", "NVIDIA GeForce RTX 3080"},
	{"RTX 6000", "Quadro RTX 6000", "NVIDIA RTX 6000 Ada Generation, NVIDIA RTX A6000"},
	{"RTX6000Ada", "NVIDIA RTX 6000 Ada Generation", "Quadro RTX 6000"},
	{"K40", "Tesla K40m, Tesla K40c", "Tesla K80"},
	{"K40m", "Tesla K40m", "Tesla K40c"},
	{"1g.10gb", "NVIDIA A100-SXM4-80GB MIG 1g.10gb, NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA A100-SXM4-80GB MIG 1g.10gb+me, NVIDIA A100-SXM4-40GB MIG 1g.5gb, NVIDIA A100-SXM4-80GB"},
	{"mig-1g.10gb", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", "NVIDIA A100-SXM4-80GB"},
	{"nvidia.com/mig-1g.10gb.me", "NVIDIA A100-SXM4-80GB MIG 1g.10gb+me", "NVIDIA A100-SXM4-80GB MIG 1g.10gb"},
	{"A100 1g.10gb", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", "NVIDIA H100 80GB HBM3 MIG 1g.10gb"},
	{"a100_1g.5gb", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", "NVIDIA A100-SXM4-40GB"},
	{"A100 MIG", "NVIDIA A100-SXM4-40GB MIG 1g.5gb, NVIDIA A100-SXM4-80GB MIG 1g.10gb+me", "NVIDIA A100-SXM4-40GB, NVIDIA H100 80GB HBM3 MIG 1g.10gb"},
	{"MIG", "NVIDIA A100-SXM4-40GB MIG 1g.5gb, NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA A100-SXM4-40GB"},
	{"V10", "", "Tesla V100-SXM2-16GB"},
	{"", "", "Tesla V100-SXM2-16GB"},
}

func TestTypeNamesMatch(t *testing.T) {
	memory := map[string]int64{}
	for _, p := range productNames {
		memory[p.model] = p.memMiB
	}
	for _, e := range typeNameExamples {
		r := Request{GPUs: 1, Types: TypeSelector{Include: []string{e.name}}}
		for _, part := range []struct {
			models string
			want   bool
		}{{e.matches, true}, {e.others, false}} {
			for model := range strings.SplitSeq(part.models, ", ") {
				if model == "" {
					continue
				}
				if memory[model] == 0 {
					t.Errorf("%q is no product of the list", model)
				}
				if got := r.AcceptsProduct(Product{model, memory[model]}); got != part.want {
					t.Errorf("gpu_type %q accepts %q: %t, want %t", e.name, model, got, part.want)
				}
			}
		}
	}
}

// TestTypeNamesOfUnknownProducts checks devices of which an agent reports no more than a short type: a precise request does
// not get them, and who excludes a product does not get them either.
func TestTypeNamesOfUnknownProducts(t *testing.T) {
	for _, c := range []struct {
		name             string
		device           Product
		include, exclude bool
	}{
		{"A100", Product{"A100", 0}, true, false},
		{"A100-80GB", Product{"A100", 0}, false, false},
		{"A100-80GB", Product{"A100", 81920}, true, false},
		{"A100-80GB", Product{"A100", 40960}, false, true},
		{"NVIDIA A100-SXM4-80GB", Product{"A100", 81920}, false, false},
		{"1g.10gb", Product{"A100", 0}, false, false},
		{"A100 MIG", Product{"A100 MIG", 0}, true, false},
		{"A100 1g.10gb", Product{"A100 MIG", 0}, false, false},
		{"V100", Product{"A100", 0}, false, true},
		{"A100", Product{}, false, false},
	} {
		if got := (TypeSelector{Include: []string{c.name}}).Match(c.device); got != c.include {
			t.Errorf("%q includes %v: %t, want %t", c.name, c.device, got, c.include)
		}
		if got := (TypeSelector{Exclude: []string{c.name}}).Match(c.device); got != c.exclude {
			t.Errorf("not %q accepts %v: %t, want %t", c.name, c.device, got, c.exclude)
		}
	}
}

// TestMIGDevicesAreForRequestsThatNameThem checks which requests get whole GPUs and MIG devices.
func TestMIGDevicesAreForRequestsThatNameThem(t *testing.T) {
	pattern := func(text string, negated bool) TypeSelector {
		return TypeSelector{Rules: []TypeRule{{Text: text, Pattern: regexp.MustCompile("^(?:" + text + ")$"), Negated: negated}}}
	}
	whole, slice := Product{"NVIDIA A100-SXM4-80GB", 81920}, Product{"NVIDIA A100-SXM4-80GB MIG 1g.10gb", 9728}
	for _, c := range []struct {
		name                 string
		request              Request
		acceptWhole, acceptM bool
	}{
		{"any", Request{GPUs: 1}, true, false},
		{"short type", Request{GPUs: 1, Types: TypeSelector{Include: []string{"A100"}}}, true, false},
		{"a profile", Request{GPUs: 1, Types: TypeSelector{Include: []string{"1g.10gb"}}}, false, true},
		{"a type or a profile", Request{GPUs: 1, Types: TypeSelector{Include: []string{"A100", "1g.10gb"}}}, true, true},
		{"several devices of a type or a profile", Request{GPUs: 2, Types: TypeSelector{Include: []string{"A100", "1g.10gb"}}}, false, true},
		{"other than a type", Request{GPUs: 1, Types: TypeSelector{Exclude: []string{"V100"}}}, true, false},
		{"not A100", Request{GPUs: 1, Types: TypeSelector{Exclude: []string{"A100"}, Include: []string{"1g.10gb"}}}, false, false},
		{"UUID", Request{GPUs: 1, Devices: DeviceSelector{Include: []string{"MIG-1"}}}, true, true},
		{"a share", Request{GPUs: 1, Share: ShareRequest{Cores: 10}}, true, true},
		{"LIKE A100.*", Request{GPUs: 1, Types: pattern("NVIDIA A100.*", false)}, true, false},
		{"LIKE .*1g\\.10gb", Request{GPUs: 1, Types: pattern(`.*1g\.10gb`, false)}, false, true},
		{"LIKE .*MIG.*", Request{GPUs: 2, Types: pattern(".*MIG.*", false)}, false, true},
		{"UNLIKE .*MIG.*", Request{GPUs: 1, Types: pattern(".*MIG.*", true)}, true, false},
	} {
		if got := [2]bool{c.request.AcceptsProduct(whole), c.request.AcceptsProduct(slice)}; got != [2]bool{c.acceptWhole, c.acceptM} {
			t.Errorf("%s: whole and MIG accepted %v, want %v", c.name, got, [2]bool{c.acceptWhole, c.acceptM})
		}
	}
}

// TestDisplayCardsAreForRequestsThatNameThem checks that a display card is no GPU for other jobs, also in shares.
func TestDisplayCardsAreForRequestsThatNameThem(t *testing.T) {
	card := Product{"NVIDIA DGX Display", 4096}
	for _, c := range []struct {
		request Request
		want    bool
	}{
		{Request{GPUs: 1}, false},
		{Request{GPUs: 1, Share: ShareRequest{MemMiB: 1000}}, false},
		{Request{GPUs: 1, Types: TypeSelector{Exclude: []string{"A100"}}}, false},
		{Request{GPUs: 1, Types: TypeSelector{Include: []string{"nvidia-dgx-display"}}}, true},
		{Request{GPUs: 1, Types: TypeSelector{Rules: []TypeRule{{Type: "DGX Display"}}}}, true},
	} {
		if got := c.request.AcceptsProduct(card); got != c.want {
			t.Errorf("%+v accepts the display card: %t, want %t", c.request, got, c.want)
		}
	}
}

// TestEntriesCountProducts checks in which entries of quotas a device counts.
func TestEntriesCountProducts(t *testing.T) {
	for _, c := range []struct {
		entry, product string
		want           bool
	}{
		{"A100", "NVIDIA A100-SXM4-80GB", true},
		{"A100", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", true},
		{"A100-80GB", "NVIDIA A100-SXM4-80GB", true},
		{"A100-80GB", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", true},
		{"A100-80GB", "NVIDIA A100-SXM4-40GB", false},
		{"NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe", false},
		{"1g.10gb", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", true},
		{"MIG", "NVIDIA A100-SXM4-80GB MIG 1g.10gb", true},
		{"MIG", "NVIDIA A100-SXM4-80GB", false},
		{"A100-80GB", "A100", true}, // of an agent that reports no more
		{"T4-16GB", "Tesla T4 15109MiB", true},
		{"A40", "NVIDIA A40-8Q", false},
	} {
		if got := MayIncludeProduct(c.entry, c.product); got != c.want {
			t.Errorf("entry %q counts %q: %t, want %t", c.entry, c.product, got, c.want)
		}
	}
}

func TestSelectorMayMatchTypes(t *testing.T) {
	for _, c := range []struct {
		types TypeSelector
		name  string
		want  bool
	}{
		{TypeSelector{}, "A100", true},
		{TypeSelector{Include: []string{"A100-80GB"}}, "A100", true},
		{TypeSelector{Include: []string{"A100"}}, "A100-80GB", true},
		{TypeSelector{Include: []string{"A100-40GB"}}, "A100-80GB", false},
		{TypeSelector{Include: []string{"A100-SXM4-80GB"}}, "A100-80GB", true},
		{TypeSelector{Include: []string{"A100"}, Exclude: []string{"A100-80GB"}}, "A100", true},
		{TypeSelector{Include: []string{"A100-80GB"}, Exclude: []string{"A100"}}, "A100", false},
		{TypeSelector{Include: []string{"A100-80GB"}, Exclude: []string{"A100-80GB"}}, "A100", false},
		{TypeSelector{Include: []string{"A100"}}, "Tesla V100", false},
		{TypeSelector{Include: []string{"V100-SXM2-16GB"}}, "Tesla V100", true},
		{TypeSelector{Include: []string{"1g.10gb"}}, "A100-80GB", true},
		{TypeSelector{Rules: []TypeRule{{Type: "A100"}}}, "A100-80GB", true},
		{TypeSelector{Rules: []TypeRule{{Type: "V100"}}}, "A100-80GB", false},
	} {
		if got := c.types.MayMatch(c.name); got != c.want {
			t.Errorf("%s may match %q: %t, want %t", c.types, c.name, got, c.want)
		}
	}
}

func TestSelectorOfType(t *testing.T) {
	for _, c := range []struct {
		include []string
		name    string
		want    string
	}{
		{nil, "A100", "[A100]"},
		{[]string{"A100"}, "A100", "[A100]"},
		{[]string{"V100", "A100-80GB"}, "A100", "[A100 80GB]"},
		{[]string{"V100", "A100-80GB"}, "V100", "[V100]"},
		{[]string{"1g.10gb"}, "A100", "[A100 MIG 1g.10gb]"},
	} {
		if got := fmt.Sprint(TypeSelector{Include: c.include, Same: true}.OfType(c.name).Include); got != c.want {
			t.Errorf("%v of %s: %s, want %s", c.include, c.name, got, c.want)
		}
	}
}

func TestCheckTypeName(t *testing.T) {
	for name, want := range map[string]string{
		"A100": "", "NVIDIA A100-SXM4-80GB": "", "1g.10gb+me": "", "RTX 3090": "", "NVIDIA TITAN X (Pascal)": "",
		"":                       "empty",
		" ":                      "empty",
		"A100\x00":               "character",
		"V100|A100":              "character",
		"V100;rm":                "character",
		"A100\u202e":             "character",
		"--":                     "names no type",
		strings.Repeat("A", 101): "more than 100",
	} {
		err := CheckTypeName(name)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}

// FuzzTypeName checks that a name is parsed in one way, whatever its case and its separators, and that a product matches its
// own name and its short type.
func FuzzTypeName(f *testing.F) {
	for _, p := range productNames {
		f.Add(p.model, p.memMiB)
	}
	for _, e := range typeNameExamples {
		f.Add(e.name, int64(0))
	}
	f.Fuzz(func(t *testing.T, name string, memMiB int64) {
		if CheckTypeName(name) != nil {
			return
		}
		n := newTypeName(name)
		if again := newTypeName(n.String()); again.String() != n.String() {
			t.Errorf("%q is %q, which is %q", name, n, again)
		}
		if !IsSameTypeName(name, strings.ReplaceAll(strings.ToLower(name), " ", "-")) {
			t.Errorf("%q is another name in lower case with hyphens", name)
		}
		if !IncludesType(name, name) || !(TypeSelector{Include: []string{name}}).MayMatch(name) {
			t.Errorf("%q does not include itself", name)
		}
		p := Product{name, max(memMiB, 0)}
		if !MayIncludeProduct(name, p.String()) || !MayIncludeProduct(p.Type(), p.String()) {
			t.Errorf("%q with %d MiB is not counted by its name or by %q", name, memMiB, p.Type())
		}
	})
}
