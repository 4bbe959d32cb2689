package limiter

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// The Go and C descriptions of the layout are equal.
func TestUsageFileLayoutMatchesC(t *testing.T) {
	got, err := exec.Command(filepath.Join(requireBuilt(t), "layout")).Output()
	if err != nil {
		t.Fatal(err)
	}
	var b usageFile
	want := fmt.Sprintf("%d %d %d %d %d\n", usageFileBytes, unsafe.Offsetof(b.Device), unsafe.Sizeof(b.Device[0]),
		unsafe.Offsetof(b.Slot), unsafe.Sizeof(b.Slot[0])) +
		fmt.Sprintf("device.uuid %d\ndevice.limit %d\ndevice.throttled_ns %d\ndevice.context_bytes %d\ndevice.refusals "+
			"%d\ndevice.no_samples %d\ndevice.checksum %d\n",
			unsafe.Offsetof(b.Device[0].UUID), unsafe.Offsetof(b.Device[0].Limit), unsafe.Offsetof(b.Device[0].ThrottledNs),
			unsafe.Offsetof(b.Device[0].ContextBytes), unsafe.Offsetof(b.Device[0].Refusals),
			unsafe.Offsetof(b.Device[0].NoSamples), unsafe.Offsetof(b.Device[0].Checksum)) +
		fmt.Sprintf("slot.pid %d\nslot.nvml_pid %d\nslot.started %d\nslot.pid_ns %d\nslot.checksum %d\nslot.used %d\n",
			unsafe.Offsetof(b.Slot[0].PID), unsafe.Offsetof(b.Slot[0].NVMLPID), unsafe.Offsetof(b.Slot[0].Started),
			unsafe.Offsetof(b.Slot[0].PIDNamespace), unsafe.Offsetof(b.Slot[0].Checksum), unsafe.Offsetof(b.Slot[0].Used)) +
		fmt.Sprintf("lock %d %d\n", lockAt, lockSlot)
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("layout (-Go +C):\n%s", diff)
	}
}

// The library's paths are those that the isolator mounts.
func TestPathsMatchC(t *testing.T) {
	edge, err := os.ReadFile("src/platform.c")
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"limits": LimitsPath, "usage": UsagePath, "shared": LibraryPath} {
		if want := fmt.Sprintf("const char %s_path[] = %q;", name, path); !strings.Contains(string(edge), want) {
			t.Errorf("no line %q in src/platform.c", want)
		}
	}
}

func TestLimitsAreReadAsWritten(t *testing.T) {
	want := ContainerLimits{Nonce: 0xfedcba9876543210, Devices: []DeviceLimit{
		{UUID: deviceOne, MemoryBytes: 1 << 40, CoresPercent: 30, Burst: true, Oversubscribe: true},
		{UUID: "MIG-01020304-0506-0708-090a-0b0c0d0e0fff", MemoryBytes: 1, CoresPercent: 100},
	}}
	path := filepath.Join(t.TempDir(), "limits")
	if err := WriteLimits(path, want); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseLimits(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o444 {
		t.Errorf("got mode %v, %v; want 0444", info.Mode(), err)
	}
}

func TestWriteLimitsRejectsInvalid(t *testing.T) {
	good := newLimits(1, 1).Devices[0]
	bad := map[string]ContainerLimits{
		"no device":    {Nonce: 1},
		"two the same": {Devices: []DeviceLimit{good, good}},
		"no memory":    {Devices: []DeviceLimit{{UUID: deviceOne, CoresPercent: 1}}},
		"no cores":     {Devices: []DeviceLimit{{UUID: deviceOne, MemoryBytes: 1}}},
		"two lines":    {Devices: []DeviceLimit{{UUID: deviceOne + " memory=9 cores=9\ndevice " + deviceTwo, MemoryBytes: 1, CoresPercent: 1}}},
	}
	for name, l := range bad {
		path := filepath.Join(t.TempDir(), "f")
		if err := WriteLimits(path, l); err == nil {
			t.Errorf("%s: limits were written", name)
		}
		if err := CreateUsageFile(path, l); err == nil {
			t.Errorf("%s: a usage file was made", name)
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s: a file is left: %v", name, err)
		}
	}
}

func TestReadUsageFile(t *testing.T) {
	c := newContainer(t, newMachineFile(t, 1024*mib, 0, 0), newLimits(512*mib, 100))
	want := []ContainerUsage{{UUID: deviceOne, LimitBytes: 512 * mib}}
	got, err := ReadUsageFile(c.path("books"), c.limits)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("fresh: %v (-want +got):\n%s", err, diff)
	}
	p := c.start("proc")
	p.must(0, "ctx 0")
	p.must(1, "alloc 1000")
	p.want(outOfMemory, 2, "alloc %d", 512*mib)
	want[0].UsedBytes, want[0].ContextBytes, want[0].Refusals = ctxBytes+1000, ctxBytes, 1
	want[0].Processes = []ProcessUsage{{PID: p.cmd.Process.Pid, UsedBytes: ctxBytes + 1000}}
	got, err = ReadUsageFile(c.path("books"), c.limits)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("in use: %v (-want +got):\n%s", err, diff)
	}
	other := c.limits
	other.Nonce++
	if _, err := ReadUsageFile(c.path("books"), other); !errors.Is(err, ErrDamaged) {
		t.Errorf("another container's: got %v, want ErrDamaged", err)
	}
}

// A parsed limits file formats to the same text.
func FuzzParseLimits(f *testing.F) {
	l := newLimits(1<<30, 30)
	l.Devices[0].Burst = true
	text, err := l.marshalText()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("mesos-gpu-limits 1\nbooks 0000000000000000\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := ParseLimits(text)
		if err != nil {
			return
		}
		again, err := l.marshalText()
		if err != nil {
			t.Fatalf("%q was read, and cannot be written: %v", text, err)
		}
		back, err := ParseLimits(again)
		if diff := cmp.Diff(l, back); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", text, err, diff)
		}
	})
}

// For any content, reading returns figures or ErrDamaged.
func FuzzParseBooks(f *testing.F) {
	l := newLimits(1<<30, 30)
	path := filepath.Join(f.TempDir(), "books")
	if err := CreateUsageFile(path, l); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(0, []byte("MGBOOKS1"))
	f.Add(slotsAt, []byte{1, 0, 0, 0})
	f.Add(len(whole)-1, []byte{1, 2})
	f.Fuzz(func(t *testing.T, at int, patch []byte) {
		data := append([]byte(nil), whole...)
		if at >= 0 && at <= len(data) {
			data = append(data[:at], append(patch, data[min(at+len(patch), len(data)):]...)...)
		}
		uses, err := parseUsageFile(data, l, func(int) bool { return true })
		if err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("got %v", err)
		}
		if err == nil && (len(uses) != 1 || uses[0].LimitBytes != 1<<30) {
			t.Errorf("got %+v", uses)
		}
	})
}
