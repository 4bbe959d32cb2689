package docker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/google/go-cmp/cmp"
)

// A task gets the nodes that it names, and those in the folders that it names, at the same paths, if the agent's operator
// allows them.
func TestHostDevicesReachContainer(t *testing.T) {
	nodes, err := listHostDevices([]string{"/dev/pts", "/dev/full", "/dev/zero"}, []string{"/dev/pts", "/dev/zero", "/dev/full"}, "/proc/devices")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(nodes, "/dev/full") || !slices.Contains(nodes, "/dev/zero") || !slices.Contains(nodes, "/dev/pts/ptmx") {
		t.Errorf("nodes %v", nodes)
	}
	h := newHostConfig(shell("debian:12", ""), hostInfo{devices: []string{"/host/dev/nvidia0"}, hostDevices: []string{"/dev/infiniband/uverbs0"}})
	want := []container.DeviceMapping{
		{PathOnHost: "/host/dev/nvidia0", PathInContainer: "/dev/nvidia0", CgroupPermissions: "rw"},
		{PathOnHost: "/dev/infiniband/uverbs0", PathInContainer: "/dev/infiniband/uverbs0", CgroupPermissions: "rw"},
	}
	if diff := cmp.Diff(want, h.Devices); diff != "" {
		t.Errorf("devices of the container (-want +got):\n%s", diff)
	}
}

// Nodes that the operator does not allow, nodes of GPUs under any name, and paths without nodes are rejected with a reason.
func TestHostDevicesAreRejected(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	majors := filepath.Join(dir, "devices") // says that /dev/zero and its like are a GPU driver's
	if err := os.WriteFile(majors, []byte("Character devices:\n  1 nvidia-uvm\n  5 nvidia-fs\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name             string
		wanted, allowed  []string
		devicesFile, why string
	}{
		{"nothing allowed", []string{"/dev/zero"}, nil, "/proc/devices",
			"/dev/zero: the operator of this agent does not allow it to tasks: add it to MESOS_GPU_ALLOW_DEVICES"},
		{"a longer name", []string{"/dev/zero"}, []string{"/dev/zer"}, "/proc/devices", "does not allow it"},
		{"a GPU by its driver", []string{"/dev/zero"}, []string{"/dev/zero"}, majors, "/dev/zero is a node of the driver nvidia-uvm: tasks get GPUs by gpus"},
		{"a link to a node", []string{filepath.Join(dir, "link")}, []string{dir}, "/proc/devices", "has no character device on this agent"},
		{"a folder without nodes", []string{dir}, []string{dir}, "/proc/devices", "has no character device on this agent"},
		{"no such path", []string{"/dev/none"}, []string{"/dev/none"}, "/proc/devices", "no such file"},
		{"unknown drivers", []string{"/dev/zero"}, []string{"/dev/zero"}, filepath.Join(dir, "none"), "no such file"},
	} {
		nodes, err := listHostDevices(c.wanted, c.allowed, c.devicesFile)
		if err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: got %v, %v, want …%s…", c.name, nodes, err, c.why)
		}
	}
	if nodes, err := listHostDevices([]string{"/dev/tty"}, []string{"/dev/tty"}, majors); err != nil || !slices.Equal(nodes, []string{"/dev/tty"}) {
		t.Errorf("a node of nvidia-fs: %v, %v", nodes, err)
	}
	if nodes, err := listHostDevices(nil, nil, filepath.Join(dir, "none")); err != nil || nodes != nil {
		t.Errorf("without devices: %v, %v", nodes, err)
	}
}
