package volumemgr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// complete puts into a volume what it lacks, and makes that durable. It
// touches nothing that is there as it should be.
func complete(ctx context.Context, volume string, files []File) error {
	changed := map[string]bool{}
	for _, dir := range dirs() {
		err := os.Mkdir(filepath.Join(volume, dir), 0o755)
		if err == nil {
			changed[""] = true
		} else if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		dir := filepath.Join(volume, f.Dir)
		if !filed(dir, f) {
			if err := place(dir, f); err != nil {
				return fmt.Errorf("put %s into %s: %w", f.Name, f.Dir, err)
			}
			changed[f.Dir] = true
		}
		for _, link := range f.Links {
			added, err := symlink(f.Name, filepath.Join(dir, link))
			if err != nil {
				return fmt.Errorf("link %s in %s: %w", link, f.Dir, err)
			}
			changed[f.Dir] = changed[f.Dir] || added
		}
	}
	for dir, yes := range changed {
		if yes {
			if err := syncDir(filepath.Join(volume, dir)); err != nil {
				return err
			}
		}
	}
	return nil
}

func filed(dir string, f File) bool {
	info, err := os.Lstat(filepath.Join(dir, f.Name))
	return err == nil && info.Mode().IsRegular() && info.Size() == f.Size
}

// place puts a file under its name in one step, over one that is torn: who
// has that one open keeps it.
func place(dir string, f File) (err error) {
	temporary := filepath.Join(dir, ".new-"+f.Name)
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(temporary)
		}
	}()
	if err := linkOrCopy(f.Source, temporary); err != nil {
		return err
	}
	info, err := os.Lstat(temporary)
	if err != nil {
		return err
	}
	if info.Size() != f.Size {
		return fmt.Errorf("%s has %d bytes, found were %d; the driver is being replaced", f.Source, info.Size(), f.Size)
	}
	return os.Rename(temporary, filepath.Join(dir, f.Name))
}

// linkOrCopy makes a hard link where the file systems allow it. A link costs
// nothing and keeps the file when the driver's package goes. A set-user-id
// program (nvidia-modprobe) is copied without that bit: containers have no
// use for it.
func linkOrCopy(source, target string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) == 0 {
		err := os.Link(source, target)
		for _, not := range []error{unix.EXDEV, unix.EPERM, unix.EMLINK, unix.EOPNOTSUPP, unix.EACCES} {
			if errors.Is(err, not) {
				return copyFile(source, target, info.Mode().Perm())
			}
		}
		return err
	}
	return copyFile(source, target, info.Mode().Perm())
}

func copyFile(source, target string, mode fs.FileMode) (err error) {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	// Chmod because of the umask; Sync because a volume must be whole after a
	// power cut, and its size alone would not tell.
	return errors.Join(err, out.Chmod(mode), out.Sync(), out.Close())
}

// symlink reports whether the link had to be made. A link elsewhere is
// replaced in one step; a real file of that name stays.
func symlink(target, path string) (added bool, err error) {
	if now, err := os.Readlink(path); err == nil && now == target {
		return false, nil
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink == 0 {
		return false, nil
	}
	temporary := filepath.Join(filepath.Dir(path), ".new-"+filepath.Base(path))
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := os.Symlink(target, temporary); err != nil {
		return false, err
	}
	return true, os.Rename(temporary, path)
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
