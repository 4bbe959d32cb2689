package rules

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
)

func TestHostNodes(t *testing.T) {
	want := []DeviceNode{
		{"nvidia2", 195, 2, "GPU-a"}, {"nvidia0", 195, 0, "GPU-b"}, {"nvidia1", 195, 1, "GPU-c"},
		{"nvidiactl", 195, 255, ""}, {"nvidia-uvm", 510, 0, ""}, {"nvidia-uvm-tools", 510, 1, ""},
		{"nvidia-modeset", 195, 254, ""},
	}
	if diff := cmp.Diff(want, HostNodes(host(), majors)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, n := range HostNodes(host(), MajorNumbers{}) {
		if strings.Contains(n.Name, "uvm") {
			t.Errorf("a host without nvidia-uvm has the node %s", n.Name)
		}
	}
	if nodes := HostNodes(gpu.Host{}, majors); len(nodes) != 0 {
		t.Errorf("a host without GPUs has the nodes %v", nodes)
	}
}

func TestHostNodesMIG(t *testing.T) {
	want := []DeviceNode{
		{"nvidia0", 195, 0, "GPU-a"}, {"nvidia1", 195, 1, "GPU-b"},
		{"nvidia-caps/nvidia-cap30", 234, 30, "GPU-b"}, {"nvidia-caps/nvidia-cap31", 234, 31, "MIG-1"},
		{"nvidia-caps/nvidia-cap39", 234, 39, "GPU-b"}, {"nvidia-caps/nvidia-cap40", 234, 40, "MIG-2"},
		{"nvidia-caps/nvidia-cap41", 234, 41, "MIG-3"},
	}
	if diff := cmp.Diff(want, HostNodes(sliced(), majors)[:len(want)]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSwitchNode(t *testing.T) {
	for name, want := range map[string]DeviceNode{
		"nvidia-nvswitchctl": {"nvidia-nvswitchctl", 509, 255, ""}, "nvidia-nvswitch5": {"nvidia-nvswitch5", 509, 5, ""},
	} {
		if got, ok := SwitchNode(name, majors); !ok || got != want {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, ok, want)
		}
		if got, ok := SwitchNode(name, MajorNumbers{}); ok {
			t.Errorf("%s without the module: got %+v", name, got)
		}
	}
	for _, name := range []string{"nvidia0", "nvidia-nvswitch", "nvidia-nvswitch255", "nvidia-nvswitch-1", "nvidia-nvswitchx"} {
		if got, ok := SwitchNode(name, majors); ok {
			t.Errorf("%s: got %+v, want none", name, got)
		}
	}
}
