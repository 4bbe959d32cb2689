package ledger

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Four devices for a bare number, named by letters; names with digits are
// those that gpu_ids name.
func pool() *Ledger { return New([]string{"a", "b", "c", "d"}, nil) }

func assign(t *testing.T, l *Ledger, container string, w Want) Holding {
	t.Helper()
	holdings, err := l.Assign(container, w, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.Set(holdings...)
	return holdings[0]
}

func refused(t *testing.T, l *Ledger, container string, w Want, want string) {
	t.Helper()
	_, err := l.Assign(container, w, nil)
	if refusal := (*Refusal)(nil); !errors.As(err, &refusal) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want a refusal with %q", err, want)
	}
}

func devices(t *testing.T, l *Ledger, container, want string) {
	t.Helper()
	if got := strings.Join(l.Devices(container), " "); got != want {
		t.Errorf("container %s: got %q, want %q", container, got, want)
	}
}

func TestRead(t *testing.T) {
	scalar := func(n float64) Resource { return Resource{Name: "gpus", Scalar: n} }
	set := func(items ...string) Resource { return Resource{Name: "gpu_ids", Set: items} }
	cases := []struct {
		name string
		in   []Resource
		want Want
		err  string
	}{
		{"nothing", nil, Want{}, ""},
		{"a number", []Resource{scalar(2)}, Want{Stock: 2}, ""},
		{"named in order", []Resource{scalar(2), set("y", "x")}, Want{Named: []string{"x", "y"}}, ""},
		{"both, of two roles", []Resource{scalar(1), scalar(2), set("x"), set("y")}, Want{Named: []string{"x", "y"}, Stock: 1}, ""},
		{"other words", []Resource{{Name: "gpu_mem", Scalar: 0.5}, {Name: "gpus_", Scalar: 1}}, Want{}, ""},
		{"a fraction", []Resource{scalar(0.1)}, Want{}, "gpus:0.1 is not a whole number"},
		{"below nothing", []Resource{scalar(-1)}, Want{}, "gpus:-1 is not a whole number"},
		{"beyond any host", []Resource{scalar(1e18)}, Want{}, "from 0 to 65536"},
		{"more names than gpus", []Resource{scalar(1), set("x", "y")}, Want{}, "gpus:1 is less than its 2 gpu_ids"},
		{"names alone", []Resource{set("x")}, Want{}, "gpus:0 is less than its 1 gpu_ids"},
		{"one name twice", []Resource{scalar(2), set("x"), set("x")}, Want{}, "names device x twice"},
		{"an empty name", []Resource{scalar(1), set("")}, Want{}, "empty name among 1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := Read(c.in)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || !cmp.Equal(got, c.want) {
				t.Errorf("got %+v, %v; want %+v", got, err, c.want)
			}
		})
	}
}

// What Mesos's NvidiaGpuTest.NVIDIA_GPU_Allocator asks of its allocator.
func TestAllocator(t *testing.T) {
	l := pool()
	assign(t, l, "all", Want{Stock: 4})
	devices(t, l, "all", "a b c d")
	refused(t, l, "next", Want{Stock: 1}, "wants 1 more GPUs without names, and of the 4 set aside for that 0 are free")

	l.Release("all")
	assign(t, l, "again", Want{Stock: 4})
	devices(t, l, "again", "a b c d")

	// Free one: the same one is given out next.
	assign(t, l, "again", Want{Stock: 3})
	assign(t, l, "other", Want{Stock: 1})
	devices(t, l, "again", "a b c")
	devices(t, l, "other", "d")

	// To free twice, or what nobody holds, changes nothing.
	if gone := l.Release("other"); len(gone) != 1 {
		t.Errorf("released %v, want one", gone)
	}
	if gone := l.Release("other"); len(gone) != 0 {
		t.Errorf("released %v a second time", gone)
	}
	devices(t, l, "again", "a b c")

	// Allocation by identity: one that is free, one that is held.
	assign(t, l, "x", Want{Named: []string{"GPU-1"}})
	refused(t, l, "y", Want{Named: []string{"GPU-1"}}, "container y names device GPU-1, which container x holds")
	refused(t, l, "y", Want{Named: []string{"d"}}, "one of the 4 set aside for a bare number")
}

func TestGrowAndShrink(t *testing.T) {
	l := pool()
	assign(t, l, "c", Want{Named: []string{"1"}, Stock: 2})
	devices(t, l, "c", "1 a b")
	assign(t, l, "c", Want{Named: []string{"1", "2"}, Stock: 3})
	devices(t, l, "c", "1 2 a b c")
	assign(t, l, "c", Want{Named: []string{"2"}, Stock: 1})
	devices(t, l, "c", "2 a")
	assign(t, l, "other", Want{Named: []string{"1"}, Stock: 3})
	devices(t, l, "other", "1 b c d")
	refused(t, l, "c", Want{Stock: 2}, "1 more GPUs")
	devices(t, l, "c", "2 a")
	assign(t, l, "c", Want{})
	devices(t, l, "c", "")
}

func TestSickDevicesAreNotGranted(t *testing.T) {
	l := pool()
	assign(t, l, "c", Want{Stock: 1})
	well := func(d string) bool { return d == "d" }
	holdings, err := l.Assign("c", Want{Stock: 2}, well)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "d"}, holdings[0].Stock); diff != "" {
		t.Errorf("what it holds stays (-want +got):\n%s", diff)
	}
	_, err = l.Assign("c", Want{Stock: 3}, well)
	if err == nil || !strings.Contains(err.Error(), "wants 2 more GPUs without names, and of the 4 set aside for that 1 are free and 2 more unhealthy or cordoned") {
		t.Errorf("got %v", err)
	}
}

func TestNested(t *testing.T) {
	l := pool()
	assign(t, l, "p", Want{Named: []string{"1"}, Stock: 3})
	if h := assign(t, l, "p.debug", Want{}); !h.Inherits {
		t.Errorf("got %+v, want one that inherits", h)
	}
	assign(t, l, "p.debug.deep", Want{})
	devices(t, l, "p.debug", "1 a b c")
	devices(t, l, "p.debug.deep", "1 a b c")
	devices(t, l, "p.unheard-of", "1 a b c")

	assign(t, l, "p.x", Want{Named: []string{"1"}, Stock: 1})
	assign(t, l, "p.y", Want{Stock: 1})
	devices(t, l, "p.x", "1 a")
	devices(t, l, "p.y", "b")
	refused(t, l, "p.z", Want{Named: []string{"1"}}, "container p.z names device 1, which container p.x holds")
	refused(t, l, "p.z", Want{Named: []string{"2"}}, "not among the 4 of container p")
	refused(t, l, "p.z", Want{Stock: 2}, "wants 2 more GPUs without names, container p has 1 free of 3")

	// The parent gives back what it lent to nobody first, then the rest.
	assign(t, l, "p", Want{Named: []string{"1"}, Stock: 2})
	devices(t, l, "p", "1 a b")
	assign(t, l, "p", Want{Stock: 1})
	devices(t, l, "p", "a")
	devices(t, l, "p.x", "a")
	devices(t, l, "p.y", "")
	devices(t, l, "p.debug.deep", "a")

	// Inheriting goes on through a change; what had its own does not begin to.
	if h := assign(t, l, "p.y", Want{}); h.Inherits {
		t.Error("one that gave its devices back inherits")
	}
	if gone := l.Release("p"); len(gone) != 5 || gone[4] != "p" {
		t.Errorf("released %v, want all five, p last", gone)
	}
	refused(t, l, "p.x", Want{Named: []string{"1"}}, "not among the 0 of container p")
}

func TestRestore(t *testing.T) {
	l := pool()
	restore := func(container string, devices ...string) error {
		h, err := l.Restore(container, devices)
		if err == nil {
			l.Set(h)
		}
		return err
	}
	for _, err := range []error{restore("p", "1", "b"), restore("p.same", "b", "1"), restore("p.less", "b")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []Holding{
		{Container: "p", Named: []string{"1"}, Stock: []string{"b"}},
		{Container: "p.less", Stock: []string{"b"}},
		{Container: "p.same", Inherits: true},
	}
	if diff := cmp.Diff(want, l.All()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for container, c := range map[string]struct{ device, want string }{
		"other": {"b", "which container p holds"}, "p.more": {"2", "not among the 2 of container p"},
	} {
		if err := restore(container, c.device); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", container, err, c.want)
		}
	}
	// One that was lost while one in it was not.
	if err := restore("p.a.x", "1"); err != nil {
		t.Fatal(err)
	}
	if err := restore("p.a"); err == nil || !strings.Contains(err.Error(), "container p.a holds 0 devices, and p.a.x in it holds 1 beside them") {
		t.Errorf("an outer one with less than its inner: %v", err)
	}
	if err := restore("p.a", "1"); err != nil {
		t.Errorf("an outer one with as much as its inner: %v", err)
	}
	if err := l.Check(Holding{Container: "q", Named: []string{"3", "3"}}); err == nil {
		t.Error("a device twice in one holding is taken")
	}
}

func TestStrangers(t *testing.T) {
	l := pool()
	for _, id := range []string{"p", "p.a", "p.a.b", "q", "q.a"} {
		l.Set(Holding{Container: id})
	}
	for _, c := range []struct{ alive, want string }{
		{"p p.a p.a.b q q.a", "[]"},
		{"p p.a.b q", "[p.a q.a p.a.b]"},
		{"q.a", "[p q p.a q.a p.a.b]"},
		{"", "[p q p.a q.a p.a.b]"},
	} {
		if got := fmt.Sprint(l.Strangers(strings.Fields(c.alive))); got != c.want {
			t.Errorf("alive %q: got %s, want %s", c.alive, got, c.want)
		}
	}
}

func TestHolders(t *testing.T) {
	l := pool()
	assign(t, l, "p", Want{Stock: 2})
	assign(t, l, "p.x", Want{Stock: 1})
	assign(t, l, "p.y", Want{})
	for device, want := range map[string]string{"a": "[p p.x]", "b": "[p]", "d": "[]"} {
		if got := fmt.Sprint(l.Holders(device)); got != want {
			t.Errorf("%s: got %s, want %s", device, got, want)
		}
	}
}
