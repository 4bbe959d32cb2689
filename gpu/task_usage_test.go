package gpu

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func ptr(v float64) *float64 { return &v }

// TestUsageOf checks that values which a device does not report are left out of the file.
func TestUsageOf(t *testing.T) {
	s := Sample{At: time.Unix(1, 0), Values: map[SampleField]float64{DutyRatio: 0.5, MemUsedBytes: 3 << 20, MemTotalBytes: 16 << 30, PowerWatts: 250}}
	got, err := json.Marshal(UsageOf("GPU-a", Healthy, &s))
	if want := `{"uuid":"GPU-a","duty":0.5,"mem_used_mib":3,"mem_mib":16384,"watts":250,"health":"healthy"}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if diff := cmp.Diff(DeviceUsage{UUID: "GPU-a", Health: Failed}, UsageOf("GPU-a", Failed, nil)); diff != "" {
		t.Errorf("without a sample (-want +got):\n%s", diff)
	}
}

func TestParseUsage(t *testing.T) {
	const good = `{"time":"2026-01-02T03:04:05Z","devices":[{"uuid":"GPU-a","duty":0.25,"health":"suspect","shared":true,"new":1}]}`
	want := TaskUsage{Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Devices: []DeviceUsage{{UUID: "GPU-a", Duty: ptr(0.25), Health: Suspect, Shared: true}}}
	for _, devices := range [][]string{{"GPU-b", "GPU-a"}, nil} {
		got, err := ParseUsage([]byte(good), devices)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v: %v (-want +got):\n%s", devices, err, diff)
		}
	}
}

// TestParseUsageRejects: a task may write any content into its sandbox, and may make the name a link to another file
// there.
func TestParseUsageRejects(t *testing.T) {
	device := func(text string) string { return `{"devices":[{"uuid":"GPU-a",` + text + `}]}` }
	for name, test := range map[string]struct{ text, want string }{
		"nothing":        {"", "its 0 bytes are not the JSON"},
		"another file":   {"root:x:0:0", "its 10 bytes are not the JSON"},
		"two values":     {`{} {}`, "are not the JSON"},
		"a list":         {`[]`, "are not the JSON"},
		"much":           {`{"time":"` + strings.Repeat("x", MaxUsageBytes), "more than 65536 bytes"},
		"another device": {`{"devices":[{"uuid":"GPU-b"}]}`, "device 1: it is not the task's"},
		"no device":      {`{"devices":[{}]}`, "it is not the task's"},
		"many devices":   {`{"devices":[` + strings.Repeat("{},", 64) + `{}]}`, "has 65 devices, want at most 1"},
		"duty":           {device(`"duty":1.5`), "its duty is 1.5, want 0 to 1"},
		"memory":         {device(`"mem_used_mib":-1`), "its used memory is -1"},
		"heat":           {device(`"celsius":-300`), "its temperature is -300"},
		"text":           {device(`"watts":"many"`), "are not the JSON"},
		"health":         {device(`"health":"\u001b[31mred"`), "its health is not one of"},
	} {
		_, err := ParseUsage([]byte(test.text), []string{"GPU-a"})
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "root") || strings.Contains(err.Error(), "red") {
			t.Errorf("%s: got %v, want %q", name, err, test.want)
		}
	}
	for _, uuid := range []string{"", `\u001b[2J`, "GPU a", strings.Repeat("x", 129)} {
		if u, err := ParseUsage(fmt.Appendf(nil, `{"devices":[{"uuid":"%s"}]}`, uuid), nil); err == nil {
			t.Errorf("took the name %q", u.Devices[0].UUID)
		}
	}
}

// FuzzParseUsage checks that, whatever a task writes, only valid values of the task's own devices are accepted.
func FuzzParseUsage(f *testing.F) {
	f.Add([]byte(`{"time":"2026-01-02T03:04:05Z","devices":[{"uuid":"GPU-a","duty":0.25,"mem_used_mib":1e8,"health":"suspect"}]}`))
	f.Add([]byte(`{"devices":[{"uuid":"GPU-b","watts":1e999}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		u, err := ParseUsage(text, []string{"GPU-a"})
		if err != nil {
			if len(u.Devices) > 0 {
				t.Errorf("refused, and gave %+v", u)
			}
			return
		}
		for _, d := range u.Devices {
			if d.UUID != "GPU-a" || d.Duty != nil && (*d.Duty < 0 || *d.Duty > 1) {
				t.Errorf("took %+v", d)
			}
		}
		if _, err := json.Marshal(u.Devices); err != nil {
			t.Errorf("cannot be told on: %v", err)
		}
	})
}

// TestAddTotals: each value counts for the time since the one before; long gaps, lower energy counters and shared devices'
// energy do not count.
func TestAddTotals(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	value := func(v float64) *float64 { return &v }
	at := func(seconds int, duty, used, joules float64) TaskUsage {
		return TaskUsage{Time: start.Add(time.Duration(seconds) * time.Second), Devices: []DeviceUsage{
			{UUID: "GPU-a", Duty: &duty, MemUsedMiB: &used, MemMiB: value(100), EnergyJoules: &joules},
			{UUID: "GPU-s", Duty: &duty, EnergyJoules: &joules, Shared: true},
			{UUID: "GPU-n"},
		}}
	}
	last := TaskUsage{}
	for i, step := range []struct {
		next TaskUsage
		want *UsageTotals
	}{
		{at(0, 1, 50, 1000), nil},
		{at(10, 0.5, 40, 1500), &UsageTotals{Seconds: 10, BusySeconds: 5, MemMiBSeconds: 1000, MemUsedMiBSeconds: 400, MaxMemMiB: 40, Joules: 500}},
		{at(10, 0.5, 90, 1500), &UsageTotals{Seconds: 10, BusySeconds: 5, MemMiBSeconds: 1000, MemUsedMiBSeconds: 400, MaxMemMiB: 40, Joules: 500}},
		{at(20, 1, 60, 100), &UsageTotals{Seconds: 20, BusySeconds: 15, MemMiBSeconds: 2000, MemUsedMiBSeconds: 1000, MaxMemMiB: 60, Joules: 500}},
		{at(200, 1, 60, 200), &UsageTotals{Seconds: 20, BusySeconds: 15, MemMiBSeconds: 2000, MemUsedMiBSeconds: 1000, MaxMemMiB: 60, Joules: 500}},
	} {
		step.next.AddTotals(&last)
		last = step.next
		if diff := cmp.Diff(step.want, last.Devices[0].Totals); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
	if s := last.Devices[1].Totals; s.Joules != 0 || s.Seconds != 20 {
		t.Errorf("the shared device has %+v", s)
	}
	if s := last.Devices[2].Totals; *s != (UsageTotals{}) {
		t.Errorf("the device without values has %+v", s)
	}
}
