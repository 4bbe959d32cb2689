package preload

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/limiter"
	"mesos-gpu/isolator/share"
)

const (
	first  = "GPU-5e7f0000-0000-4000-8000-000000000001"
	second = "GPU-5e7f0000-0000-4000-8000-000000000002"
)

func newTestLimiter(t *testing.T) *LibraryLimiter {
	library := filepath.Join(t.TempDir(), "libmesosgpu.so")
	if err := os.WriteFile(library, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return New(LibraryLimiterConfig{Dir: t.TempDir(), Library: library})
}

// mountSource returns the host's file that is mounted at target, and whether the mount is
// read-only.
func mountSource(t *testing.T, s share.LimitSetup, target string) (path string, readOnly bool) {
	t.Helper()
	for _, m := range s.Mounts {
		if m.Target == target {
			return m.Source, m.ReadOnly
		}
	}
	t.Fatalf("nothing at %s in %+v", target, s.Mounts)
	return "", false
}

// A container gets the library, a read-only limits file and a writable usage file. A
// repeated admission, even by another process, returns the same files.
func TestAdmitWritesFiles(t *testing.T) {
	p := newTestLimiter(t)
	shares := []gpu.DeviceShare{{UUID: first, MemMiB: 4096, Cores: 30}, {UUID: second, MemMiB: 1}}
	s, err := p.AdmitContainer(t.Context(), "c", shares)
	if err != nil {
		t.Fatal(err)
	}
	limits, fixed := mountSource(t, s, limiter.LimitsPath)
	books, shut := mountSource(t, s, limiter.UsagePath)
	preloaded, _ := mountSource(t, s, "/etc/ld.so.preload")
	if text, err := os.ReadFile(preloaded); err != nil || string(text) != "/run/mesos-gpu/libmesosgpu.so\n" || !fixed || shut {
		t.Errorf("preloaded %q, limits read-only %v, usage file %v: %v", text, fixed, shut, err)
	}
	text, err := os.ReadFile(limits)
	if err != nil {
		t.Fatal(err)
	}
	l, err := limiter.ParseLimits(text)
	want := []limiter.DeviceLimit{{UUID: first, MemoryBytes: 4 << 30, CoresPercent: 30}, {UUID: second, MemoryBytes: 1 << 20, CoresPercent: 100}}
	if diff := cmp.Diff(want, l.Devices); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	before, err := os.Stat(books)
	if err != nil {
		t.Fatal(err)
	}
	again, err := New(p.cfg).AdmitContainer(t.Context(), "c", shares)
	if diff := cmp.Diff(s, again); err != nil || diff != "" {
		t.Errorf("again: %v (-want +got):\n%s", err, diff)
	}
	if after, err := os.Stat(books); err != nil || !os.SameFile(before, after) {
		t.Errorf("its usage file is another one: %v", err)
	}
	used, err := p.ReadUsage("c")
	if diff := cmp.Diff([]share.ShareUsage{
		{UUID: first, MemLimitBytes: 4 << 30, Cores: 30, Measured: true}, {UUID: second, MemLimitBytes: 1 << 20, Measured: true},
	}, used); err != nil || diff != "" {
		t.Errorf("usage: %v (-want +got):\n%s", err, diff)
	}
}

func TestReleaseRemovesFiles(t *testing.T) {
	p := newTestLimiter(t)
	if _, err := p.AdmitContainer(t.Context(), "c", []gpu.DeviceShare{{UUID: first, MemMiB: 1}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := p.ReleaseContainer(t.Context(), "c"); err != nil {
			t.Error(err)
		}
	}
	left, _ := os.ReadDir(p.cfg.Dir)
	if used, err := p.ReadUsage("c"); err != nil || used != nil || len(left) != 0 {
		t.Errorf("left are %v, usage %v: %v", left, used, err)
	}
}

// Without the library every admission fails.
func TestMissingLibrary(t *testing.T) {
	p := newTestLimiter(t)
	if err := os.Remove(p.cfg.Library); err != nil {
		t.Fatal(err)
	}
	if _, err := p.AdmitContainer(t.Context(), "c", []gpu.DeviceShare{{UUID: first, MemMiB: 1}}); err == nil ||
		!strings.Contains(err.Error(), "no library at "+p.cfg.Library) {
		t.Errorf("got %v", err)
	}
	p = newTestLimiter(t)
	p.cfg.Simulated = true
	if err := p.CheckDevice(t.Context(), gpu.Device{}); err == nil || !strings.Contains(err.Error(), "simulated") {
		t.Errorf("got %v", err)
	}
}
