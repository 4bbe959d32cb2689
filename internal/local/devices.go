package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"mesos-gpu/isolator/cgroup"
)

// devicesHierarchy ensures that a cgroup v1 devices hierarchy is mounted, which
// restricts the devices of containers. If only cgroup v2 is mounted, it mounts
// the v1 devices hierarchy in the work directory; the two versions can coexist.
// release unmounts it.
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
