package gpu

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestWithheld: what a condition says arrives at the other end, in one line and
// bounded, whatever an operator wrote.
func TestWithheld(t *testing.T) {
	long := strings.Repeat("ß", maxNote)
	for name, test := range map[string]struct {
		is   Condition
		want Withheld
	}{
		"failed":             {Condition{Health: Failed, Reason: "XID 79: GPU has fallen off the bus"}, Withheld{"GPU-a", Sick, "XID 79: GPU has fallen off the bus"}},
		"recovering":         {Condition{Health: Recovering}, Withheld{"GPU-a", Sick, ""}},
		"cordoned":           {Condition{Health: Healthy, Cordoned: true, Cordon: "new fans"}, Withheld{"GPU-a", Cordoned, "new fans"}},
		"sick and cordoned":  {Condition{Health: Failed, Reason: "XID 79", Cordoned: true}, Withheld{"GPU-a", Cordoned, ""}},
		"lines":              {Condition{Cordoned: true, Cordon: " fan\n\x1b[1mbroken\xff "}, Withheld{"GPU-a", Cordoned, "fan  [1mbroken?"}},
		"more than there is": {Condition{Cordoned: true, Cordon: long}, Withheld{"GPU-a", Cordoned, long[:maxNote-4] + "…"}},
	} {
		got, is := test.is.Withheld("GPU-a")
		if !is || got != test.want {
			t.Errorf("%s: got %+v, %t, want %+v", name, got, is, test.want)
		}
		if back, ok := ParseWithheld(got.Item()); !ok || back != got {
			t.Errorf("%s: %q became %+v, %t", name, got.Item(), back, ok)
		}
	}
	for _, health := range []Health{Healthy, Suspect} {
		if got, is := (Condition{Health: health}).Withheld("GPU-a"); is {
			t.Errorf("%s: got %+v", health, got)
		}
	}
	for _, item := range []string{"", "GPU-a", "GPU-a asleep", " sick"} {
		if got, ok := ParseWithheld(item); ok {
			t.Errorf("%q: got %+v", item, got)
		}
	}
	hostile, ok := ParseWithheld("GPU-a sick " + strings.Repeat("\x80", 1<<20))
	if !ok || len(hostile.Note) > maxNote || !utf8.ValidString(hostile.Note) {
		t.Errorf("got %d bytes, %t", len(hostile.Note), ok)
	}
}
