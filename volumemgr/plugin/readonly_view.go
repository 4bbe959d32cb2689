package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"mesos-gpu/internal/mounttable"
	"mesos-gpu/volumemgr"
)

// viewPath is where the engine finds a volume: a read-only bind mount. The
// engine's own "ro" is up to the user, and a file in a volume may be a hard
// link to the host's driver, which no container shall be able to write to.
func (d *volumeDriver) viewPath(name string) string { return filepath.Join(d.Mounts, name) }

// mountView is done once, however many use it; one that an earlier plugin left is
// taken over.
func (d *volumeDriver) mountView(v volumemgr.DriverVolume) (err error) {
	view := d.viewPath(v.Name)
	if err := os.MkdirAll(view, 0o755); err != nil {
		return err
	}
	switch mounted, err := isMountedReadOnly(view); {
	case err != nil:
		return err
	case mounted:
		return nil
	}
	if err := unix.Mount(v.Path, view, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s to %s: %w", v.Path, view, err)
	}
	// The two need two calls: a bind mount begins with its source's flags.
	const flags = unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount("", view, "", flags, ""); err != nil {
		return errors.Join(fmt.Errorf("make %s read-only: %w", view, err), unix.Unmount(view, 0))
	}
	return nil
}

// isMountedReadOnly tells whether a view is mounted as it should be. One whose mount
// broke off half-way is unmounted.
func isMountedReadOnly(view string) (bool, error) {
	mounts, err := mounttable.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, err
	}
	real, err := filepath.EvalSymlinks(view)
	if err != nil {
		return false, err
	}
	switch m, mounted := mounttable.FindMount(mounts, real); {
	case !mounted:
		return false, nil
	case m.ReadOnly:
		return true, nil
	default:
		return false, unix.Unmount(view, 0)
	}
}

// unmountView is no error for what is not mounted.
func (d *volumeDriver) unmountView(name string) error {
	view := d.viewPath(name)
	if filepath.Dir(view) != filepath.Clean(d.Mounts) {
		return fmt.Errorf("%q is no volume's name", name)
	}
	err := unix.Unmount(view, 0)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("unmount %s: %w", view, err)
	}
	if err := os.Remove(view); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
