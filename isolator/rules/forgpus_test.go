package rules

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
)

// host's minors are not in the order of its devices, as on real machines.
func host() gpu.Host {
	return gpu.Host{Driver: "535.104.05", Devices: []gpu.Device{
		{UUID: "GPU-a", Minor: 2}, {UUID: "GPU-b", Minor: 0}, {UUID: "GPU-c", Minor: 1},
	}}
}

func text(list []Rule) []string {
	var lines []string
	for _, r := range list {
		lines = append(lines, r.String())
	}
	return lines
}

func TestStandard(t *testing.T) {
	want := []string{
		"c *:* m", "b *:* m", "c 5:1 rwm", "c 4:0 rwm", "c 4:1 rwm", "c 136:* rwm", "c 5:2 rwm",
		"c 10:200 rwm", "c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm", "c 5:0 rwm", "c 1:9 rwm", "c 1:8 rwm",
	}
	if diff := cmp.Diff(want, text(Standard())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNodes(t *testing.T) {
	want := []Node{
		{"nvidia2", 195, 2, "GPU-a"}, {"nvidia0", 195, 0, "GPU-b"}, {"nvidia1", 195, 1, "GPU-c"},
		{"nvidiactl", 195, 255, ""}, {"nvidia-uvm", 510, 0, ""}, {"nvidia-uvm-tools", 510, 1, ""},
		{"nvidia-modeset", 195, 254, ""},
	}
	if diff := cmp.Diff(want, Nodes(host(), 510)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, n := range Nodes(host(), 0) {
		if strings.Contains(n.Name, "uvm") {
			t.Errorf("a host without nvidia-uvm has the node %s", n.Name)
		}
	}
	if nodes := Nodes(gpu.Host{}, 510); len(nodes) != 0 {
		t.Errorf("a host without GPUs has the nodes %v", nodes)
	}
}

func TestForGPUs(t *testing.T) {
	control := []string{"c 195:255 rwm", "c 510:0 rwm", "c 510:1 rwm", "c 195:254 rwm"}
	cases := []struct {
		name  string
		uuids []string
		more  []string // beyond the standard rules
		err   string
	}{
		{"none", nil, nil, ""},
		{"one", []string{"GPU-b"}, append(slices.Clone(control), "c 195:0 rw"), ""},
		{"two", []string{"GPU-a", "GPU-c"}, append(slices.Clone(control), "c 195:2 rw", "c 195:1 rw"), ""},
		{"unknown", []string{"GPU-a", "GPU-x"}, nil, "device GPU-x is not among this host's 3 GPUs"},
		{"twice", []string{"GPU-a", "GPU-b", "GPU-a"}, nil, "device GPU-a is named twice"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := ForGPUs(host(), 510, c.uuids)
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("got error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := append(text(Standard()), c.more...)
			if diff := cmp.Diff(want, text(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A minor number of 254 or 255 would grant a control node by a GPU's name.
func TestForGPUsRefusesControlMinors(t *testing.T) {
	for _, minor := range []int{-1, 254, 255, 300} {
		h := gpu.Host{Devices: []gpu.Device{{UUID: "GPU-a", Minor: minor}}}
		if _, err := ForGPUs(h, 510, []string{"GPU-a"}); err == nil {
			t.Errorf("minor %d was granted", minor)
		}
	}
}

func TestGPUMinors(t *testing.T) {
	two, err := ForGPUs(host(), 510, []string{"GPU-a", "GPU-b"})
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
