package gpu

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestWithheldDevices checks that a note is decoded as it was encoded, in one line and of limited length, for any
// text of an operator.
func TestWithheldDevices(t *testing.T) {
	long := strings.Repeat("ß", maxNote)
	for name, test := range map[string]struct {
		is   DeviceCondition
		want WithheldDevice
	}{
		"failed": {DeviceCondition{Health: Failed, Reason: "XID 79: GPU has fallen off the bus"}, WithheldDevice{"GPU-a",
			WithheldUnhealthy, "XID 79: GPU has fallen off the bus"}},
		"recovering":         {DeviceCondition{Health: Recovering}, WithheldDevice{"GPU-a", WithheldUnhealthy, ""}},
		"cordoned":           {DeviceCondition{Health: Healthy, Cordoned: true, Cordon: "new fans"}, WithheldDevice{"GPU-a", WithheldCordoned, "new fans"}},
		"sick and cordoned":  {DeviceCondition{Health: Failed, Reason: "XID 79", Cordoned: true}, WithheldDevice{"GPU-a", WithheldCordoned, ""}},
		"held":               {DeviceCondition{Health: Healthy, Holder: "held by container c"}, WithheldDevice{"GPU-a", WithheldHeld, "held by container c"}},
		"sick and held":      {DeviceCondition{Health: Failed, Reason: "XID 79", Holder: "held"}, WithheldDevice{"GPU-a", WithheldUnhealthy, "XID 79"}},
		"no driver":          {DeviceCondition{Health: Healthy, NoDriver: "no libcuda", Holder: "held"}, WithheldDevice{"GPU-a", WithheldUnhealthy, "no libcuda"}},
		"sick, no driver":    {DeviceCondition{Health: Failed, Reason: "XID 79", NoDriver: "no libcuda"}, WithheldDevice{"GPU-a", WithheldUnhealthy, "XID 79"}},
		"cordoned and held":  {DeviceCondition{Cordoned: true, Cordon: "fan", Holder: "held"}, WithheldDevice{"GPU-a", WithheldCordoned, "fan"}},
		"lines":              {DeviceCondition{Cordoned: true, Cordon: " fan\n\x1b[1mbroken\xff "}, WithheldDevice{"GPU-a", WithheldCordoned, "fan  [1mbroken?"}},
		"more than there is": {DeviceCondition{Cordoned: true, Cordon: long}, WithheldDevice{"GPU-a", WithheldCordoned, long[:maxNote-4] + "…"}},
	} {
		got, is := test.is.AsWithheld("GPU-a")
		if !is || got != test.want {
			t.Errorf("%s: got %+v, %t, want %+v", name, got, is, test.want)
		}
		if back, ok := ParseWithheld(got.SetItem()); !ok || back != got {
			t.Errorf("%s: %q became %+v, %t", name, got.SetItem(), back, ok)
		}
	}
	for _, health := range []Health{Healthy, Suspect} {
		if got, is := (DeviceCondition{Health: health}).AsWithheld("GPU-a"); is {
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
