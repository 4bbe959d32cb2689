package rules

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestGPUMinors(t *testing.T) {
	two, err := ForGPUs(host(), majors, []string{"GPU-a", "GPU-b"})
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name   string
		list   []Rule
		minors []int
		all    bool
	}{
		{"standard", Standard(), nil, false},
		{"two", two, []int{0, 2}, false},
		{"everything", []Rule{{'a', Any, Any, "rwm"}}, nil, true},
		{"all GPUs", []Rule{{'c', 195, Any, "rw"}}, nil, true},
		{"all character devices", []Rule{{'c', Any, Any, "rwm"}}, nil, true},
		{"any major", []Rule{{'c', Any, 3, "rw"}, {'c', 195, 3, "rw"}}, []int{3}, false},
		{"mknod alone opens nothing", []Rule{{'c', 195, Any, "m"}, {'c', 195, 1, "rm"}}, nil, false},
		{"in two halves", []Rule{{'c', 195, 1, "w"}, {'c', 195, 1, "r"}}, []int{1}, false},
		{"block devices", []Rule{{'b', 195, 1, "rw"}, {'b', Any, Any, "rwm"}}, nil, false},
		{"control nodes", []Rule{{'c', 195, 254, "rw"}, {'c', 195, 255, "rw"}}, nil, false},
		{"in numeric order", []Rule{{'c', 195, 10, "rw"}, {'c', 195, 9, "rw"}}, []int{9, 10}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			minors, all := GPUMinors(c.list)
			if all != c.all || !slices.Equal(minors, c.minors) {
				t.Errorf("got %v, all %v; want %v, all %v", minors, all, c.minors, c.all)
			}
		})
	}
}

func TestHoldingMIG(t *testing.T) {
	cases := []struct {
		name string
		list string
		want []string
	}{
		{"whole", "c 195:0 rw", []string{"GPU-a"}},
		{"a parent alone", "c 195:1 rw", nil},
		{"no compute instance", "c 195:1 rw\nc 234:30 rw", nil},
		{"no parent", "c 234:30 rw\nc 234:31 rw", nil},
		{"one", "c 195:1 rw\nc 234:30 rw\nc 234:31 rw", []string{"MIG-1"}},
		{"of a shared instance", "c 195:1 rw\nc 234:39 rw\nc 234:41 rw", []string{"MIG-3"}},
		{"reading alone", "c 195:0 r", nil},
		{"everything", "a *:* rwm", []string{"GPU-a", "MIG-1", "MIG-2", "MIG-3"}},
		{"nothing", "", nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, Holding(sliced(), majors, parsed(t, c.list))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What was granted is what is held, whichever devices they are.
func TestHoldingIsForGPUsBackwards(t *testing.T) {
	h := sliced()
	rapid.Check(t, func(t *rapid.T) {
		var ids []string
		for _, d := range h.Devices {
			if rapid.Bool().Draw(t, d.UUID) {
				ids = append(ids, d.UUID)
			}
		}
		list, err := ForGPUs(h, majors, ids)
		if err != nil {
			t.Fatal(err)
		}
		if got := Holding(h, majors, list); !slices.Equal(got, ids) {
			t.Errorf("granted %v, held %v", ids, got)
		}
	})
}

func TestAllows(t *testing.T) {
	list := []Rule{{'c', Any, Any, "m"}, {'c', 195, 1, "r"}, {'c', 195, 1, "w"}, {'c', 195, Any, "r"}, {'c', 7, 7, "w"}, {'c', 7, Any, "r"}}
	cases := []struct {
		want Rule
		ok   bool
	}{
		{Rule{'c', 195, 1, "rw"}, true},
		{Rule{'c', 195, 1, "rwm"}, false}, // no rule alone allows all three
		{Rule{'c', 195, 2, "rw"}, false},
		{Rule{'c', 195, 2, "r"}, true},
		{Rule{'c', 7, 7, "rw"}, false}, // two rules, one for each half
		{Rule{'c', 9, 9, "m"}, true},
		{Rule{'b', 9, 9, "m"}, false},
		{Rule{'c', 195, Any, "r"}, true},
		{Rule{'c', 195, Any, "rw"}, false},
	}
	for _, c := range cases {
		if got := Allows(list, c.want); got != c.ok {
			t.Errorf("%v: got %v", c.want, got)
		}
	}
	if !Allows([]Rule{{'a', Any, Any, "rwm"}}, Rule{'b', 8, 0, "rwm"}) {
		t.Error("an unconfined cgroup opens no block device")
	}
}

func TestIntersect(t *testing.T) {
	list := []Rule{{'c', Any, Any, "m"}, {'c', 195, 0, "rw"}, {'c', 195, 1, "rw"}, {'c', 1, 3, "rwm"}, {'b', 8, 0, "r"}}
	other := []Rule{{'c', Any, Any, "m"}, {'c', 195, Any, "r"}, {'c', 195, 1, "w"}, {'c', 1, 3, "rw"}, {'b', 8, 1, "r"}}
	want := []Rule{{'c', Any, Any, "m"}, {'c', 1, 3, "rwm"}, {'c', 195, 0, "r"}, {'c', 195, 1, "rw"}}
	if diff := cmp.Diff(want, Intersect(list, other)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Merge(list), Intersect(list, list)); diff != "" {
		t.Errorf("a list with itself (-want +got):\n%s", diff)
	}
}
