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

	"mesos-gpu/internal/atomicfile"
)

// writeFile puts a file under its name in one step, over one that is torn: who
// has that one open keeps it. In a volume that has no name yet nobody looks on.
func (w volumeUpdate) writeFile(ctx context.Context, f DriverFile) (e ManifestEntry, err error) {
	name := filepath.Join(w.volume, f.Dir, f.Name)
	temporary := name
	if !w.isNew {
		temporary = filepath.Join(w.volume, f.Dir, atomicfile.TempPrefix+f.Name)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeIfExists(temporary))
		}
	}()
	e = ManifestEntry{Path: f.volumePath(), Links: f.Links, Capability: f.Capability}
	if e.How, e.SHA256, err = w.store.linkOrCopy(ctx, f.Source, temporary); err != nil {
		return ManifestEntry{}, err
	}
	info, err := os.Lstat(temporary)
	if err != nil {
		return ManifestEntry{}, err
	}
	if info.Size() != f.Size {
		return ManifestEntry{}, fmt.Errorf("%s has %d bytes, found were %d; the driver is being replaced", f.Source, info.Size(), f.Size)
	}
	e.Size, e.Time = info.Size(), info.ModTime()
	if !w.isNew {
		err = os.Rename(temporary, name)
	}
	return e, err
}

// linkOrCopy makes a hard link where the file systems allow it: it costs nothing and
// keeps the file when the driver's package goes. Next best is a clone, and
// then a copy, whose digest comes with the copying. A set-user-id program
// (nvidia-modprobe) is not linked: containers have no use for that bit.
func (s Store) linkOrCopy(ctx context.Context, source, target string) (PlacedBy, string, error) {
	info, err := os.Stat(source)
	if err != nil {
		return "", "", err
	}
	if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) == 0 {
		if err := os.Link(source, target); err == nil || !isAnyError(err, unix.EXDEV, unix.EPERM, unix.EMLINK, unix.EOPNOTSUPP, unix.EACCES) {
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
	how, digest, err := s.copyContents(ctx, out, in)
	// Chmod because of the umask; Sync because a volume must be whole after a
	// power cut, and its size alone would not tell.
	if err := errors.Join(err, out.Chmod(info.Mode().Perm()), out.Sync(), out.Close()); err != nil {
		return "", "", err
	}
	// The time tells a copy from one of another file.
	return how, digest, os.Chtimes(target, time.Time{}, info.ModTime())
}

func isAnyError(err error, numbers ...error) bool {
	for _, n := range numbers {
		if errors.Is(err, n) {
			return true
		}
	}
	return false
}

func (s Store) copyContents(ctx context.Context, out, in *os.File) (PlacedBy, string, error) {
	if err := unix.IoctlFileClone(int(out.Fd()), int(in.Fd())); err == nil {
		return Cloned, "", nil
	}
	// Whatever kept it from being cloned, a copy shows whether it matters.
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(out, hash), s.progressReader(ctx, in)); err != nil {
		return "", "", err
	}
	return Copied, hex.EncodeToString(hash.Sum(nil)), nil
}

// fileDigest reads a whole file.
func (s Store) fileDigest(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, s.progressReader(ctx, f)); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// makeSymlink reports whether the link had to be made. A link elsewhere is
// replaced in one step; a real file of that name stays.
func makeSymlink(target, path string) (added bool, err error) {
	err = os.Symlink(target, path)
	if err == nil {
		return true, nil
	}
	if isLinked(target, path) {
		return false, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	return true, atomicfile.Symlink(target, path)
}

// isLinked tells whether path leads to target, or is a real file.
func isLinked(target, path string) bool {
	now, err := os.Readlink(path)
	if err == nil {
		return now == target
	}
	_, err = os.Lstat(path)
	return err == nil
}
