package setup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mesos-gpu/internal/clustersetup"
	"mesos-gpu/internal/testing/testneeds"
)

// Nodes of the driver without a link in /dev/char are found: with systemd, containers would lose them.
func TestUnlinkedDeviceNodes(t *testing.T) {
	testneeds.RequireRoot(t)
	root := t.TempDir()
	for _, dir := range []string{"dev/char", "dev/nvidia-caps"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, minor := range map[string]uint32{"nvidia0": 0, "nvidia1": 1, "nvidiactl": 255} {
		if err := unix.Mknod(filepath.Join(root, "dev", name), unix.S_IFCHR|0o600, int(unix.Mkdev(195, minor))); err != nil {
			t.Skipf("make a device node: %v", err)
		}
	}
	if err := os.Symlink("../nvidia1", filepath.Join(root, "dev/char/195:1")); err != nil {
		t.Fatal(err)
	}
	c := collector{root: root}
	got := c.listUnlinkedNodes()
	if want := []string{"/dev/nvidia0", "/dev/nvidiactl"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	facts := &clustersetup.Facts{Roles: []string{clustersetup.Agent}, Driver: clustersetup.DriverFacts{PCI: 2, Kernel: "1", Library: "1", Unlinked: got}}
	found := slices.ContainsFunc(clustersetup.Check(facts), func(f clustersetup.Finding) bool {
		return f.Check == "driver" && f.Severity == clustersetup.Warning && strings.Contains(f.Problem, "/dev/nvidia0, /dev/nvidiactl have no link in /dev/char")
	})
	if !found {
		t.Errorf("no finding in %+v", clustersetup.Check(facts))
	}
}
