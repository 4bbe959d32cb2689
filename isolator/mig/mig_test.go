package mig

import (
	"errors"
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
	"mesos-gpu/isolator/layout"
	"mesos-gpu/isolator/layout/layouttest"
)

const a100 = "GPU-a100"

// card is a driver with one A100 in MIG mode, which keeps to NVIDIA's rules.
type card struct {
	has  []layout.Instance
	busy string // the profile that a process uses
	full string // the profile that it makes none of
	// left counts the changes that it makes before it dies; below 0 it lives.
	left int
	dead bool
}

var errDead = errors.New("dead")

func (c *card) Cuttable() ([]gpu.Device, error) {
	return []gpu.Device{{UUID: a100, Model: "A100", Minor: 3, MemMiB: 40960}}, nil
}
func (c *card) Profiles(string) ([]layout.Profile, error) { return layouttest.A100(), nil }
func (c *card) Instances(string) ([]layout.Instance, error) {
	if c.dead {
		return nil, errDead
	}
	return slices.Clone(c.has), nil
}

func (c *card) alive() error {
	if c.dead = c.left == 0; c.dead {
		return errDead
	}
	c.left--
	return nil
}

func (c *card) Create(_ string, i layout.Instance) error {
	if err := c.alive(); err != nil {
		return err
	}
	if slices.Contains(c.has, i) {
		return nil
	}
	if slices.ContainsFunc(c.has, i.Overlaps) || i.Profile == c.full {
		return errors.New("no room")
	}
	c.has = append(c.has, i)
	return nil
}

func (c *card) Destroy(_ string, i layout.Instance) error {
	if err := c.alive(); err != nil {
		return err
	}
	if i.Profile == c.busy {
		return errors.New("in use by another client")
	}
	c.has = slices.DeleteFunc(c.has, func(o layout.Instance) bool { return o == i })
	return nil
}

// text reads "1g.5gb at 0, 3g.20gb at 4".
func (c *card) text() string {
	var list []string
	for _, i := range c.has {
		list = append(list, i.String())
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func quiet() logrus.FieldLogger {
	log, _ := logtest.NewNullLogger()
	return log
}

func opened(t *testing.T, d Driver, dir, boot string) *Cutter {
	t.Helper()
	c, err := Open(Config{Driver: d, List: "3", StateDir: dir, Boot: boot, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func always(string) bool { return true }
func never(string) bool  { return false }

func ask(t *testing.T, c *Cutter, text string) (pending bool) {
	t.Helper()
	names, err := layout.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	pending, err = c.Ask(a100, names)
	if err != nil {
		t.Fatal(err)
	}
	return pending
}

// A GPU is cut as was asked for; what has to end for that waits until the GPU is
// idle; the next daemon knows its own instances and leaves them.
func TestCut(t *testing.T) {
	card, dir := &card{left: -1}, t.TempDir()
	c := opened(t, card, dir, "b")
	if c.Waiting() {
		t.Error("a GPU of which nothing was asked is to be cut")
	}
	if !ask(t, c, "2x3g.20gb") || !c.Waiting() {
		t.Error("a layout that was asked for is not pending")
	}
	<-c.Changed()
	c.Apply(never) // nothing has to end
	if got, want := card.text(), "3g.20gb at 0, 3g.20gb at 4"; got != want {
		t.Fatalf("cut into %s, want %s", got, want)
	}
	if ask(t, c, "2x3g.20gb") || c.Waiting() {
		t.Error("a layout that stands is pending")
	}
	ask(t, c, "3g.20gb,2g.10gb,1g.5gb")
	if c.Apply(never); card.text() != "3g.20gb at 0, 3g.20gb at 4" || c.Due(never) != nil {
		t.Errorf("a GPU in use is cut into %s", card.text())
	}
	c = opened(t, card, dir, "b")
	if got := c.Due(always); !slices.Equal(got, []string{a100}) {
		t.Errorf("after a restart due are %v", got)
	}
	c.Apply(always)
	want := []GPU{{
		UUID: a100, Model: "A100", Minor: 3, MemMiB: 40960, Layout: []string{"3g.20gb", "2g.10gb", "1g.5gb"}, Profiles: layouttest.A100(),
		Instances: []Instance{
			{layout.Instance{Profile: "3g.20gb", Start: 0, Size: 4}, true}, {layout.Instance{Profile: "2g.10gb", Start: 4, Size: 2}, true},
			{layout.Instance{Profile: "1g.5gb", Start: 6, Size: 1}, true},
		},
	}}
	got, err := opened(t, card, dir, "b").GPUs()
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// What others made stays, whatever is asked for, and is said to be theirs.
func TestOthersStay(t *testing.T) {
	other := layout.Instance{Profile: "1g.5gb", Start: 5, Size: 1}
	card := &card{left: -1, has: []layout.Instance{other}}
	c := opened(t, card, t.TempDir(), "b")
	for text, want := range map[string]string{
		"7g.40gb": "does not fit on the GPU beside what others made: 1g.5gb at 5", "3g.40gb": `"3g.40gb" is none of this GPU's`,
	} {
		if _, err := c.Ask(a100, []string{text}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"4g.20gb", "3g.20gb", "4x1g.5gb"} {
		ask(t, c, text)
		c.Apply(always)
		if !slices.Contains(card.has, other) {
			t.Fatalf("%s ended what another made: %s", text, card.text())
		}
	}
	if got, want := card.text(), "1g.5gb at 0, 1g.5gb at 1, 1g.5gb at 2, 1g.5gb at 3, 1g.5gb at 5"; got != want {
		t.Errorf("cut into %s, want %s", got, want)
	}
	if _, err := c.Ask("GPU-other", []string{"1g.5gb"}); !errors.Is(err, ErrUnknown) {
		t.Errorf("of no GPU: %v", err)
	}
	if _, err := c.Ask(a100, nil); !errors.Is(err, ErrRefused) {
		t.Errorf("of nothing: %v", err)
	}
}

// Wherever the daemon dies, the next one gets the GPU to what was asked for, and
// what another made stays.
func TestDiesAnywhere(t *testing.T) {
	other := layout.Instance{Profile: "1g.5gb", Start: 6, Size: 1}
	for left := range 8 {
		card, dir := &card{left: -1, has: []layout.Instance{other}}, t.TempDir()
		c := opened(t, card, dir, "b")
		ask(t, c, "3x2g.10gb")
		c.Apply(always)
		ask(t, c, "3g.20gb,2x1g.5gb")
		card.left = left
		c.Apply(always)
		card.left, card.dead = -1, false
		next := opened(t, card, dir, "b")
		next.Apply(always)
		if got, want := card.text(), "1g.5gb at 4, 1g.5gb at 5, 1g.5gb at 6, 3g.20gb at 0"; got != want {
			t.Errorf("after %d changes: cut into %s, want %s", left, got, want)
		}
		list, err := next.GPUs()
		if err != nil || list[0].Pending || slices.Contains(list[0].Instances, Instance{other, true}) {
			t.Errorf("after %d changes: %+v, %v", left, list, err)
		}
	}
}

// What could not be made is not taken for one's own when another makes it, or
// made it while the daemon was away.
func TestMadeByAnotherSince(t *testing.T) {
	half := layout.Instance{Profile: "3g.20gb", Start: 0, Size: 4}
	card, dir := &card{left: -1, full: "3g.20gb"}, t.TempDir()
	c := opened(t, card, dir, "b")
	ask(t, c, "3g.20gb")
	c.Apply(always)
	card.has = append(card.has, half)
	for range 2 {
		list, err := c.GPUs()
		if err != nil || len(list[0].Instances) != 1 || list[0].Instances[0].Ours || !list[0].Pending {
			t.Errorf("got %+v, %v", list, err)
		}
		c = opened(t, card, dir, "b")
	}
}

// A boot ends all instances: they are made again, and what another has put in
// their place since is not taken for one's own.
func TestBoot(t *testing.T) {
	card, dir := &card{left: -1}, t.TempDir()
	c := opened(t, card, dir, "b")
	ask(t, c, "3g.20gb")
	c.Apply(always)
	card.has = nil
	c = opened(t, card, dir, "c")
	if c.Apply(never); card.text() != "3g.20gb at 0" {
		t.Errorf("after a boot cut into %q", card.text())
	}
	c = opened(t, card, dir, "d") // and now another has made it
	if c.Apply(always); card.text() != "3g.20gb at 0, 3g.20gb at 4" {
		t.Errorf("beside another's cut into %q", card.text())
	}
}

// A GPU that the driver does not let be cut says why, and is left alone for a
// while that grows; whoever asks again has it tried at once.
func TestDriverRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		card := &card{left: -1}
		c := opened(t, card, t.TempDir(), "b")
		ask(t, c, "3g.20gb")
		c.Apply(always)
		card.busy = "3g.20gb"
		ask(t, c, "7g.40gb")
		for _, pause := range []time.Duration{firstPause, 2 * firstPause, 4 * firstPause} {
			c.Apply(always)
			list, err := c.GPUs()
			if err != nil || !list[0].Pending || list[0].Reason != "in use by another client" {
				t.Errorf("got %+v, %v", list, err)
			}
			time.Sleep(pause - 1)
			if c.Waiting() {
				t.Fatalf("tried again within %s", pause)
			}
			time.Sleep(time.Nanosecond)
			if !c.Waiting() {
				t.Fatalf("not tried again after %s", pause)
			}
		}
		c.Apply(always)
		ask(t, c, "7g.40gb")
		card.busy = ""
		if c.Apply(always); card.text() != "7g.40gb at 0" {
			t.Errorf("cut into %s", card.text())
		}
		if list, err := c.GPUs(); err != nil || list[0].Pending || list[0].Reason != "" {
			t.Errorf("got %+v, %v", list, err)
		}
	})
}

// What the flags say holds until somebody asks for another.
func TestStandard(t *testing.T) {
	card, dir := &card{left: -1}, t.TempDir()
	cfg := Config{Driver: card, List: All, Layout: "2x3g.20gb", StateDir: dir, Log: quiet()}
	for _, text := range []string{"", "7g.40gb"} {
		c, err := Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if text != "" {
			ask(t, c, text)
		}
		c.Apply(always)
	}
	if got := card.text(); got != "7g.40gb at 0" {
		t.Errorf("cut into %s", got)
	}
}

func TestOpenErrors(t *testing.T) {
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, fileName), []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, cfg := range map[string]Config{
		`GPUs that may be cut "4": "4" names none of this host's 1 GPUs in MIG mode`: {Driver: &card{}, List: "4"},
		`"GPU-x" names none`:                   {Driver: &card{}, List: "3,GPU-x"},
		"they are made up":                     {List: All},
		"no GPU that may be cut":               {Driver: &card{}, List: None, Layout: "1g.5gb"},
		"want 1 to 16 profiles":                {Driver: &card{}, List: All, Layout: "0x1g.5gb"},
		"holds 2 bytes that say nothing of it": {Driver: &card{}, List: All, StateDir: broken},
	} {
		if _, err := Open(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if c, err := Open(Config{List: None}); err != nil || c.Waiting() || c.May(a100) {
		t.Errorf("with none: %v", err)
	}
}

// Where what was asked for cannot be kept it does not count.
func TestDiskRefuses(t *testing.T) {
	card := &card{left: -1}
	c := opened(t, card, filepath.Join(t.TempDir(), "none"), "b")
	if _, err := c.Ask(a100, []string{"1g.5gb"}); err == nil || !strings.Contains(err.Error(), "keep how GPUs are cut") {
		t.Errorf("got %v", err)
	}
	if c.Apply(always); card.has != nil || c.Waiting() {
		t.Errorf("cut into %s", card.text())
	}
}

func TestStanding(t *testing.T) {
	slice := gpu.Device{UUID: "MIG-1", MIG: &gpu.MIG{Parent: "GPU-cut"}}
	h := gpu.Host{Devices: []gpu.Device{{UUID: "GPU-whole"}, slice}}
	got := Standing(h, []gpu.Device{{UUID: "GPU-cut"}, {UUID: "GPU-uncut", Minor: 7}})
	want := append(slices.Clone(h.Devices), gpu.Device{UUID: "GPU-uncut", Minor: 7, MIG: &gpu.MIG{Parent: "GPU-uncut"}})
	if diff := cmp.Diff(want, got.Devices); diff != "" || len(h.Devices) != 2 {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
