package allocation

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
)

// newStockAllocator has four stock devices, named by letters. Devices that tests request
// by name have names with digits.
func newStockAllocator() *Allocator { return New([]string{"a", "b", "c", "d"}, nil, nil) }

func mustAssign(t *testing.T, l *Allocator, container string, w DeviceRequest) Allocation {
	t.Helper()
	holdings, err := l.AssignDevices(container, w, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.SetAllocations(holdings...)
	return holdings[0]
}

func wantRejected(t *testing.T, l *Allocator, container string, w DeviceRequest, want string) {
	t.Helper()
	_, err := l.AssignDevices(container, w, nil)
	if refusal := (*RejectedError)(nil); !errors.As(err, &refusal) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want a refusal with %q", err, want)
	}
}

func wantDevices(t *testing.T, l *Allocator, container, want string) {
	t.Helper()
	if got := strings.Join(l.EffectiveDevices(container), " "); got != want {
		t.Errorf("container %s: got %q, want %q", container, got, want)
	}
}

func TestParseRequest(t *testing.T) {
	scalar := func(n float64) MesosResource { return MesosResource{Name: "gpus", Scalar: n} }
	set := func(items ...string) MesosResource { return MesosResource{Name: "gpu_ids", Set: items} }
	cases := []struct {
		name string
		in   []MesosResource
		want DeviceRequest
		err  string
	}{
		{"nothing", nil, DeviceRequest{}, ""},
		{"a number", []MesosResource{scalar(2)}, DeviceRequest{Stock: 2}, ""},
		{"named in order", []MesosResource{scalar(2), set("y", "x")}, DeviceRequest{Named: []string{"x", "y"}}, ""},
		{"both, of two roles", []MesosResource{scalar(1), scalar(2), set("x"), set("y")}, DeviceRequest{Named: []string{"x", "y"}, Stock: 1}, ""},
		{"other words", []MesosResource{{Name: "gpu_mem", Scalar: 0.5}, {Name: "gpus_", Scalar: 1}}, DeviceRequest{}, ""},
		{"as many as allowed", []MesosResource{scalar(maxGPUs)}, DeviceRequest{Stock: maxGPUs}, ""},
		{"one more than allowed", []MesosResource{scalar(maxGPUs + 1)}, DeviceRequest{}, "gpus:65537 is not a whole number"},
		{"a fraction", []MesosResource{scalar(0.1)}, DeviceRequest{}, "gpus:0.1 is not a whole number"},
		{"below nothing", []MesosResource{scalar(-1)}, DeviceRequest{}, "gpus:-1 is not a whole number"},
		{"beyond any host", []MesosResource{scalar(1e18)}, DeviceRequest{}, "from 0 to 65536"},
		{"more names than gpus", []MesosResource{scalar(1), set("x", "y")}, DeviceRequest{}, "gpus:1 is less than its 2 gpu_ids"},
		{"names alone", []MesosResource{set("x")}, DeviceRequest{}, "gpus:0 is less than its 1 gpu_ids"},
		{"one name twice", []MesosResource{scalar(2), set("x"), set("x")}, DeviceRequest{}, "names device x twice"},
		{"an empty name", []MesosResource{scalar(1), set("")}, DeviceRequest{}, "empty name among 1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseRequest(c.in)
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

// The expectations of Mesos's NvidiaGpuTest.NVIDIA_GPU_Allocator.
func TestAssignStockDevices(t *testing.T) {
	l := newStockAllocator()
	mustAssign(t, l, "all", DeviceRequest{Stock: 4})
	wantDevices(t, l, "all", "a b c d")
	wantRejected(t, l, "next", DeviceRequest{Stock: 1}, "requests 1 more GPUs by number, and of the 4 reserved for that 0 are free")

	l.ReleaseContainer("all")
	mustAssign(t, l, "again", DeviceRequest{Stock: 4})
	wantDevices(t, l, "again", "a b c d")

	// A released device is assigned next.
	mustAssign(t, l, "again", DeviceRequest{Stock: 3})
	mustAssign(t, l, "other", DeviceRequest{Stock: 1})
	wantDevices(t, l, "again", "a b c")
	wantDevices(t, l, "other", "d")

	// Releasing a container twice, or an unknown one, changes nothing.
	if gone := l.ReleaseContainer("other"); len(gone) != 1 {
		t.Errorf("released %v, want one", gone)
	}
	if gone := l.ReleaseContainer("other"); len(gone) != 0 {
		t.Errorf("released %v a second time", gone)
	}
	wantDevices(t, l, "again", "a b c")

	// Assignment by name: a free device and a held one.
	mustAssign(t, l, "x", DeviceRequest{Named: []string{"GPU-1"}})
	wantRejected(t, l, "y", DeviceRequest{Named: []string{"GPU-1"}}, "container y names device GPU-1, which container x holds")
	wantRejected(t, l, "y", DeviceRequest{Named: []string{"d"}}, "one of the 4 reserved for requests by number")
}

func TestAssignKeepsDevicesWhenGrowingAndShrinking(t *testing.T) {
	l := newStockAllocator()
	mustAssign(t, l, "c", DeviceRequest{Named: []string{"1"}, Stock: 2})
	wantDevices(t, l, "c", "1 a b")
	mustAssign(t, l, "c", DeviceRequest{Named: []string{"1", "2"}, Stock: 3})
	wantDevices(t, l, "c", "1 2 a b c")
	mustAssign(t, l, "c", DeviceRequest{Named: []string{"2"}, Stock: 1})
	wantDevices(t, l, "c", "2 a")
	mustAssign(t, l, "other", DeviceRequest{Named: []string{"1"}, Stock: 3})
	wantDevices(t, l, "other", "1 b c d")
	wantRejected(t, l, "c", DeviceRequest{Stock: 2}, "1 more GPUs")
	wantDevices(t, l, "c", "2 a")
	mustAssign(t, l, "c", DeviceRequest{})
	wantDevices(t, l, "c", "")
}

func TestUnhealthyDevicesAreNotAssigned(t *testing.T) {
	l := newStockAllocator()
	mustAssign(t, l, "c", DeviceRequest{Stock: 1})
	well := func(d string) bool { return d == "d" }
	holdings, err := l.AssignDevices("c", DeviceRequest{Stock: 2}, well)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "d"}, holdings[0].Stock); diff != "" {
		t.Errorf("what it holds stays (-want +got):\n%s", diff)
	}
	_, err = l.AssignDevices("c", DeviceRequest{Stock: 3}, well)
	if err == nil || !strings.Contains(err.Error(), "requests 2 more GPUs by number, and of the 4 reserved for that 1 are free and 2 more unhealthy or cordoned") {
		t.Errorf("got %v", err)
	}
}

func TestNestedContainers(t *testing.T) {
	l := newStockAllocator()
	mustAssign(t, l, "p", DeviceRequest{Named: []string{"1"}, Stock: 3})
	if h := mustAssign(t, l, "p.debug", DeviceRequest{}); !h.Inherits {
		t.Errorf("got %+v, want one that inherits", h)
	}
	mustAssign(t, l, "p.debug.deep", DeviceRequest{})
	wantDevices(t, l, "p.debug", "1 a b c")
	wantDevices(t, l, "p.debug.deep", "1 a b c")
	wantDevices(t, l, "p.unheard-of", "1 a b c")

	mustAssign(t, l, "p.x", DeviceRequest{Named: []string{"1"}, Stock: 1})
	mustAssign(t, l, "p.y", DeviceRequest{Stock: 1})
	wantDevices(t, l, "p.x", "1 a")
	wantDevices(t, l, "p.y", "b")
	wantRejected(t, l, "p.z", DeviceRequest{Named: []string{"1"}}, "container p.z names device 1, which container p.x holds")
	wantRejected(t, l, "p.z", DeviceRequest{Named: []string{"2"}}, "not among the 4 of container p")
	wantRejected(t, l, "p.z", DeviceRequest{Stock: 2}, "requests 2 more GPUs by number, container p has 1 free of 3")

	// The parent first releases devices that no nested container has.
	mustAssign(t, l, "p", DeviceRequest{Named: []string{"1"}, Stock: 2})
	wantDevices(t, l, "p", "1 a b")
	mustAssign(t, l, "p", DeviceRequest{Stock: 1})
	wantDevices(t, l, "p", "a")
	wantDevices(t, l, "p.x", "a")
	wantDevices(t, l, "p.y", "")
	wantDevices(t, l, "p.debug.deep", "a")

	// A container keeps inheriting after an update; one that had its own devices does not
	// start to inherit.
	if h := mustAssign(t, l, "p.y", DeviceRequest{}); h.Inherits {
		t.Error("one that gave its devices back inherits")
	}
	if gone := l.ReleaseContainer("p"); len(gone) != 5 || gone[4] != "p" {
		t.Errorf("released %v, want all five, p last", gone)
	}
	wantRejected(t, l, "p.x", DeviceRequest{Named: []string{"1"}}, "not among the 0 of container p")
}

func TestRestoreAllocation(t *testing.T) {
	l := newStockAllocator()
	restore := func(container string, devices ...string) error {
		h, err := l.RestoreAllocation(container, devices)
		if err == nil {
			l.SetAllocations(h)
		}
		return err
	}
	for _, err := range []error{restore("p", "1", "b"), restore("p.same", "b", "1"), restore("p.less", "b")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []Allocation{
		{Container: "p", Named: []string{"1"}, Stock: []string{"b"}},
		{Container: "p.less", Stock: []string{"b"}},
		{Container: "p.same", Inherits: true},
	}
	if diff := cmp.Diff(want, l.ListAll()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for container, c := range map[string]struct{ device, want string }{
		"other": {"b", "which container p holds"}, "p.more": {"2", "not among the 2 of container p"},
	} {
		if err := restore(container, c.device); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", container, err, c.want)
		}
	}
	// The parent's record was lost, but not that of its nested container.
	if err := restore("p.a.x", "1"); err != nil {
		t.Fatal(err)
	}
	if err := restore("p.a"); err == nil ||
		!strings.Contains(err.Error(), "container p.a holds 0 devices, and p.a.x nested in it holds 1, which is not one of them") {
		t.Errorf("an outer one with less than its inner: %v", err)
	}
	if err := restore("p.a", "1"); err != nil {
		t.Errorf("an outer one with as much as its inner: %v", err)
	}
	if err := l.CheckAllocation(Allocation{Container: "q", Named: []string{"3", "3"}}); err == nil {
		t.Error("a device twice in one holding is taken")
	}
}

func TestFindOrphans(t *testing.T) {
	l := newStockAllocator()
	for _, id := range []string{"p", "p.a", "p.a.b", "q", "q.a"} {
		l.SetAllocations(Allocation{Container: id})
	}
	for _, c := range []struct{ alive, want string }{
		{"p p.a p.a.b q q.a", "[]"},
		{"p p.a.b q", "[p.a q.a p.a.b]"},
		{"q.a", "[p q p.a q.a p.a.b]"},
		{"", "[p q p.a q.a p.a.b]"},
	} {
		if got := fmt.Sprint(l.FindOrphans(strings.Fields(c.alive))); got != c.want {
			t.Errorf("alive %q: got %s, want %s", c.alive, got, c.want)
		}
	}
}

// An allocation matches a request for exactly its devices and shares, whatever the order of
// the names.
func TestMatchesRequest(t *testing.T) {
	h := Allocation{Named: []string{"2", "1"}, Stock: []string{"a"}, Shares: []gpu.DeviceShare{newShare("h0", 10, 20)}}
	for _, c := range []struct {
		name string
		r    DeviceRequest
		want bool
	}{
		{"equal", DeviceRequest{Named: []string{"1", "2"}, Stock: 1, Shares: h.Shares}, true},
		{"another name", DeviceRequest{Named: []string{"1", "3"}, Stock: 1, Shares: h.Shares}, false},
		{"another number", DeviceRequest{Named: []string{"1", "2"}, Stock: 2, Shares: h.Shares}, false},
		{"another share", DeviceRequest{Named: []string{"1", "2"}, Stock: 1, Shares: []gpu.DeviceShare{newShare("h0", 10, 21)}}, false},
		{"no share", DeviceRequest{Named: []string{"1", "2"}, Stock: 1}, false},
	} {
		if got := h.MatchesRequest(c.r); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
	if n := (DeviceRequest{Named: []string{"1", "2"}, Stock: 4, Shares: h.Shares}).Count(); n != 7 {
		t.Errorf("2 names, 4 by number and a share are %d devices, want 7", n)
	}
}

// A removed allocation is unknown, and those of nested containers stay.
func TestRemoveAllocation(t *testing.T) {
	l := newStockAllocator()
	mustAssign(t, l, "p", DeviceRequest{Stock: 1})
	mustAssign(t, l, "p.x", DeviceRequest{Stock: 1})
	if h, ok := l.Get("p"); !ok || h.Container != "p" || len(h.Stock) != 1 {
		t.Errorf("got %+v, %t", h, ok)
	}
	l.RemoveAllocation("p")
	if _, ok := l.Get("p"); ok {
		t.Error("the removed allocation is known")
	}
	wantDevices(t, l, "p.x", "a")
}

// The caller cannot change the stock pool.
func TestStockReturnsCopy(t *testing.T) {
	l := newStockAllocator()
	l.Stock()[0] = "z"
	if diff := cmp.Diff([]string{"a", "b", "c", "d"}, l.Stock()); diff != "" {
		t.Errorf("stock (-want +got):\n%s", diff)
	}
}

func TestContainerIDs(t *testing.T) {
	for id, want := range map[string][2]string{"p": {"p", ""}, "p.a": {"p", "p"}, "p.a.x": {"p", "p.a"}} {
		if got := [2]string{RootID(id), ParentID(id)}; got != want {
			t.Errorf("%s: root and parent are %q, want %q", id, got, want)
		}
	}
}
