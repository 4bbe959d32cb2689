package rules

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestGPUMinors(t *testing.T) {
	two, err := RulesForGPUs(host(), majors, []string{"GPU-a", "GPU-b"})
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name   string
		list   []DeviceRule
		minors []int
		all    bool
	}{
		{"standard", StandardRules(), nil, false},
		{"two", two, []int{0, 2}, false},
		{"everything", []DeviceRule{{'a', AnyNumber, AnyNumber, "rwm"}}, nil, true},
		{"all GPUs", []DeviceRule{{'c', 195, AnyNumber, "rw"}}, nil, true},
		{"all character devices", []DeviceRule{{'c', AnyNumber, AnyNumber, "rwm"}}, nil, true},
		{"any major", []DeviceRule{{'c', AnyNumber, 3, "rw"}, {'c', 195, 3, "rw"}}, []int{3}, false},
		{"mknod alone opens nothing", []DeviceRule{{'c', 195, AnyNumber, "m"}, {'c', 195, 1, "rm"}}, nil, false},
		{"in two halves", []DeviceRule{{'c', 195, 1, "w"}, {'c', 195, 1, "r"}}, []int{1}, false},
		{"block devices", []DeviceRule{{'b', 195, 1, "rw"}, {'b', AnyNumber, AnyNumber, "rwm"}}, nil, false},
		{"control nodes", []DeviceRule{{'c', 195, 254, "rw"}, {'c', 195, 255, "rw"}}, nil, false},
		{"in numeric order", []DeviceRule{{'c', 195, 10, "rw"}, {'c', 195, 9, "rw"}}, []int{9, 10}, false},
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

func TestAllowedMIGDevices(t *testing.T) {
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
			if diff := cmp.Diff(c.want, AllowedDevices(sliced(), majors, parsed(t, c.list))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// AllowedDevices returns exactly the granted devices, for any set of devices.
func TestAllowedDevicesInvertsRulesForGPUs(t *testing.T) {
	h := sliced()
	rapid.Check(t, func(t *rapid.T) {
		var ids []string
		for _, d := range h.Devices {
			if rapid.Bool().Draw(t, d.UUID) {
				ids = append(ids, d.UUID)
			}
		}
		list, err := RulesForGPUs(h, majors, ids)
		if err != nil {
			t.Fatal(err)
		}
		if got := AllowedDevices(h, majors, list); !slices.Equal(got, ids) {
			t.Errorf("granted %v, held %v", ids, got)
		}
	})
}

func TestAllows(t *testing.T) {
	list := []DeviceRule{
		{'c', AnyNumber, AnyNumber, "m"},
		{'c', 195, 1, "r"},
		{'c', 195, 1, "w"},
		{'c', 195, AnyNumber, "r"},
		{'c', 7, 7, "w"},
		{'c', 7, AnyNumber, "r"},
	}
	cases := []struct {
		want DeviceRule
		ok   bool
	}{
		{DeviceRule{'c', 195, 1, "rw"}, true},
		{DeviceRule{'c', 195, 1, "rwm"}, false}, // no single rule allows all three accesses
		{DeviceRule{'c', 195, 2, "rw"}, false},
		{DeviceRule{'c', 195, 2, "r"}, true},
		{DeviceRule{'c', 7, 7, "rw"}, false}, // two rules, each for one access
		{DeviceRule{'c', 9, 9, "m"}, true},
		{DeviceRule{'b', 9, 9, "m"}, false},
		{DeviceRule{'c', 195, AnyNumber, "r"}, true},
		{DeviceRule{'c', 195, AnyNumber, "rw"}, false},
	}
	for _, c := range cases {
		if got := Allows(list, c.want); got != c.ok {
			t.Errorf("%v: got %v", c.want, got)
		}
	}
	if !Allows([]DeviceRule{{'a', AnyNumber, AnyNumber, "rwm"}}, DeviceRule{'b', 8, 0, "rwm"}) {
		t.Error("an unconfined cgroup opens no block device")
	}
}

func TestIntersectRules(t *testing.T) {
	list := []DeviceRule{{'c', AnyNumber, AnyNumber, "m"}, {'c', 195, 0, "rw"}, {'c', 195, 1, "rw"}, {'c', 1, 3, "rwm"}, {'b', 8, 0, "r"}}
	other := []DeviceRule{{'c', AnyNumber, AnyNumber, "m"}, {'c', 195, AnyNumber, "r"}, {'c', 195, 1, "w"}, {'c', 1, 3, "rw"}, {'b', 8, 1, "r"}}
	want := []DeviceRule{{'c', AnyNumber, AnyNumber, "m"}, {'c', 1, 3, "rwm"}, {'c', 195, 0, "r"}, {'c', 195, 1, "rw"}}
	if diff := cmp.Diff(want, IntersectRules(list, other)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(MergeRules(list), IntersectRules(list, list)); diff != "" {
		t.Errorf("a list with itself (-want +got):\n%s", diff)
	}
}
