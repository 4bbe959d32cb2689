package rules

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseRules(t *testing.T) {
	cases := []struct {
		line string
		want DeviceRule
		err  string
	}{
		{"c 195:0 rw", DeviceRule{'c', 195, 0, "rw"}, ""},
		{"c 195:255 rwm", DeviceRule{'c', 195, 255, "rwm"}, ""},
		{"c *:* m", DeviceRule{'c', AnyNumber, AnyNumber, "m"}, ""},
		{"b 8:* r", DeviceRule{'b', 8, AnyNumber, "r"}, ""},
		{"a *:* rwm", DeviceRule{'a', AnyNumber, AnyNumber, "rwm"}, ""},
		{"c 4294967295:0 w", DeviceRule{'c', 4294967295, 0, "w"}, ""},
		{"", DeviceRule{}, "want KIND MAJOR:MINOR ACCESS"},
		{"c 195 rw", DeviceRule{}, "want KIND MAJOR:MINOR ACCESS"},
		{"c 195:0", DeviceRule{}, "want KIND MAJOR:MINOR ACCESS"},
		{"d 195:0 rw", DeviceRule{}, `kind "d" is not a, b or c`},
		{"bc 195:0 rw", DeviceRule{}, `kind "bc" is not a, b or c`},
		{"c 195:0 wr", DeviceRule{}, `access "wr" is no part of rwm`},
		{"c 195:0 rr", DeviceRule{}, `access "rr" is no part of rwm`},
		{"c 195:0 ", DeviceRule{}, `access "" is no part of rwm`},
		{"c 195:0 rw\n", DeviceRule{}, `is no part of rwm`},
		{"c x:0 rw", DeviceRule{}, `major: "x" is neither * nor a number of 32 bits`},
		{"c 1:-1 rw", DeviceRule{}, `minor: "-1" is neither * nor a number of 32 bits`},
		{"c 1:01 rw", DeviceRule{}, `minor: "01" is neither`},
		{"c 4294967296:0 rw", DeviceRule{}, `major: "4294967296" is neither`},
	}
	for _, c := range cases {
		t.Run(c.line, func(t *testing.T) {
			got, err := ParseRule(c.line)
			if c.err == "" {
				if err != nil || got != c.want {
					t.Errorf("got %+v, %v; want %+v", got, err, c.want)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("got error %v, want one with %q", err, c.err)
			}
		})
	}
}

func TestParseList(t *testing.T) {
	got, err := ParseRules("c 1:3 rwm\nc 195:0 rw\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []DeviceRule{{'c', 1, 3, "rwm"}, {'c', 195, 0, "rw"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, err := ParseRules(""); err != nil || len(got) != 0 {
		t.Errorf("empty list: got %v, %v", got, err)
	}
	if _, err := ParseRules("c 1:3 rwm\nnonsense\n"); err == nil {
		t.Error("a line of nonsense was read without an error")
	}
}

// String formats every parsed rule back to an equal text, and no input panics.
func FuzzParse(f *testing.F) {
	for _, r := range StandardRules() {
		f.Add(r.String())
	}
	f.Add("a *:* rwm")
	f.Add("c 195:-1 rw")
	f.Add("c 4294967295:0 rwm")
	f.Fuzz(func(t *testing.T, line string) {
		r, err := ParseRule(line)
		if err == nil && r.String() != line {
			t.Errorf("%q came back as %q", line, r)
		}
	})
}

func TestMergeRules(t *testing.T) {
	got := MergeRules([]DeviceRule{
		{'c', 195, 1, "r"}, {'c', 195, 1, "m"}, {'c', 1, 3, "rw"}, {'c', 1, 3, "rw"}, {'c', 9, 9, ""},
	})
	want := []DeviceRule{{'c', 1, 3, "rw"}, {'c', 195, 1, "rm"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSubtractRules(t *testing.T) {
	list := []DeviceRule{{'c', 195, 0, "rwm"}, {'c', 195, 1, "rw"}, {'c', 1, 3, "rw"}}
	other := []DeviceRule{{'c', 195, 0, "rw"}, {'c', 195, AnyNumber, "rwm"}, {'c', 1, 3, "rwm"}}
	want := []DeviceRule{{'c', 195, 0, "m"}, {'c', 195, 1, "rw"}}
	if diff := cmp.Diff(want, SubtractRules(list, other)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if left := SubtractRules(list, list); len(left) != 0 {
		t.Errorf("a list minus itself leaves %v", left)
	}
}
