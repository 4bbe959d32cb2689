package image

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// numbers generates versions X.Y as one integer, for a simple evaluator.
var numbers = rapid.IntRange(10, 14)

func dotted(n int) string { return fmt.Sprintf("%d.%d", n/2, n%2) }

// term is a condition as text and its expected result, evaluated independently of this
// package.
type term struct {
	text  string
	holds bool
}

func drawTerm(t *rapid.T, cuda, driver, arch int, brand string) term {
	want := numbers.Draw(t, "want")
	property, has := "cuda", cuda
	switch rapid.IntRange(0, 4).Draw(t, "property") {
	case 0:
		property, has = "driver", driver
	case 1:
		property, has = "arch", arch
	case 2:
		name := rapid.SampledFrom([]string{"tesla", "geforce"}).Draw(t, "brand")
		if rapid.Bool().Draw(t, "not") {
			return term{"brand!=" + name, name != brand}
		}
		return term{"brand=" + name, name == brand}
	}
	switch op := rapid.SampledFrom([]string{"=", "!=", "<", "<=", ">", ">="}).Draw(t, "operator"); op {
	case "=":
		return term{property + op + dotted(want), has == want}
	case "!=":
		return term{property + op + dotted(want), has != want}
	case "<":
		return term{property + op + dotted(want), has < want}
	case "<=":
		return term{property + op + dotted(want), has <= want}
	case ">":
		return term{property + op + dotted(want), has > want}
	default:
		return term{property + op + dotted(want), has >= want}
	}
}

// Variables, alternatives and conditions combine as in the grammar; the results are
// compared with a simple evaluation. A driver mismatch is reported for every GPU and
// without GPUs.
func TestCheckProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cuda, driver, arch := numbers.Draw(t, "cuda"), numbers.Draw(t, "driver"), numbers.Draw(t, "arch")
		brand := rapid.SampledFrom([]string{"tesla", "geforce"}).Draw(t, "brand")
		fits := true
		env := []string{"NVIDIA_VISIBLE_DEVICES=all"}
		for v := range rapid.IntRange(0, 2).Draw(t, "variables") {
			var alternatives []string
			variable := false
			for range rapid.IntRange(1, 3).Draw(t, "alternatives") {
				var conditions []string
				alternative := true
				for range rapid.IntRange(1, 3).Draw(t, "conditions") {
					c := drawTerm(t, cuda, driver, arch, brand)
					conditions = append(conditions, c.text)
					alternative = alternative && c.holds
				}
				alternatives = append(alternatives, strings.Join(conditions, ","))
				variable = variable || alternative
			}
			env = append(env, fmt.Sprintf("NVIDIA_REQUIRE_%d=%s", v, strings.Join(alternatives, " ")))
			fits = fits && variable
		}
		h := HostDriver{CUDA: dotted(cuda), Driver: dotted(driver), GPUs: []HostGPU{{Name: "GPU-0", Arch: dotted(arch), Brand: brand}}}
		ask, err := Examine(nil, env, nil, h)
		var unfit *IncompatibleError
		if fits != (err == nil) || err != nil && !errors.As(err, &unfit) {
			t.Fatalf("%q on %v: got %v, want it to fit: %v", env, h, err, fits)
		}
		if err := ask.CheckHost(HostDriver{}); err != nil {
			t.Errorf("%q on a host of which nothing is known: %v", env, err)
		}
		if fits {
			return
		}
		h.GPUs = nil
		without := ask.CheckHost(h)
		if unfit.Cause == DriverMismatch && without == nil {
			t.Errorf("%q: unfit by %s, yet it fits where the GPU is not known", env, unfit.Cause)
		}
		for _, g := range []HostGPU{{Arch: "5.0", Brand: "tesla"}, {Arch: "6.0", Brand: "geforce"}, {Arch: "7.0", Brand: "other"}} {
			h.GPUs = []HostGPU{g}
			if unfit.Cause == DriverMismatch && ask.CheckHost(h) == nil {
				t.Errorf("%q: unfit by the driver, yet it fits with %v", env, g)
			}
		}
	})
}

// checkPrinted checks that a parser reads its formatted values back unchanged.
func checkPrinted[T fmt.Stringer](t *testing.T, text string, parse func(string) (T, error)) {
	t.Helper()
	value, err := parse(text)
	if err != nil {
		return
	}
	again, err := parse(value.String())
	if err != nil {
		t.Fatalf("%q reads as %v, which cannot be read: %v", text, value, err)
	}
	if diff := cmp.Diff(value, again); diff != "" {
		t.Errorf("%q reads as %v, which reads as another (-first +second):\n%s", text, value, diff)
	}
}

func FuzzAlternatives(f *testing.F) {
	for _, seed := range []string{
		"", "cuda>=12.2 brand=tesla,driver>=470,driver<471", "CUDA!=v1", "brand=a=b", "foo=1,arch<9.0.1.2", " ,\t,",
		"brand=\xff", "brand=K",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		checkPrinted(t, text, ParseAlternatives)
		list, err := ParseAlternatives(text)
		if err == nil && !list.holdFor(HostDriver{}, HostGPU{}) {
			t.Errorf("%q does not hold of a host of which nothing is known", text)
		}
	})
}

func FuzzCapabilities(f *testing.F) {
	for _, seed := range []string{"", "all", "compute, utility", "video,,ngx", "cuda"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		checkPrinted(t, text, ParseCapabilities)
		if got, err := ParseCapabilities(text); err == nil && len(got) == 0 {
			t.Errorf("%q names no capability and is no error", text)
		}
	})
}

func FuzzDevices(f *testing.F) {
	for _, seed := range []string{"", "all", "none,0", "GPU-a, MIG-b", "void,,", "\u00a0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		checkPrinted(t, text, func(s string) (VisibleDevices, error) { return ParseDevices(s), nil })
		if len(ParseDevices(text)) == 0 {
			t.Errorf("%q names nothing, not even void", text)
		}
	})
}

func FuzzVersion(f *testing.F) {
	for _, seed := range []string{"535.104.05", "v12", "12.0", "0", "1.2.3.4.5", "4294967296"} {
		f.Add(seed, "12.2")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		checkPrinted(t, a, parseVersion)
		v, err := parseVersion(a)
		w, err2 := parseVersion(b)
		if err == nil && err2 == nil && v.compareTo(w) != -w.compareTo(v) {
			t.Errorf("%s and %s: each is older, or newer", v, w)
		}
	})
}

// For any image, the requirements are accepted or rejected with a reason, and both ways
// to request the driver agree.
func FuzzExamine(f *testing.F) {
	f.Add("nvidia_driver", "8.0", "NVIDIA_VISIBLE_DEVICES=all\nNVIDIA_REQUIRE_CUDA=cuda>=12.2", "12.1")
	f.Add("", "", "CUDA_VERSION=cu121\n=\nX", "")
	f.Fuzz(func(t *testing.T, volumes, cuda, env, has string) {
		labels := map[string]string{"com.nvidia.volumes.needed": volumes, "com.nvidia.cuda.version": cuda}
		vars := strings.Split(env, "\n")
		ask, err := Examine(labels, vars, nil, HostDriver{CUDA: has, Driver: has})
		var unfit *IncompatibleError
		switch {
		case err == nil && ask.NeedsDriver() != needsDriver(labels, vars):
			t.Errorf("the driver's files: Examine says %v", ask.NeedsDriver())
		case errors.As(err, &unfit) && (unfit.Cause != DriverMismatch || unfit.Required == "" || !strings.Contains(err.Error(), has)):
			t.Errorf("the error is incomplete: %v", err)
		case err != nil && strings.Count(err.Error(), "\n") > strings.Count(env+volumes+cuda+has, "\n"):
			t.Errorf("error of several lines: %v", err)
		case !ask.NeedsDriver() && err != nil && !needsDriver(labels, vars):
			t.Errorf("an image that asks for nothing is refused: %v", err)
		}
	})
}
