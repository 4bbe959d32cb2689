package rules

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
)

// host has minor numbers in another order than its devices, as real hosts may.
func host() gpu.Host {
	return gpu.Host{Driver: "535.104.05", Devices: []gpu.Device{
		{UUID: "GPU-a", Minor: 2}, {UUID: "GPU-b", Minor: 0}, {UUID: "GPU-c", Minor: 1},
	}}
}

var majors = MajorNumbers{UVM: 510, Caps: 234, Switch: 509}

// sliced returns a host with one whole GPU and one GPU with three MIG devices, two of
// which share a GPU instance.
func sliced() gpu.Host {
	mig := func(uuid string, gi, ci, giCap, ciCap int) gpu.Device {
		return gpu.Device{UUID: uuid, Minor: 1, MIG: &gpu.MIG{
			Parent: "GPU-b", GPUInstance: gi, ComputeInstance: ci, GPUInstanceCap: giCap, ComputeInstanceCap: ciCap,
		}}
	}
	return gpu.Host{Devices: []gpu.Device{
		{UUID: "GPU-a", Minor: 0}, mig("MIG-1", 1, 0, 30, 31), mig("MIG-2", 2, 0, 39, 40), mig("MIG-3", 2, 1, 39, 41),
	}}
}

func text(list []DeviceRule) []string {
	var lines []string
	for _, r := range list {
		lines = append(lines, r.String())
	}
	return lines
}

func TestStandardRulesMatchMesos(t *testing.T) {
	want := []string{
		"c *:* m", "b *:* m", "c 5:1 rwm", "c 4:0 rwm", "c 4:1 rwm", "c 136:* rwm", "c 5:2 rwm",
		"c 10:200 rwm", "c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm", "c 5:0 rwm", "c 1:9 rwm", "c 1:8 rwm",
	}
	if diff := cmp.Diff(want, text(StandardRules())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRulesForGPUs(t *testing.T) {
	control := []string{"c 195:255 rwm", "c 510:0 rwm", "c 510:1 rwm", "c 195:254 rwm"}
	cases := []struct {
		name  string
		uuids []string
		more  []string // in addition to the standard rules
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
			got, err := RulesForGPUs(host(), majors, c.uuids)
			if c.err != "" {
				if err == nil || err.Error() != c.err {
					t.Errorf("got error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := append(text(StandardRules()), c.more...)
			if diff := cmp.Diff(want, text(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A MIG device needs its parent's node and two capability nodes. Nodes that two MIG
// devices share are listed once.
func TestRulesForMIGDevices(t *testing.T) {
	cases := []struct {
		name  string
		uuids []string
		want  []string // in addition to the standard rules and the control nodes
	}{
		{"one", []string{"MIG-1"}, []string{"c 195:1 rw", "c 234:30 rw", "c 234:31 rw"}},
		{"two of one GPU", []string{"MIG-1", "MIG-2"}, []string{"c 195:1 rw", "c 234:30 rw", "c 234:31 rw", "c 234:39 rw", "c 234:40 rw"}},
		{"two of one GPU instance", []string{"MIG-2", "MIG-3"}, []string{"c 195:1 rw", "c 234:39 rw", "c 234:40 rw", "c 234:41 rw"}},
		{"with a whole one", []string{"GPU-a", "MIG-1"}, []string{"c 195:0 rw", "c 195:1 rw", "c 234:30 rw", "c 234:31 rw"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := RulesForGPUs(sliced(), majors, c.uuids)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, text(got)[len(StandardRules())+4:]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Capability nodes 1 and 2 configure and monitor MIG on all GPUs.
func TestRulesRejectInvalidMIGDevices(t *testing.T) {
	cases := []struct {
		name   string
		gi, ci int
		majors MajorNumbers
		want   string
	}{
		{"no caps", 30, 31, MajorNumbers{UVM: 510}, "device MIG-1 is a MIG device and this machine has no nvidia-caps device number"},
		{"config", 1, 31, majors, "device MIG-1 has the capability nodes 1 and 31, want two different ones from 3 on"},
		{"monitor", 30, 2, majors, "nodes 30 and 2"},
		{"one twice", 30, 30, majors, "nodes 30 and 30"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := gpu.Host{Devices: []gpu.Device{{UUID: "MIG-1", MIG: &gpu.MIG{GPUInstanceCap: c.gi, ComputeInstanceCap: c.ci}}}}
			_, err := RulesForGPUs(h, c.majors, []string{"MIG-1"})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// Minor numbers 254 and 255 are control nodes, not GPUs.
func TestRulesRejectControlMinors(t *testing.T) {
	for _, minor := range []int{-1, 254, 255, 300} {
		h := gpu.Host{Devices: []gpu.Device{{UUID: "GPU-a", Minor: minor}}}
		if _, err := RulesForGPUs(h, majors, []string{"GPU-a"}); err == nil {
			t.Errorf("minor %d was granted", minor)
		}
	}
}
