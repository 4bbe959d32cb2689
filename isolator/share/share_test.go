package share

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/gpu"
)

func host() gpu.Host {
	return gpu.Host{Devices: []gpu.Device{
		{UUID: "GPU-a", MemMiB: 1000}, {UUID: "GPU-b", Minor: 1, MemMiB: 1000},
		{UUID: "MIG-x", Minor: 2, MemMiB: 500, MIG: &gpu.MIG{Parent: "GPU-c"}}, {UUID: "MIG-y", Minor: 2, MemMiB: 500, MIG: &gpu.MIG{Parent: "GPU-c"}},
	}}
}

func config(dir, list string) ModeConfig {
	log, _ := logtest.NewNullLogger()
	return ModeConfig{Host: host(), List: list, Scaling: ShareScaling{1.5, 2}, StateDir: dir, Live: true, Log: log}
}

func open(t *testing.T, cfg ModeConfig) *ModeStore {
	t.Helper()
	f, err := OpenModes(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// shared lists the shared devices, with a mark on those with a pending change.
func shared(f *ModeStore) string {
	var words []string
	for _, d := range f.cfg.Host.Devices {
		word := ""
		if _, ok := f.SharedCapacity(d.UUID); ok {
			word = d.UUID
		}
		if f.IsPending(d.UUID) {
			word = d.UUID + "!" + map[bool]string{true: "shared", false: "whole"}[word != ""]
		}
		if word != "" {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

func settle(t *testing.T, f *ModeStore, held map[string]DeviceUse, known bool) {
	t.Helper()
	if err := f.ReconcileModes(held, known); err != nil {
		t.Fatal(err)
	}
}

func TestParseSharedList(t *testing.T) {
	for list, want := range map[string]string{
		"": "", "none": "", "all": "GPU-a GPU-b MIG-x MIG-y", "0": "GPU-a", "GPU-b, 0": "GPU-a GPU-b", "2": "MIG-x MIG-y", "GPU-c": "MIG-x MIG-y",
	} {
		if got := shared(open(t, config(t.TempDir(), list))); got != want {
			t.Errorf("%q: got %q, want %q", list, got, want)
		}
	}
	if _, err := OpenModes(config(t.TempDir(), "0,9")); err == nil || !strings.Contains(err.Error(), `"9" names none of this host's 4 GPUs`) {
		t.Errorf("got %v", err)
	}
}

func TestScaling(t *testing.T) {
	all, ok := open(t, config(t.TempDir(), "0")).SharedCapacity("GPU-a")
	if want := (gpu.DeviceShare{UUID: "GPU-a", MemMiB: 1500, Cores: 200}); !ok || all != want {
		t.Errorf("got %+v, want %+v", all, want)
	}
	for _, s := range []ShareScaling{{0, 1}, {1, 0.9}, {11, 1}, {1, math.NaN()}} {
		if s.Validate() == nil {
			t.Errorf("%v passes", s)
		}
	}
}

// A device changes its mode only when it is idle. A requested mode survives a restart of
// the daemon.
func TestRequestMode(t *testing.T) {
	dir := t.TempDir()
	f := open(t, config(dir, "GPU-b"))
	set := func(uuid string, shared bool) {
		t.Helper()
		if err := f.RequestMode(uuid, shared); err != nil {
			t.Fatal(err)
		}
		<-f.Changes()
	}
	want := func(when, want string) {
		t.Helper()
		if got := shared(f); got != want {
			t.Errorf("%s: got %q, want %q", when, got, want)
		}
	}
	set("GPU-a", true)
	set("GPU-b", false)
	set("GPU-c", true)
	want("asked for", "GPU-a!whole GPU-b!shared MIG-x!whole MIG-y!whole")
	settle(t, f, nil, false)
	want("unknown use", "GPU-a!whole GPU-b!shared MIG-x!whole MIG-y!whole")
	held := map[string]DeviceUse{"GPU-a": {Whole: true}, "GPU-b": {Shared: true}, "MIG-x": {Whole: true}}
	settle(t, f, held, true)
	want("in use", "GPU-a!whole GPU-b!shared MIG-x!whole MIG-y")
	f = open(t, config(dir, "GPU-b"))
	want("after a restart", "GPU-a!whole GPU-b!shared MIG-x!whole MIG-y")
	f.cfg.ContainerUse = func() map[string]DeviceUse { return map[string]DeviceUse{"GPU-a": {Whole: true}} }
	settle(t, f, nil, true)
	want("in use by the books", "GPU-a!whole MIG-x MIG-y")
	f.cfg.ContainerUse = nil
	settle(t, f, nil, true)
	want("idle", "GPU-a MIG-x MIG-y")
	settle(t, f, map[string]DeviceUse{"GPU-a": {Whole: true}}, true) // a launch that was in progress
	want("late", "GPU-a!whole MIG-x MIG-y")
	settle(t, f, map[string]DeviceUse{"GPU-a": {Whole: true, Shared: true}}, true)
	want("in both forms", "GPU-a!whole MIG-x MIG-y")
	set("GPU-a", false) // equal to the flags: no request remains
	set("GPU-b", true)
	if len(f.saved.Requested) != 2 {
		t.Errorf("the requests are %v, want one for each of the two MIG devices", f.saved.Requested)
	}
	for uuid, want := range map[string]error{"GPU-z": ErrUnknownDevice} {
		if err := f.RequestMode(uuid, true); !errors.Is(err, want) {
			t.Errorf("%s: got %v", uuid, err)
		}
	}
}

// The file of release 0.1.0 has the requests under another name.
func TestModesOfEarlierRelease(t *testing.T) {
	dir := t.TempDir()
	old := `{"asked":{"GPU-a":true},"shared":{"GPU-a":false,"GPU-b":true}}`
	if err := os.WriteFile(filepath.Join(dir, stateFileName), []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	f := open(t, config(dir, "GPU-b"))
	if got, want := shared(f), "GPU-a!whole GPU-b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	settle(t, f, nil, true)
	if got, want := shared(open(t, config(dir, "GPU-b"))), "GPU-a GPU-b"; got != want {
		t.Errorf("once idle and after a restart: got %q, want %q", got, want)
	}
}

// If the agent's flags set the modes, nothing changes them at run time, and the file is
// ignored.
func TestStaticModes(t *testing.T) {
	dir := t.TempDir()
	if err := open(t, config(dir, "")).RequestMode("GPU-a", true); err != nil {
		t.Fatal(err)
	}
	cfg := config(dir, "GPU-b")
	cfg.Live = false
	f := open(t, cfg)
	if err := f.RequestMode("GPU-a", true); !errors.Is(err, ErrStatic) {
		t.Errorf("got %v", err)
	}
	settle(t, f, map[string]DeviceUse{"GPU-b": {Whole: true}}, true)
	if got := shared(f); got != "GPU-b" {
		t.Errorf("got %q", got)
	}
}

// A change that cannot be saved is rejected.
func TestModesWithFullDisk(t *testing.T) {
	dir := t.TempDir()
	f := open(t, config(dir, ""))
	f.cfg.StateDir = filepath.Join(dir, "gone")
	if err := f.RequestMode("GPU-a", true); err == nil || shared(f) != "" {
		t.Errorf("got %v and %q", err, shared(f))
	}
	for content, want := range map[string]string{
		"{":                  "with 1 bytes is malformed (unexpected end of JSON input): remove it to start with --share",
		`{"requested":null}`: "with 18 bytes is malformed (requested or shared is null): remove it to start with --share",
	} {
		if err := os.WriteFile(filepath.Join(dir, stateFileName), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenModes(config(dir, "")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("file %s: got %v, want %q", content, err, want)
		}
	}
}

// fakeLimiter supports only the given devices.
type fakeLimiter struct {
	NoLimiter
	method  gpu.EnforcementMethod
	devices string
}

func (c fakeLimiter) Method() gpu.EnforcementMethod { return c.method }

func (c fakeLimiter) CheckDevice(_ context.Context, d gpu.Device) error {
	if !strings.Contains(c.devices, d.UUID) {
		return errors.New("not this one")
	}
	return nil
}

func TestChooseLimiter(t *testing.T) {
	limiters := []Limiter{
		NoLimiter{}, fakeLimiter{method: gpu.EnforcedByPreload, devices: "GPU-a GPU-b"},
		fakeLimiter{method: gpu.EnforcedByMPS, devices: "GPU-a"}, NewMIGLimiter(),
	}
	devices := host().Devices
	for _, c := range []struct {
		method  string
		devices []gpu.Device
		want    gpu.EnforcementMethod
		err     string
	}{
		{AutoMethod, devices[:1], gpu.EnforcedByMPS, ""},
		{AutoMethod, devices[:2], gpu.EnforcedByPreload, ""},
		{AutoMethod, devices[2:], gpu.EnforcedByMIG, ""},
		{AutoMethod, devices, gpu.NotEnforced, ""},
		{"preload", devices[:1], gpu.EnforcedByPreload, ""},
		{"none", devices[:1], gpu.NotEnforced, ""},
		{"mps", devices[:2], "", "mps: device GPU-b: not this one"},
		{"mig", devices[2:], gpu.EnforcedByMIG, ""},
		{"driver", devices[:1], "", `unknown share limit "driver": use auto or one of [mig mps preload none]`},
	} {
		got, err := ChooseLimiter(t.Context(), c.method, limiters, c.devices)
		switch {
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%s of %d devices: got %v, want %q", c.method, len(c.devices), err, c.err)
		case c.err == "" && (err != nil || got.Method() != c.want):
			t.Errorf("%s of %d devices: got %v, %v; want %s", c.method, len(c.devices), got, err, c.want)
		}
	}
}

// A MIG device accepts one container.
func TestMIGLimiter(t *testing.T) {
	m := NewMIGLimiter()
	shares := []gpu.DeviceShare{{UUID: "MIG-x", MemMiB: 1}}
	for range 2 {
		if _, err := m.AdmitContainer(t.Context(), "a", shares); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.AdmitContainer(t.Context(), "b", shares); err == nil || !strings.Contains(err.Error(), "container a has MIG device MIG-x") {
		t.Errorf("got %v", err)
	}
	if used, _ := m.ReadUsage("a"); len(used) != 1 || used[0].MemLimitBytes != 1<<20 {
		t.Errorf("usage %+v", used)
	}
	if err := m.ReleaseContainer(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.AdmitContainer(t.Context(), "b", shares); err != nil {
		t.Error(err)
	}
}
