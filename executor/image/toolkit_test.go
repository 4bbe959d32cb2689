package image

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The tests of this file contain the cases of NVIDIA's container toolkit:
// internal/config/image/{cuda_image,capabilities}_test.go and
// internal/requirements/constraints/{factory,logical}_test.go. Rows that deliberately
// differ have a comment. For devices the toolkit has rules
// (internal/config/image/devices.go), and the cases are ours.

func TestToolkitRequirements(t *testing.T) {
	cuda := Requirement{"NVIDIA_REQUIRE_CUDA", RequirementAlternatives{{{CUDA, GreaterEqual, "11.6"}}}}
	brand := Requirement{"NVIDIA_REQUIRE_BRAND", RequirementAlternatives{{{Brand, Equal, "tesla"}}}}
	legacy := Requirement{"CUDA_VERSION", RequirementAlternatives{{{CUDA, GreaterEqual, "11.6"}}}}
	tests := []struct {
		name string
		env  []string
		want []Requirement
	}{
		{"jetpack is ignored", []string{"NVIDIA_REQUIRE_JETPACK=csv-mounts=all"}, nil},
		{"jetpack's host mounts are ignored", []string{"NVIDIA_REQUIRE_JETPACK_HOST_MOUNTS=base-only"}, nil},
		{"one", []string{"NVIDIA_REQUIRE_CUDA=cuda>=11.6"}, []Requirement{cuda}},
		{"two", []string{"NVIDIA_REQUIRE_CUDA=cuda>=11.6", "NVIDIA_REQUIRE_BRAND=brand=tesla"}, []Requirement{brand, cuda}},
		{"legacy image", []string{"CUDA_VERSION=11.6"}, []Requirement{legacy}},
		{"legacy image with another", []string{"CUDA_VERSION=11.6", "NVIDIA_REQUIRE_BRAND=brand=tesla"}, []Requirement{brand, legacy}},
		{"disabled", []string{"NVIDIA_REQUIRE_CUDA=cuda>=11.6", "NVIDIA_REQUIRE_BRAND=brand=tesla", "NVIDIA_DISABLE_REQUIRE=true"}, nil},
		{"disabled in a legacy image", []string{"CUDA_VERSION=11.6", "NVIDIA_REQUIRE_BRAND=brand=tesla", "NVIDIA_DISABLE_REQUIRE=true"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ask, err := readAsk(nil, append(tt.env, "NVIDIA_VISIBLE_DEVICES=all"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, ask.Requirements); diff != "" {
				t.Errorf("requirements (-want +got):\n%s", diff)
			}
		})
	}
}

func TestToolkitVersions(t *testing.T) {
	valid := map[string]string{
		"0": "0.0", "8": "8.0", "7.5": "7.5", "9.0.116": "9.0", "v11.6": "11.6",
		"4294967295.4294967295.4294967295": "4294967295.4294967295",
	}
	for text, want := range valid {
		if got, err := majorMinor(text); err != nil || got != want {
			t.Errorf("majorMinor(%q): got %q (%v), want %q", text, got, err, want)
		}
	}
	for _, text := range []string{
		"foo", "foo.5.10", "9.0.116.50", "9.0.116foo", "7.foo", "9.0.bar", "9.4294967296", "9.0.116.", "9..0", "9.", ".5.10",
		"-9", "+9", "-9.1.116", "-9.-1.-116", "", "v", "vv9", "9.0.116.50.1",
	} {
		if got, err := majorMinor(text); err == nil {
			t.Errorf("majorMinor(%q): got %q, want an error", text, got)
		}
	}
}

func TestToolkitConditions(t *testing.T) {
	tests := []struct {
		text string
		want RequirementAlternatives
		bad  bool
	}{
		{text: ""},
		{text: "notvalid", bad: true},
		{text: "foo=45"},
		{text: "cuda=foo", bad: true},
		{text: "cuda>=11.6", want: RequirementAlternatives{{{CUDA, GreaterEqual, "11.6"}}}},
		{text: "cuda>11.6", want: RequirementAlternatives{{{CUDA, Greater, "11.6"}}}},
		{text: "cuda<=11.6", want: RequirementAlternatives{{{CUDA, LessEqual, "11.6"}}}},
		{text: "cuda<11.6", want: RequirementAlternatives{{{CUDA, Less, "11.6"}}}},
		{text: "cuda=11.6", want: RequirementAlternatives{{{CUDA, Equal, "11.6"}}}},
		{text: "cuda!=11.6", want: RequirementAlternatives{{{CUDA, NotEqual, "11.6"}}}},
		// Ours: the toolkit treats a missing property as an unknown one, and its semantic
		// versions do not allow the zero of driver 535.104.05.
		{text: ">=11.6", bad: true},
		{text: "driver>=535.104.05", want: RequirementAlternatives{{{Driver, GreaterEqual, "535.104.05"}}}},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) { expectAlternatives(t, tt.text, tt.want, tt.bad) })
	}
}

func TestToolkitExpressions(t *testing.T) {
	atLeast, arch := HostCondition{CUDA, GreaterEqual, "11.6"}, HostCondition{Arch, Equal, "5.3"}
	tests := []struct {
		name, text string
		want       RequirementAlternatives
		bad        bool
	}{
		{name: "empty"},
		{name: "malformed", text: "notvalid", bad: true},
		{name: "malformed with others", text: "cuda>=11.6 arch=5.3,notvalid", bad: true},
		{name: "unknown property", text: "cuda>=11.6 foo=bar", want: RequirementAlternatives{{atLeast}}},
		{name: "unknown property in an alternative", text: "foo=bar,cuda>=11.6", want: RequirementAlternatives{{atLeast}}},
		{name: "only unknown properties", text: "foo=bar bar>baz"},
		{name: "blanks part alternatives", text: "cuda>=11.6 arch=5.3", want: RequirementAlternatives{{atLeast}, {arch}}},
		{name: "commas part conditions", text: "cuda>=11.6,arch=5.3", want: RequirementAlternatives{{atLeast, arch}}},
		{name: "commas bind closer", text: "cuda<13.6 cuda>=11.6,arch=5.3", want: RequirementAlternatives{{{CUDA, Less, "13.6"}}, {atLeast, arch}}},
		{name: "empty parts", text: " ,, cuda>=11.6,  ,arch=5.3,", want: RequirementAlternatives{{atLeast}, {arch}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { expectAlternatives(t, tt.text, tt.want, tt.bad) })
	}
}

func expectAlternatives(t *testing.T, text string, want RequirementAlternatives, bad bool) {
	t.Helper()
	got, err := ParseAlternatives(text)
	if (err != nil) != bad {
		t.Fatalf("ParseAlternatives(%q): got %v and error %v, want an error: %v", text, got, err, bad)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ParseAlternatives(%q) (-want +got):\n%s", text, diff)
	}
}

// The toolkit's always and never are conditions here that a host satisfies or not. The
// toolkit never creates its empty OR, which is never true; ours is a variable without
// requirements.
func TestToolkitLogic(t *testing.T) {
	h := HostDriver{CUDA: "12.2"}
	always, never := HostCondition{CUDA, Equal, "12.2"}, HostCondition{CUDA, NotEqual, "12.2"}
	tests := []struct {
		name     string
		list     []HostCondition
		and, any bool
	}{
		{"empty", nil, true, true},
		{"one that holds", []HostCondition{always}, true, true},
		{"one that does not", []HostCondition{never}, false, false},
		{"two that hold", []HostCondition{always, always}, true, true},
		{"the first holds", []HostCondition{always, never}, false, true},
		{"the last holds", []HostCondition{never, always}, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := conditionsHold(tt.list, h, HostGPU{}); got != tt.and {
				t.Errorf("all of %v hold: got %v, want %v", tt.list, got, tt.and)
			}
			var alternatives RequirementAlternatives
			for _, c := range tt.list {
				alternatives = append(alternatives, []HostCondition{c})
			}
			if got := alternatives.holdFor(h, HostGPU{}); got != tt.any {
				t.Errorf("one of %v holds: got %v, want %v", tt.list, got, tt.any)
			}
		})
	}
}

// Ours: an unknown capability is rejected when it is parsed, not only when it is compared
// with the supported ones. Without a capability the default applies.
func TestToolkitCapabilities(t *testing.T) {
	tests := []struct {
		text string
		want Capabilities
	}{
		{"", DefaultCapabilities()},
		{"  ", DefaultCapabilities()},
		{",", DefaultCapabilities()},
		{",utility", Capabilities{Utility}},
		{"utility,", Capabilities{Utility}},
		{"compute,,utility", Capabilities{Compute, Utility}},
		{"utility,compute,graphics", Capabilities{Compute, Graphics, Utility}},
		{"compute,compute", Capabilities{Compute}},
		{"compute,compat32,graphics,utility,video,display", Capabilities{Compute, Compat32, Graphics, Utility, Video, Display}},
		{"compute,compat32,graphics,utility,video,display,ngx", AllCapabilities()},
		{"all", AllCapabilities()},
		{"cap", nil},
		{"compute cap", nil},
		{"All", nil},
	}
	for _, tt := range tests {
		got, err := ParseCapabilities(tt.text)
		if (err != nil) != (tt.want == nil) || !slices.Equal(got, tt.want) {
			t.Errorf("ParseCapabilities(%q): got %v (%v), want %v", tt.text, got, err, tt.want)
		}
	}
}

func TestToolkitDevices(t *testing.T) {
	tests := []struct {
		text string
		want VisibleDevices
	}{
		{"", VisibleDevices{"void"}},
		{"void", VisibleDevices{"void"}},
		{"none", VisibleDevices{"none"}},
		{"all", VisibleDevices{"all"}},
		{"0", VisibleDevices{"0"}},
		{" 0 , 1 ", VisibleDevices{"0", "1"}},
		{"0,,1", VisibleDevices{"0", "1"}},
		{"0,void", VisibleDevices{"void"}},
		{"all,none", VisibleDevices{"none"}},
		{"GPU-a,MIG-b,0:1", VisibleDevices{"GPU-a", "MIG-b", "0:1"}},
		{"allin", VisibleDevices{"allin"}},
		{"All", VisibleDevices{"All"}},
	}
	for _, tt := range tests {
		if got := ParseDevices(tt.text); !slices.Equal(got, tt.want) {
			t.Errorf("ParseDevices(%q): got %q, want %q", tt.text, got, tt.want)
		}
	}
}

// TestAdviceOnUnfitDrivers checks that a newer driver is the advice only where it helps.
func TestAdviceOnUnfitDrivers(t *testing.T) {
	host := HostDriver{Driver: "535.104.05", CUDA: "12.2"}
	for requirement, want := range map[string]string{
		"cuda>=12.4":               "update the agent's driver",
		"cuda=10.0":                "a newer driver does not help",
		"driver<535":               "a newer driver does not help",
		"driver<500 cuda>=13.0":    "update the agent's driver",
		"cuda>=12.4,driver<=535.1": "a newer driver does not help",
	} {
		_, err := Examine(nil, []string{"NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_REQUIRE_CUDA=" + requirement}, nil, host)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", requirement, err, want)
		}
	}
}
