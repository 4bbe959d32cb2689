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

// viewPath is the path of a volume that the engine gets: a read-only bind mount. It
// is read-only even if the user does not request it, because a file in a volume
// may be a hard link to the host's driver, which containers must not change.
func (d *volumeDriver) viewPath(name string) string { return filepath.Join(d.Mounts, name) }

// mountView mounts the view if it is not mounted yet, by this plugin or by an
// earlier one.
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
	// Two calls are necessary: a bind mount starts with the flags of its source.
	const flags = unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV
	if err := unix.Mount("", view, "", flags, ""); err != nil {
		return errors.Join(fmt.Errorf("make %s read-only: %w", view, err), unix.Unmount(view, 0))
	}
	return nil
}

// isMountedReadOnly reports whether a view is mounted read-only. It unmounts a view
// that is mounted writable, after an interrupted mountView.
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

// unmountView returns no error if the view is not mounted.
func (d *volumeDriver) unmountView(name string) error {
	view := d.viewPath(name)
	if filepath.Dir(view) != filepath.Clean(d.Mounts) {
		return fmt.Errorf("%q is not a volume's name", name)
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
