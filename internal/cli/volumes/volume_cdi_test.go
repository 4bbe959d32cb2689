package volumes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/cli"
	"mesos-gpu/volumemgr/cdi"
)

// fakeRoot returns a function that lists those of these files that match a pattern.
func fakeRoot(t *testing.T, files ...string) func(pattern string) []string {
	t.Helper()
	root := t.TempDir()
	for _, f := range files {
		path := filepath.Join(root, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return func(pattern string) []string {
		var found []string
		for _, path := range cli.GlobPaths(filepath.Join(root, pattern)) {
			found = append(found, strings.TrimPrefix(path, root))
		}
		return found
	}
}

// The kernel numbers DRM nodes arbitrarily, so they are found by the GPU's PCI address.
func TestVolumeCDINodes(t *testing.T) {
	there := fakeRoot(t, "/dev/nvidiactl", "/dev/nvidia-uvm",
		"/sys/bus/pci/devices/0000:3b:00.0/drm/card1", "/sys/bus/pci/devices/0000:3b:00.0/drm/renderD128",
		"/sys/bus/pci/devices/0000:3b:00.0/drm/version", "/sys/bus/pci/devices/0000:af:00.0/drm/card0",
		"/driver/run/nvidia-persistenced/socket")
	h := gpu.Host{Devices: []gpu.Device{
		{UUID: "GPU-a", PCI: "0000:3b:00.0", Minor: 0}, {UUID: "GPU-b", PCI: "0000:af:00.0", Minor: 1},
		{UUID: "MIG-c", PCI: "0000:3b:00.0", Minor: 2, MIG: &gpu.MIG{Parent: "GPU-p", GPUInstanceCap: 3, ComputeInstanceCap: 4}},
	}}
	devices, common := cdiDevices(h, "/dev", there)
	node := func(name string) cdi.SpecNode { return cdi.SpecNode{Path: "/dev/" + name, Host: "/dev/" + name} }
	want := []cdi.SpecDevice{
		{Names: []string{"0", "GPU-a"}, Nodes: []cdi.SpecNode{node("nvidia0")}, GraphicsNodes: []cdi.SpecNode{node("dri/card1"), node("dri/renderD128")}},
		{Names: []string{"1", "GPU-b"}, Nodes: []cdi.SpecNode{node("nvidia1")}, GraphicsNodes: []cdi.SpecNode{node("dri/card0")}},
		{Names: []string{"2", "MIG-c"}, Nodes: []cdi.SpecNode{node("nvidia2"), node("nvidia-caps/nvidia-cap3"), node("nvidia-caps/nvidia-cap4")}},
	}
	if diff := cmp.Diff(want, devices); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]cdi.SpecNode{node("nvidiactl"), node("nvidia-uvm")}, common); diff != "" {
		t.Errorf("common nodes (-want +got):\n%s", diff)
	}
	sockets := []cdi.SpecNode{{Path: "/run/nvidia-persistenced/socket", Host: "/driver/run/nvidia-persistenced/socket"}}
	if diff := cmp.Diff(sockets, cdiSockets("/driver", there)); diff != "" {
		t.Errorf("sockets (-want +got):\n%s", diff)
	}
	if none := cdiSockets("/", there); none != nil {
		t.Errorf("sockets that are not there: %v", none)
	}
	h.Simulated = true
	if devices, _ := cdiDevices(h, "/dev", there); devices[0].GraphicsNodes != nil {
		t.Errorf("a made-up GPU draws with %v", devices[0].GraphicsNodes)
	}
}
