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

// writeFile adds a file under its name atomically. It replaces a torn file; a
// program that has that one open keeps it. In a staging folder it writes directly.
func (u volumeUpdate) writeFile(ctx context.Context, f DriverFile) (e ManifestEntry, err error) {
	name := filepath.Join(u.volume, f.Dir, f.Name)
	temporary := name
	if !u.isNew {
		temporary = filepath.Join(u.volume, f.Dir, atomicfile.TempPrefix+f.Name)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeIfExists(temporary))
		}
	}()
	e = ManifestEntry{Path: f.volumePath(), Links: f.Links, Capability: f.Capability}
	if e.How, e.SHA256, err = u.store.linkOrCopy(ctx, f.Source, temporary); err != nil {
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
	if !u.isNew {
		err = os.Rename(temporary, name)
	}
	return e, err
}

// linkOrCopy creates a hard link if the file systems allow it. A link costs
// nothing, and the file survives the removal of the driver's package. Otherwise
// it creates a clone, or else a copy, and computes the digest while copying. It
// does not link a set-user-ID program (nvidia-modprobe), because containers must
// not get that bit.
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
	// Chmod is needed because of the umask. Sync is needed because a torn file
	// after a power failure may have the right size.
	if err := errors.Join(err, out.Chmod(info.Mode().Perm()), out.Sync(), out.Close()); err != nil {
		return "", "", err
	}
	// findPlaced recognizes a copy by its time.
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
	// If cloning fails for any reason, try to copy.
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(out, hash), s.progressReader(ctx, in)); err != nil {
		return "", "", err
	}
	return Copied, hex.EncodeToString(hash.Sum(nil)), nil
}

// fileDigest returns the SHA-256 of a file.
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

// makeSymlink creates a link and reports whether it did not exist. It replaces a
// link to another target atomically, and keeps a regular file of that name.
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

// isLinked reports whether path is a link to target, or not a link at all.
func isLinked(target, path string) bool {
	now, err := os.Readlink(path)
	if err == nil {
		return now == target
	}
	_, err = os.Lstat(path)
	return err == nil
}
