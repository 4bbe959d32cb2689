package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"mesos-gpu/isolator/cgroup"
)

// devicesHierarchy makes sure that the kernel can be told which devices a
// container may open. Where only cgroup v2 is mounted, it mounts the devices
// hierarchy of v1 in the work directory, which the two versions allow side by
// side; release takes it away.
func devicesHierarchy(workDir string) (release func() error, err error) {
	own := filepath.Join(workDir, "cgroup")
	root, err := cgroup.FindV1MountPoint("/proc/self/mountinfo")
	switch {
	case err == nil && root != own:
		return func() error { return nil }, nil
	case err != nil && !errors.Is(err, cgroup.ErrNoHierarchy):
		return nil, err
	case err != nil:
		if err := os.MkdirAll(own, 0o755); err != nil {
			return nil, fmt.Errorf("mount devices hierarchy: %w", err)
		}
		if err := unix.Mount("none", own, "cgroup", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "devices"); err != nil {
			return nil, fmt.Errorf("mount devices hierarchy at %s: %w", own, err)
		}
	}
	return func() error {
		if err := unix.Unmount(own, 0); err != nil {
			return fmt.Errorf("unmount devices hierarchy at %s: %w", own, err)
		}
		return nil
	}, nil
}
