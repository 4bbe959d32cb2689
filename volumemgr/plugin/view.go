package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"mesos-gpu/volumemgr"
	"mesos-gpu/volumemgr/mountinfo"
)

// view is where the engine finds a volume: a read-only bind mount. The
// engine's own "ro" is up to the user, and a file in a volume may be a hard
// link to the host's driver, which no container shall be able to write to.
func (d *driver) view(name string) string { return filepath.Join(d.Mounts, name) }

// mount is done once, however many use it; one that an earlier plugin left is
// taken over.
func (d *driver) mount(v volumemgr.Volume) (err error) {
	view := d.view(v.Name)
	if err := os.MkdirAll(view, 0o755); err != nil {
		return err
	}
	switch mounted, err := readOnly(view); {
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

// readOnly tells whether a view is mounted as it should be. One whose mount
// broke off half-way is unmounted.
func readOnly(view string) (bool, error) {
	mounts, err := mountinfo.Read("/proc/self/mountinfo")
	if err != nil {
		return false, err
	}
	real, err := filepath.EvalSymlinks(view)
	if err != nil {
		return false, err
	}
	switch m, mounted := mountinfo.At(mounts, real); {
	case !mounted:
		return false, nil
	case m.ReadOnly:
		return true, nil
	default:
		return false, unix.Unmount(view, 0)
	}
}

// unmount is no error for what is not mounted.
func (d *driver) unmount(name string) error {
	view := d.view(name)
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
