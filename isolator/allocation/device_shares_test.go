package allocation

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
)

func newShare(uuid string, mem int64, cores int) gpu.DeviceShare {
	return gpu.DeviceShare{UUID: uuid, MemMiB: mem, Cores: cores}
}

func requestShares(p ...gpu.DeviceShare) DeviceRequest { return DeviceRequest{Shares: p} }

func TestParseShares(t *testing.T) {
	r := func(name string, n float64) MesosResource { return MesosResource{Name: name, Scalar: n} }
	for _, c := range []struct {
		name string
		in   []MesosResource
		want []gpu.DeviceShare
		err  string
	}{
		{"memory and cores", []MesosResource{r("gpu_cores.x", 30), r("gpu_mem.x", 4096)}, []gpu.DeviceShare{newShare("x", 4096, 30)}, ""},
		{"memory alone", []MesosResource{r("gpu_mem.x", 1)}, []gpu.DeviceShare{newShare("x", 1, 0)}, ""},
		{"of two roles, in order", []MesosResource{r("gpu_mem.y", 1), r("gpu_mem.x", 2), r("gpu_mem.x", 3)},
			[]gpu.DeviceShare{newShare("x", 5, 0), newShare("y", 1, 0)}, ""},
		{"cores alone", []MesosResource{r("gpu_cores.x", 30)}, nil, "without gpu_mem.x"},
		{"a fraction", []MesosResource{r("gpu_mem.x", 0.5)}, nil, "gpu_mem.x:0.5 is not a whole number of MiB"},
		{"none", []MesosResource{r("gpu_mem.x", 0)}, nil, "gpu_mem.x:0 is not a whole number"},
		{"as much as allowed", []MesosResource{r("gpu_mem.x", maxAmount)}, []gpu.DeviceShare{newShare("x", maxAmount, 0)}, ""},
		{"beyond any device", []MesosResource{r("gpu_mem.x", 1e18)}, nil, "is not a whole number of MiB"},
		{"half a percent", []MesosResource{r("gpu_mem.x", 1), r("gpu_cores.x", 0.5)}, nil, "gpu_cores.x:0.5 is not a whole number of percent"},
		{"whole and a part", []MesosResource{r("gpus", 1), {Name: "gpu_ids", Set: []string{"x"}}, r("gpu_mem.x", 1)}, nil, "request one or the other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseRequest(c.in)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || !cmp.Equal(got.Shares, c.want) {
				t.Errorf("got %+v, %v; want %+v", got.Shares, err, c.want)
			}
		})
	}
}

// newHalvesAllocator is a host with one shared device of 100 MiB, h0, and a container
// with half of it.
func newHalvesAllocator(t *testing.T) *Allocator {
	l := New([]string{"s0"}, shareOfHundred, nil)
	mustAssign(t, l, "p", requestShares(newShare("h0", 50, 50)))
	return l
}

func TestSharesAreRejected(t *testing.T) {
	for _, c := range []struct {
		name, container string
		want            DeviceRequest
		why             string
	}{
		{"more memory than is free", "q", requestShares(newShare("h0", 51, 0)), "requests 51 MiB of device h0, 50 of its 100 MiB are free"},
		{"more cores than are free", "q", requestShares(newShare("h0", 1, 51)), "requests 51 % of the cores of device h0, 50 of 100 % are free"},
		{"growing beyond the device", "p", requestShares(newShare("h0", 101, 0)), "100 of its 100 MiB are free"},
		{"whole while shared and in use", "q", DeviceRequest{Named: []string{"h0"}}, "of which container p holds a share"},
		{"whole while shared and idle", "q", DeviceRequest{Named: []string{"h1"}}, "device h1, which is shared"},
		{"a part of a whole device", "q", requestShares(newShare("n0", 1, 0)), "device n0, which is not shared"},
		{"a part of a stock device", "q", requestShares(newShare("s0", 1, 0)), "device s0, which is not shared"},
		{"nested, more than its parent has", "p.a", requestShares(newShare("h0", 51, 0)), "50 of its 50 MiB are free in container p"},
		{"nested, of what its parent has not", "p.a", requestShares(newShare("h1", 1, 0)), "not shared in container p"},
		{"nested, whole", "p.a", DeviceRequest{Named: []string{"h0"}}, "not among the 0 of container p"},
	} {
		t.Run(c.name, func(t *testing.T) { wantRejected(t, newHalvesAllocator(t), c.container, c.want, c.why) })
	}
}

func TestSharesOfOneDevice(t *testing.T) {
	l := newHalvesAllocator(t)
	mustAssign(t, l, "q", requestShares(newShare("h0", 50, 0)))
	if got := strings.Join(l.ListConflicts("other", "h0"), " "); got != "p q" {
		t.Errorf("holders: got %q, want p q", got)
	}
	mustAssign(t, l, "q", requestShares(newShare("h0", 20, 50))) // reduces memory and adds cores in one update
	wantRejected(t, l, "p", requestShares(newShare("h0", 81, 50)), "80 of its 100 MiB are free")
	mustAssign(t, l, "p.a", requestShares(newShare("h0", 30, 10)))
	mustAssign(t, l, "p.b", requestShares(newShare("h0", 20, 40)))
	wantRejected(t, l, "p.c", requestShares(newShare("h0", 1, 0)), "0 of its 50 MiB are free in container p")
	mustAssign(t, l, "p.a.x", DeviceRequest{})
	owner, inherited := l.EffectiveShares("p.a.x")
	if diff := cmp.Diff([]gpu.DeviceShare{newShare("h0", 30, 10)}, inherited); diff != "" || owner != "p.a" {
		t.Errorf("nested without a part of its own: of %s (-want +got):\n%s", owner, diff)
	}
	mustAssign(t, l, "p", requestShares(newShare("h0", 25, 50))) // uses its nested containers' resources
	_, a := l.EffectiveShares("p.a")
	_, b := l.EffectiveShares("p.b")
	if diff := cmp.Diff([]gpu.DeviceShare{newShare("h0", 25, 10)}, a); diff != "" || len(b) != 0 {
		t.Errorf("nested in one of 25 MiB: other %v (-want +got):\n%s", b, diff)
	}
	l.ReleaseContainer("p")
	mustAssign(t, l, "r", requestShares(newShare("h0", 80, 50)))
}

// A container keeps its whole device or its share when the device's mode changes.
func TestSharingChangesWhileDeviceIsHeld(t *testing.T) {
	sharing := false
	l := New(nil, func(d string) (gpu.DeviceShare, bool) { return newShare(d, 100, 100), sharing }, nil)
	mustAssign(t, l, "p", DeviceRequest{Named: []string{"x"}})
	sharing = true
	mustAssign(t, l, "p", DeviceRequest{Named: []string{"x"}})
	wantRejected(t, l, "q", requestShares(newShare("x", 1, 0)), "which container p holds")
	l.ReleaseContainer("p")
	mustAssign(t, l, "q", requestShares(newShare("x", 60, 0)))
	sharing = false
	mustAssign(t, l, "q", requestShares(newShare("x", 60, 0)))
	mustAssign(t, l, "q", requestShares(newShare("x", 50, 0)))
	wantRejected(t, l, "r", requestShares(newShare("x", 1, 0)), "which is not shared")
	wantRejected(t, l, "r", DeviceRequest{Named: []string{"x"}}, "of which container q holds a share")
}

// The union has the larger amounts of each device, sorted by device.
func TestUnionShares(t *testing.T) {
	a := []gpu.DeviceShare{newShare("y", 10, 50), newShare("x", 1, 1)}
	b := []gpu.DeviceShare{newShare("y", 20, 40), newShare("z", 3, 3)}
	want := []gpu.DeviceShare{newShare("x", 1, 1), newShare("y", 20, 50), newShare("z", 3, 3)}
	if diff := cmp.Diff(want, UnionShares(a, b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if b[0] != newShare("y", 20, 40) {
		t.Errorf("the argument was changed to %v", b)
	}
}

// A device that one container holds whole is not restored for another one, neither whole nor
// as a share.
func TestRestoreRejectsDeviceThatIsHeldWhole(t *testing.T) {
	l := New(nil, shareOfHundred, nil)
	l.SetAllocations(Allocation{Container: "p", Named: []string{"h1"}}) // before it was shared
	if _, err := l.RestoreAllocation("q", []string{"h1"}); err == nil || !strings.Contains(err.Error(), "container q holds device h1, which container p holds") {
		t.Errorf("restored from a cgroup: %v", err)
	}
	share := Allocation{Container: "q", Shares: []gpu.DeviceShare{newShare("h1", 1, 0)}}
	if err := l.CheckAllocation(share); err == nil || !strings.Contains(err.Error(), "container q holds a share of device h1, which container p holds") {
		t.Errorf("restored from a file: %v", err)
	}
}

// A cgroup shows that a container has a share, but not its size.
func TestRestoreShares(t *testing.T) {
	l := newHalvesAllocator(t)
	for id, want := range map[string]Allocation{
		"q":   {Container: "q", Named: []string{"n0"}, Shares: []gpu.DeviceShare{{UUID: "h0"}, {UUID: "h1"}}},
		"p.a": {Container: "p.a", Inherits: true},
	} {
		devices := []string{"h1", "n0", "h0"}
		if id == "p.a" {
			devices = []string{"h0"}
		}
		got, err := l.RestoreAllocation(id, devices)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", id, err, diff)
		}
	}
	for _, bad := range []Allocation{
		{Container: "q", Named: []string{"h0"}},
		{Container: "q", Shares: []gpu.DeviceShare{newShare("h1", -1, 0)}},
		{Container: "p.a", Shares: []gpu.DeviceShare{newShare("h1", 1, 0)}},
		{Container: "q", Named: []string{"h1"}, Shares: []gpu.DeviceShare{newShare("h1", 1, 0)}},
	} {
		if err := l.CheckAllocation(bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
