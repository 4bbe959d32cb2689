package mig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/layouttest"
	"mesos-gpu/isolator/layout"
)

const a100 = "GPU-a100"

// fakeDriver is a driver with one A100 in MIG mode that enforces NVIDIA's rules.
type fakeDriver struct {
	has  []layout.GPUInstance
	busy string // profile of the instance that a process uses
	full string // profile that cannot be created
	// left is the number of changes before the simulated crash; negative: no crash.
	left int
	dead bool
}

var errDead = errors.New("dead")

func (c *fakeDriver) ListMIGGPUs() ([]gpu.Device, error) {
	return []gpu.Device{{UUID: a100, Model: "A100", Minor: 3, MemMiB: 40960}}, nil
}
func (c *fakeDriver) ListProfiles(string) ([]layout.InstanceProfile, error) {
	return layouttest.A100(), nil
}
func (c *fakeDriver) ListInstances(string) ([]layout.GPUInstance, error) {
	if c.dead {
		return nil, errDead
	}
	return slices.Clone(c.has), nil
}

func (c *fakeDriver) checkAlive() error {
	if c.dead = c.left == 0; c.dead {
		return errDead
	}
	c.left--
	return nil
}

func (c *fakeDriver) CreateInstance(_ string, i layout.GPUInstance) error {
	if err := c.checkAlive(); err != nil {
		return err
	}
	if slices.Contains(c.has, i) {
		return nil
	}
	if slices.ContainsFunc(c.has, i.OverlapsWith) || i.Profile == c.full {
		return errors.New("no room")
	}
	c.has = append(c.has, i)
	return nil
}

func (c *fakeDriver) DestroyInstance(_ string, i layout.GPUInstance) error {
	if err := c.checkAlive(); err != nil {
		return err
	}
	if i.Profile == c.busy {
		return errors.New("in use by another client")
	}
	c.has = slices.DeleteFunc(c.has, func(o layout.GPUInstance) bool { return o == i })
	return nil
}

// describeLayout returns the layout as "1g.5gb at 0, 3g.20gb at 4".
func (c *fakeDriver) describeLayout() string {
	var list []string
	for _, i := range c.has {
		list = append(list, i.String())
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func silentLog() logrus.FieldLogger {
	log, _ := logtest.NewNullLogger()
	return log
}

func mustOpen(t *testing.T, d InstanceDriver, dir, boot string) *Partitioner {
	t.Helper()
	c, err := Open(PartitionerConfig{Driver: d, List: "3", StateDir: dir, BootID: boot, Log: silentLog()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func allIdle(string) bool  { return true }
func noneIdle(string) bool { return false }

func mustRequest(t *testing.T, c *Partitioner, text string) (pending bool) {
	t.Helper()
	names, err := layout.ParseLayout(text)
	if err != nil {
		t.Fatal(err)
	}
	pending, err = c.RequestLayout(a100, names)
	if err != nil {
		t.Fatal(err)
	}
	return pending
}

// A GPU is partitioned as requested. Instances are destroyed only while the GPU is idle.
// After a restart the daemon recognizes its own instances and keeps them.
func TestApplyLayouts(t *testing.T) {
	card, dir := &fakeDriver{left: -1}, t.TempDir()
	c := mustOpen(t, card, dir, "b")
	if c.HasPending() {
		t.Error("a GPU without a requested layout is pending")
	}
	if !mustRequest(t, c, "2x3g.20gb") || !c.HasPending() {
		t.Error("a requested layout is not pending")
	}
	<-c.LayoutRequested()
	c.ApplyLayouts(noneIdle) // no instance has to be destroyed
	if got, want := card.describeLayout(), "3g.20gb at 0, 3g.20gb at 4"; got != want {
		t.Fatalf("cut into %s, want %s", got, want)
	}
	if mustRequest(t, c, "2x3g.20gb") || c.HasPending() {
		t.Error("a layout that stands is pending")
	}
	mustRequest(t, c, "3g.20gb,2g.10gb,1g.5gb")
	if c.ApplyLayouts(noneIdle); card.describeLayout() != "3g.20gb at 0, 3g.20gb at 4" || c.ListDue(noneIdle) != nil {
		t.Errorf("a GPU in use is cut into %s", card.describeLayout())
	}
	c = mustOpen(t, card, dir, "b")
	if got := c.ListDue(allIdle); !slices.Equal(got, []string{a100}) {
		t.Errorf("after a restart due are %v", got)
	}
	c.ApplyLayouts(allIdle)
	want := []PartitionedGPU{{
		UUID: a100, Model: "A100", Minor: 3, MemMiB: 40960, Layout: []string{"3g.20gb", "2g.10gb", "1g.5gb"}, Profiles: layouttest.A100(),
		Instances: []InstanceStatus{
			{layout.GPUInstance{Profile: "3g.20gb", Start: 0, Size: 4}, true}, {layout.GPUInstance{Profile: "2g.10gb", Start: 4, Size: 2}, true},
			{layout.GPUInstance{Profile: "1g.5gb", Start: 6, Size: 1}, true},
		},
	}}
	got, err := mustOpen(t, card, dir, "b").ListGPUs()
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// Instances of other programs are kept for any request, and are reported as foreign.
func TestForeignInstancesAreKept(t *testing.T) {
	other := layout.GPUInstance{Profile: "1g.5gb", Start: 5, Size: 1}
	card := &fakeDriver{left: -1, has: []layout.GPUInstance{other}}
	c := mustOpen(t, card, t.TempDir(), "b")
	for text, want := range map[string]string{
		"7g.40gb": "does not fit on the GPU in addition to the instances that stay: 1g.5gb at 5", "3g.40gb": `no MIG profile "3g.40gb"`,
	} {
		if _, err := c.RequestLayout(a100, []string{text}); !errors.Is(err, ErrLayoutRejected) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"4g.20gb", "3g.20gb", "4x1g.5gb"} {
		mustRequest(t, c, text)
		c.ApplyLayouts(allIdle)
		if !slices.Contains(card.has, other) {
			t.Fatalf("%s ended what another made: %s", text, card.describeLayout())
		}
	}
	if got, want := card.describeLayout(), "1g.5gb at 0, 1g.5gb at 1, 1g.5gb at 2, 1g.5gb at 3, 1g.5gb at 5"; got != want {
		t.Errorf("cut into %s, want %s", got, want)
	}
	if _, err := c.RequestLayout("GPU-other", []string{"1g.5gb"}); !errors.Is(err, ErrUnknownGPU) {
		t.Errorf("of no GPU: %v", err)
	}
	if _, err := c.RequestLayout(a100, nil); !errors.Is(err, ErrLayoutRejected) {
		t.Errorf("of nothing: %v", err)
	}
}

// After a crash at any point, the next daemon completes the requested layout and keeps
// foreign instances.
func TestCrashAtAnyPoint(t *testing.T) {
	other := layout.GPUInstance{Profile: "1g.5gb", Start: 6, Size: 1}
	for left := range 8 {
		card, dir := &fakeDriver{left: -1, has: []layout.GPUInstance{other}}, t.TempDir()
		c := mustOpen(t, card, dir, "b")
		mustRequest(t, c, "3x2g.10gb")
		c.ApplyLayouts(allIdle)
		mustRequest(t, c, "3g.20gb,2x1g.5gb")
		card.left = left
		c.ApplyLayouts(allIdle)
		card.left, card.dead = -1, false
		next := mustOpen(t, card, dir, "b")
		next.ApplyLayouts(allIdle)
		if got, want := card.describeLayout(), "1g.5gb at 4, 1g.5gb at 5, 1g.5gb at 6, 3g.20gb at 0"; got != want {
			t.Errorf("after %d changes: cut into %s, want %s", left, got, want)
		}
		list, err := next.ListGPUs()
		if err != nil || list[0].Pending || slices.Contains(list[0].Instances, InstanceStatus{other, true}) {
			t.Errorf("after %d changes: %+v, %v", left, list, err)
		}
	}
}

// If an instance could not be created and another program creates it, even while the
// daemon is down, it is foreign.
func TestForeignInstanceInFreedPlaceIsKept(t *testing.T) {
	half := layout.GPUInstance{Profile: "3g.20gb", Start: 0, Size: 4}
	card, dir := &fakeDriver{left: -1, full: "3g.20gb"}, t.TempDir()
	c := mustOpen(t, card, dir, "b")
	mustRequest(t, c, "3g.20gb")
	c.ApplyLayouts(allIdle)
	card.has = append(card.has, half)
	for range 2 {
		list, err := c.ListGPUs()
		if err != nil || len(list[0].Instances) != 1 || list[0].Instances[0].Ours || !list[0].Pending {
			t.Errorf("got %+v, %v", list, err)
		}
		c = mustOpen(t, card, dir, "b")
	}
}

// A reboot destroys all instances. They are created again, and instances that another
// program has created in their place are foreign.
func TestRebootForgetsOwnInstances(t *testing.T) {
	card, dir := &fakeDriver{left: -1}, t.TempDir()
	c := mustOpen(t, card, dir, "b")
	mustRequest(t, c, "3g.20gb")
	c.ApplyLayouts(allIdle)
	card.has = nil
	c = mustOpen(t, card, dir, "c")
	if c.ApplyLayouts(noneIdle); card.describeLayout() != "3g.20gb at 0" {
		t.Errorf("after a boot cut into %q", card.describeLayout())
	}
	c = mustOpen(t, card, dir, "d") // another program has created it meanwhile
	if c.ApplyLayouts(allIdle); card.describeLayout() != "3g.20gb at 0, 3g.20gb at 4" {
		t.Errorf("next to another's, partitioned into %q", card.describeLayout())
	}
}

// The file of release 0.1.0 has the requested layout under another name.
func TestLayoutOfEarlierRelease(t *testing.T) {
	card, dir := &fakeDriver{left: -1}, t.TempDir()
	old := fmt.Sprintf(`{"boot":"b","gpus":{%q:{"asked":["3g.20gb"]}}}`, a100)
	if err := os.WriteFile(filepath.Join(dir, stateFile), []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	c := mustOpen(t, card, dir, "b")
	if c.ApplyLayouts(allIdle); card.describeLayout() != "3g.20gb at 0" {
		t.Errorf("got the layout %q", card.describeLayout())
	}
}

// If the driver rejects a change, the reason is reported and the retry interval grows. A
// new request is tried immediately.
func TestDriverErrorsAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		card := &fakeDriver{left: -1}
		c := mustOpen(t, card, t.TempDir(), "b")
		mustRequest(t, c, "3g.20gb")
		c.ApplyLayouts(allIdle)
		card.busy = "3g.20gb"
		mustRequest(t, c, "7g.40gb")
		for _, pause := range []time.Duration{minRetryPause, 2 * minRetryPause, 4 * minRetryPause} {
			c.ApplyLayouts(allIdle)
			list, err := c.ListGPUs()
			if err != nil || !list[0].Pending || list[0].Reason != "in use by another client" {
				t.Errorf("got %+v, %v", list, err)
			}
			time.Sleep(pause - 1)
			if c.HasPending() {
				t.Fatalf("tried again within %s", pause)
			}
			time.Sleep(time.Nanosecond)
			if !c.HasPending() {
				t.Fatalf("not tried again after %s", pause)
			}
		}
		c.ApplyLayouts(allIdle)
		mustRequest(t, c, "7g.40gb")
		card.busy = ""
		if c.ApplyLayouts(allIdle); card.describeLayout() != "7g.40gb at 0" {
			t.Errorf("cut into %s", card.describeLayout())
		}
		if list, err := c.ListGPUs(); err != nil || list[0].Pending || list[0].Reason != "" {
			t.Errorf("got %+v, %v", list, err)
		}
	})
}

// The layout of the flags applies until a request changes it.
func TestDefaultLayout(t *testing.T) {
	card, dir := &fakeDriver{left: -1}, t.TempDir()
	cfg := PartitionerConfig{Driver: card, List: All, Layout: "2x3g.20gb", StateDir: dir, Log: silentLog()}
	for _, text := range []string{"", "7g.40gb"} {
		c, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if text != "" {
			mustRequest(t, c, text)
		}
		c.ApplyLayouts(allIdle)
	}
	if got := card.describeLayout(); got != "7g.40gb at 0" {
		t.Errorf("cut into %s", got)
	}
}

func TestOpenErrors(t *testing.T) {
	broken, empty := t.TempDir(), t.TempDir()
	for dir, content := range map[string]string{broken: "[]", empty: "{}"} {
		if err := os.WriteFile(filepath.Join(dir, stateFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for want, cfg := range map[string]PartitionerConfig{
		`GPUs to partition "4": "4" names none of this host's 1 GPUs in MIG mode`: {Driver: &fakeDriver{}, List: "4"},
		`"GPU-x" names none`:                                {Driver: &fakeDriver{}, List: "3,GPU-x"},
		"they are simulated":                                {List: All},
		"requires GPUs to partition":                        {Driver: &fakeDriver{}, List: None, Layout: "1g.5gb"},
		"want 1 to 16 profiles":                             {Driver: &fakeDriver{}, List: All, Layout: "0x1g.5gb"},
		"has 2 bytes of invalid content (json: ":            {Driver: &fakeDriver{}, List: All, StateDir: broken},
		"has 2 bytes of invalid content (gpus is missing):": {Driver: &fakeDriver{}, List: All, StateDir: empty},
	} {
		if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if c, err := Open(PartitionerConfig{List: None}); err != nil || c.HasPending() || c.CanPartition(a100) {
		t.Errorf("with none: %v", err)
	}
}

// A request that cannot be saved is rejected.
func TestDiskErrors(t *testing.T) {
	card := &fakeDriver{left: -1}
	c := mustOpen(t, card, filepath.Join(t.TempDir(), "none"), "b")
	if _, err := c.RequestLayout(a100, []string{"1g.5gb"}); err == nil || !strings.Contains(err.Error(), "save the state of MIG GPUs") {
		t.Errorf("got %v", err)
	}
	if c.ApplyLayouts(allIdle); card.has != nil || c.HasPending() {
		t.Errorf("cut into %s", card.describeLayout())
	}
}

func TestAddPlaceholders(t *testing.T) {
	slice := gpu.Device{UUID: "MIG-1", MIG: &gpu.MIG{Parent: "GPU-cut"}}
	h := gpu.Host{Devices: []gpu.Device{{UUID: "GPU-whole"}, slice}}
	got := AddPlaceholders(h, []gpu.Device{{UUID: "GPU-cut"}, {UUID: "GPU-uncut", Minor: 7}})
	want := append(slices.Clone(h.Devices), gpu.Device{UUID: "GPU-uncut", Minor: 7, MIG: &gpu.MIG{Parent: "GPU-uncut"}})
	if diff := cmp.Diff(want, got.Devices); diff != "" || len(h.Devices) != 2 {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
