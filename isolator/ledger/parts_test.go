package ledger

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
)

func part(uuid string, mem int64, cores int) gpu.Part {
	return gpu.Part{UUID: uuid, MemMiB: mem, Cores: cores}
}

func parts(p ...gpu.Part) Want { return Want{Parts: p} }

func TestReadParts(t *testing.T) {
	r := func(name string, n float64) Resource { return Resource{Name: name, Scalar: n} }
	for _, c := range []struct {
		name string
		in   []Resource
		want []gpu.Part
		err  string
	}{
		{"memory and cores", []Resource{r("gpu_cores.x", 30), r("gpu_mem.x", 4096)}, []gpu.Part{part("x", 4096, 30)}, ""},
		{"memory alone", []Resource{r("gpu_mem.x", 1)}, []gpu.Part{part("x", 1, 0)}, ""},
		{"of two roles, in order", []Resource{r("gpu_mem.y", 1), r("gpu_mem.x", 2), r("gpu_mem.x", 3)}, []gpu.Part{part("x", 5, 0), part("y", 1, 0)}, ""},
		{"cores alone", []Resource{r("gpu_cores.x", 30)}, nil, "comes without gpu_mem.x"},
		{"a fraction", []Resource{r("gpu_mem.x", 0.5)}, nil, "gpu_mem.x:0.5 is not a whole number of MiB"},
		{"none", []Resource{r("gpu_mem.x", 0)}, nil, "gpu_mem.x:0 is not a whole number"},
		{"beyond any device", []Resource{r("gpu_mem.x", 1e18)}, nil, "is not a whole number of MiB"},
		{"half a percent", []Resource{r("gpu_mem.x", 1), r("gpu_cores.x", 0.5)}, nil, "gpu_cores.x:0.5 is not a whole number of percent"},
		{"whole and a part", []Resource{r("gpus", 1), {Name: "gpu_ids", Set: []string{"x"}}, r("gpu_mem.x", 1)}, nil, "it is one or the other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Read(c.in)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, want %q", err, c.err)
				}
				return
			}
			if err != nil || !cmp.Equal(got.Parts, c.want) {
				t.Errorf("got %+v, %v; want %+v", got.Parts, err, c.want)
			}
		})
	}
}

// halves are the books of a host with one shared device of 100 MiB, h0, and a
// container that has half of it.
func halves(t *testing.T) *Ledger {
	l := New([]string{"s0"}, hundred)
	assign(t, l, "p", parts(part("h0", 50, 50)))
	return l
}

func TestPartsAreRefused(t *testing.T) {
	for _, c := range []struct {
		name, container string
		want            Want
		why             string
	}{
		{"more memory than is free", "q", parts(part("h0", 51, 0)), "wants 51 MiB of device h0, 50 of its 100 MiB are free"},
		{"more cores than are free", "q", parts(part("h0", 1, 51)), "wants 51 % of the cores of device h0, 50 of 100 % are free"},
		{"growing beyond the device", "p", parts(part("h0", 101, 0)), "100 of its 100 MiB are free"},
		{"whole while shared and in use", "q", Want{Named: []string{"h0"}}, "which container p holds a part of"},
		{"whole while shared and idle", "q", Want{Named: []string{"h1"}}, "device h1, which is shared"},
		{"a part of a whole device", "q", parts(part("n0", 1, 0)), "device n0, which is not shared"},
		{"a part of a stock device", "q", parts(part("s0", 1, 0)), "device s0, which is not shared"},
		{"nested, more than its parent has", "p.a", parts(part("h0", 51, 0)), "50 of its 50 MiB are free in container p"},
		{"nested, of what its parent has not", "p.a", parts(part("h1", 1, 0)), "not shared in container p"},
		{"nested, whole", "p.a", Want{Named: []string{"h0"}}, "not among the 0 of container p"},
	} {
		t.Run(c.name, func(t *testing.T) { refused(t, halves(t), c.container, c.want, c.why) })
	}
}

func TestPartsShareADevice(t *testing.T) {
	l := halves(t)
	assign(t, l, "q", parts(part("h0", 50, 0)))
	if got := strings.Join(l.Holders("h0"), " "); got != "p q" {
		t.Errorf("holders: got %q, want p q", got)
	}
	assign(t, l, "q", parts(part("h0", 20, 50))) // shrinks and grows at once
	refused(t, l, "p", parts(part("h0", 81, 50)), "80 of its 100 MiB are free")
	assign(t, l, "p.a", parts(part("h0", 30, 10)))
	assign(t, l, "p.b", parts(part("h0", 20, 40)))
	refused(t, l, "p.c", parts(part("h0", 1, 0)), "0 of its 50 MiB are free in container p")
	assign(t, l, "p.a.x", Want{})
	owner, inherited := l.Parts("p.a.x")
	if diff := cmp.Diff([]gpu.Part{part("h0", 30, 10)}, inherited); diff != "" || owner != "p.a" {
		t.Errorf("nested without a part of its own: of %s (-want +got):\n%s", owner, diff)
	}
	assign(t, l, "p", parts(part("h0", 25, 50))) // takes from those nested in it
	_, a := l.Parts("p.a")
	_, b := l.Parts("p.b")
	if diff := cmp.Diff([]gpu.Part{part("h0", 25, 10)}, a); diff != "" || len(b) != 0 {
		t.Errorf("nested in one of 25 MiB: beside %v (-want +got):\n%s", b, diff)
	}
	l.Release("p")
	assign(t, l, "r", parts(part("h0", 80, 50)))
}

// One who held a device whole when it came to be shared keeps it, and one who
// held a part keeps that.
func TestFormChangesUnderAHolder(t *testing.T) {
	sharing := false
	l := New(nil, func(d string) (gpu.Part, bool) { return part(d, 100, 100), sharing })
	assign(t, l, "p", Want{Named: []string{"x"}})
	sharing = true
	assign(t, l, "p", Want{Named: []string{"x"}})
	refused(t, l, "q", parts(part("x", 1, 0)), "which container p holds")
	l.Release("p")
	assign(t, l, "q", parts(part("x", 60, 0)))
	sharing = false
	assign(t, l, "q", parts(part("x", 60, 0)))
	assign(t, l, "q", parts(part("x", 50, 0)))
	refused(t, l, "r", parts(part("x", 1, 0)), "which is not shared")
	refused(t, l, "r", Want{Named: []string{"x"}}, "which container q holds a part of")
}

// From a cgroup comes that a container has a part, and not how large.
func TestRestoreParts(t *testing.T) {
	l := halves(t)
	for id, want := range map[string]Holding{
		"q":   {Container: "q", Named: []string{"n0"}, Parts: []gpu.Part{{UUID: "h0"}, {UUID: "h1"}}},
		"p.a": {Container: "p.a", Inherits: true},
	} {
		devices := []string{"h1", "n0", "h0"}
		if id == "p.a" {
			devices = []string{"h0"}
		}
		got, err := l.Restore(id, devices)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", id, err, diff)
		}
	}
	for _, bad := range []Holding{
		{Container: "q", Named: []string{"h0"}},
		{Container: "q", Parts: []gpu.Part{part("h1", -1, 0)}},
		{Container: "p.a", Parts: []gpu.Part{part("h1", 1, 0)}},
		{Container: "q", Named: []string{"h1"}, Parts: []gpu.Part{part("h1", 1, 0)}},
	} {
		if err := l.Check(bad); err == nil {
			t.Errorf("%+v stands in the books", bad)
		}
	}
}
