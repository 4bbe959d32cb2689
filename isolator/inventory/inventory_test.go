package inventory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
)

func TestDevicesAreRemembered(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if devices, err := ReadDevices(dir); err != nil || devices != nil {
		t.Fatalf("without a file: %v, %v", devices, err)
	}
	want := []gpu.Device{{UUID: "GPU-1", Model: "NVIDIA A100", NVLinks: map[string]int{"GPU-2": 4}}, {UUID: "GPU-2", MIG: &gpu.MIG{Parent: "GPU-3"}}}
	if err := SaveDevices(dir, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadDevices(dir)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	path := filepath.Join(dir, FileName)
	if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadDevices(dir); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "remove it") {
		t.Errorf("a damaged file: %v", err)
	}
}

// Flags are kept for the same options, hardware and boot, in any order of the devices.
func TestFlagsAreKept(t *testing.T) {
	dir := t.TempDir()
	same := Hardware{Boot: "b1", Driver: "580", CUDA: "13.0", UUIDs: []string{"GPU-1", "GPU-2"}}
	keep := func(options string, h Hardware, now string) string {
		t.Helper()
		f, err := KeepFlags(dir, options, h, AgentFlags{now, now})
		if err != nil || f.Resources != f.Attributes {
			t.Fatalf("%v, %v", f, err)
		}
		return f.Attributes
	}
	change := func(f func(*Hardware)) Hardware {
		h := same
		f(&h)
		return h
	}
	for _, c := range []struct {
		options   string
		h         Hardware
		now, want string
	}{
		{"", same, "a", "a"},
		{"", same, "b", "a"},
		{"", change(func(h *Hardware) { h.UUIDs = []string{"GPU-2", "GPU-1"} }), "c", "a"},
		{"--share=all", same, "d", "d"},
		{"", same, "e", "a"},
		{"", change(func(h *Hardware) { h.UUIDs = []string{"GPU-1"} }), "f", "f"},
		{"", change(func(h *Hardware) { h.Driver = "581" }), "g", "g"},
		{"", change(func(h *Hardware) { h.CUDA = "13.1" }), "h", "h"},
		{"--share=all", same, "i", "d"},
		{"", change(func(h *Hardware) { h.Boot = "b2" }), "j", "j"},
		{"--share=all", same, "k", "k"},
	} {
		if got := keep(c.options, c.h, c.now); got != c.want {
			t.Errorf("%q %v: got %s, want %s", c.options, c.h, got, c.want)
		}
	}
	if os.Getuid() == 0 {
		dir = "/proc/none"
	} else {
		dir = "/none"
	}
	if f, err := KeepFlags(dir, "", same, AgentFlags{"x", "x"}); err == nil || f.Resources != "x" {
		t.Errorf("a folder that cannot be written: %v, %v", f, err)
	}
}
