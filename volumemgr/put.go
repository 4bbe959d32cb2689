package volumemgr

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// place puts a file under its name in one step, over one that is torn: who
// has that one open keeps it. In a volume that has no name yet nobody looks on.
func (w work) place(ctx context.Context, f File) (e Entry, err error) {
	name := filepath.Join(w.volume, f.Dir, f.Name)
	temporary := name
	if !w.fresh {
		temporary = filepath.Join(w.volume, f.Dir, unfinished+f.Name)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, remove(temporary))
		}
	}()
	e = Entry{Path: f.path(), Links: f.Links, Capability: f.Capability}
	if e.How, e.SHA256, err = w.store.put(ctx, f.Source, temporary); err != nil {
		return Entry{}, err
	}
	info, err := os.Lstat(temporary)
	if err != nil {
		return Entry{}, err
	}
	if info.Size() != f.Size {
		return Entry{}, fmt.Errorf("%s has %d bytes, found were %d; the driver is being replaced", f.Source, info.Size(), f.Size)
	}
	e.Size, e.Time = info.Size(), info.ModTime()
	if !w.fresh {
		err = os.Rename(temporary, name)
	}
	return e, err
}

// put makes a hard link where the file systems allow it: it costs nothing and
// keeps the file when the driver's package goes. Next best is a clone, and
// then a copy, whose digest comes with the copying. A set-user-id program
// (nvidia-modprobe) is not linked: containers have no use for that bit.
func (s Store) put(ctx context.Context, source, target string) (How, string, error) {
	info, err := os.Stat(source)
	if err != nil {
		return "", "", err
	}
	if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) == 0 {
		if err := os.Link(source, target); err == nil || !isAny(err, unix.EXDEV, unix.EPERM, unix.EMLINK, unix.EOPNOTSUPP, unix.EACCES) {
			return Linked, "", err
		}
	}
	in, err := os.Open(source)
	if err != nil {
		return "", "", err
	}
	defer in.Close()
	out, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return "", "", err
	}
	how, digest, err := s.fill(ctx, out, in)
	// Chmod because of the umask; Sync because a volume must be whole after a
	// power cut, and its size alone would not tell.
	if err := errors.Join(err, out.Chmod(info.Mode().Perm()), out.Sync(), out.Close()); err != nil {
		return "", "", err
	}
	// The time tells a copy from one of another file.
	return how, digest, os.Chtimes(target, time.Time{}, info.ModTime())
}

func isAny(err error, numbers ...error) bool {
	for _, n := range numbers {
		if errors.Is(err, n) {
			return true
		}
	}
	return false
}

func (s Store) fill(ctx context.Context, out, in *os.File) (How, string, error) {
	if err := unix.IoctlFileClone(int(out.Fd()), int(in.Fd())); err == nil {
		return Cloned, "", nil
	}
	// Whatever kept it from being cloned, a copy shows whether it matters.
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(out, hash), s.reader(ctx, in)); err != nil {
		return "", "", err
	}
	return Copied, hex.EncodeToString(hash.Sum(nil)), nil
}

// digest reads a whole file.
func (s Store) digest(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, s.reader(ctx, f)); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// symlink reports whether the link had to be made. A link elsewhere is
// replaced in one step; a real file of that name stays.
func symlink(target, path string) (added bool, err error) {
	err = os.Symlink(target, path)
	if err == nil {
		return true, nil
	}
	if linked(target, path) {
		return false, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	temporary := filepath.Join(filepath.Dir(path), unfinished+filepath.Base(path))
	if err := os.Symlink(target, temporary); err != nil {
		return false, err
	}
	return true, os.Rename(temporary, path)
}

// linked tells whether path leads to target, or is a real file.
func linked(target, path string) bool {
	now, err := os.Readlink(path)
	if err == nil {
		return now == target
	}
	_, err = os.Lstat(path)
	return err == nil
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
