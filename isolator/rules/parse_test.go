package rules

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	cases := []struct {
		line string
		want Rule
		err  string
	}{
		{"c 195:0 rw", Rule{'c', 195, 0, "rw"}, ""},
		{"c 195:255 rwm", Rule{'c', 195, 255, "rwm"}, ""},
		{"c *:* m", Rule{'c', Any, Any, "m"}, ""},
		{"b 8:* r", Rule{'b', 8, Any, "r"}, ""},
		{"a *:* rwm", Rule{'a', Any, Any, "rwm"}, ""},
		{"c 4294967295:0 w", Rule{'c', 4294967295, 0, "w"}, ""},
		{"", Rule{}, "want KIND MAJOR:MINOR ACCESS"},
		{"c 195 rw", Rule{}, "want KIND MAJOR:MINOR ACCESS"},
		{"c 195:0", Rule{}, "want KIND MAJOR:MINOR ACCESS"},
		{"d 195:0 rw", Rule{}, `kind "d" is none of a, b, c`},
		{"bc 195:0 rw", Rule{}, `kind "bc" is none of a, b, c`},
		{"c 195:0 wr", Rule{}, `access "wr" is no part of rwm`},
		{"c 195:0 rr", Rule{}, `access "rr" is no part of rwm`},
		{"c 195:0 ", Rule{}, `access "" is no part of rwm`},
		{"c 195:0 rw\n", Rule{}, `is no part of rwm`},
		{"c x:0 rw", Rule{}, `major: "x" is neither * nor a number of 32 bits`},
		{"c 1:-1 rw", Rule{}, `minor: "-1" is neither * nor a number of 32 bits`},
		{"c 1:01 rw", Rule{}, `minor: "01" is neither`},
		{"c 4294967296:0 rw", Rule{}, `major: "4294967296" is neither`},
	}
	for _, c := range cases {
		t.Run(c.line, func(t *testing.T) {
			got, err := Parse(c.line)
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
	got, err := ParseList("c 1:3 rwm\nc 195:0 rw\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []Rule{{'c', 1, 3, "rwm"}, {'c', 195, 0, "rw"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got, err := ParseList(""); err != nil || len(got) != 0 {
		t.Errorf("empty list: got %v, %v", got, err)
	}
	if _, err := ParseList("c 1:3 rwm\nnonsense\n"); err == nil {
		t.Error("a line of nonsense was read without an error")
	}
}

// Whatever Parse reads, String writes back; nothing makes it panic.
func FuzzParse(f *testing.F) {
	for _, r := range Standard() {
		f.Add(r.String())
	}
	f.Add("a *:* rwm")
	f.Add("c 195:-1 rw")
	f.Add("c 4294967295:0 rwm")
	f.Fuzz(func(t *testing.T, line string) {
		r, err := Parse(line)
		if err == nil && r.String() != line {
			t.Errorf("%q came back as %q", line, r)
		}
	})
}

func TestMerge(t *testing.T) {
	got := Merge([]Rule{
		{'c', 195, 1, "r"}, {'c', 195, 1, "m"}, {'c', 1, 3, "rw"}, {'c', 1, 3, "rw"}, {'c', 9, 9, ""},
	})
	want := []Rule{{'c', 1, 3, "rw"}, {'c', 195, 1, "rm"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSubtract(t *testing.T) {
	list := []Rule{{'c', 195, 0, "rwm"}, {'c', 195, 1, "rw"}, {'c', 1, 3, "rw"}}
	other := []Rule{{'c', 195, 0, "rw"}, {'c', 195, Any, "rwm"}, {'c', 1, 3, "rwm"}}
	want := []Rule{{'c', 195, 0, "m"}, {'c', 195, 1, "rw"}}
	if diff := cmp.Diff(want, Subtract(list, other)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if left := Subtract(list, list); len(left) != 0 {
		t.Errorf("a list minus itself leaves %v", left)
	}
}
