package volumemgr

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mesos-gpu/internal/atomicfile"
	"mesos-gpu/internal/filelock"
)

// stagingPrefix starts the names of volumes that are being created.
const stagingPrefix = ".staging-"

// Store is a folder with volumes.
type Store struct {
	Dir string
	// Progress is called as files are read; it may be nil.
	Progress Progress
}

// volumePath rejects names that are not volume names. Names come from users and
// from the Docker engine.
func (s Store) volumePath(name string) (string, error) {
	v, ok := strings.CutPrefix(name, volumePrefix)
	if !ok || !versionPattern.MatchString(v) {
		return "", fmt.Errorf("%q is not a volume's name: use %s and a driver version, such as %s535.104.05", name, volumePrefix, volumePrefix)
	}
	return filepath.Join(s.Dir, name), nil
}

// Create creates the driver's volume, or completes it: all files must exist with
// the right size and time, and all links. It does not write to a complete volume,
// which may be on a read-only file system. A new volume gets its name when it is
// complete; after an error or a crash it does not exist. Concurrent calls, in
// other processes too, wait for each other.
func (s Store) Create(ctx context.Context, d InstalledDriver) (DriverVolume, error) {
	return s.createVolume(ctx, d, nil)
}

func (s Store) createVolume(ctx context.Context, d InstalledDriver, bad map[string]bool) (DriverVolume, error) {
	name := volumePrefix + d.Version
	if !versionPattern.MatchString(d.Version) {
		return DriverVolume{}, fmt.Errorf("create volume %s: %q is not a driver version", name, d.Version)
	}
	w := volumeUpdate{store: s, volume: filepath.Join(s.Dir, name), driver: d, damaged: bad}
	if err := s.ensureVolume(ctx, w); err != nil {
		return DriverVolume{}, fmt.Errorf("create volume %s: %w", name, s.addRemedy(err, d))
	}
	return describeVolume(w.volume)
}

func (s Store) ensureVolume(ctx context.Context, w volumeUpdate) error {
	if len(w.damaged) == 0 && w.isWhole() {
		return s.checkExecutable()
	}
	unlock, err := s.lockStore(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.checkExecutable(); err != nil {
		return err
	}
	switch info, err := os.Lstat(w.volume); {
	case errors.Is(err, fs.ErrNotExist):
		return s.buildVolume(ctx, w)
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", w.volume)
	default:
		return w.completeVolume(ctx)
	}
}

// lockStore excludes other creators. While the lock is held, every staging folder
// is left from a crash.
func (s Store) lockStore(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(s.Dir, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := filelock.LockContext(ctx, f); err != nil {
		f.Close()
		return nil, fmt.Errorf("wait for another creator: %w", err)
	}
	return func() { f.Close() }, nil
}

// buildVolume creates the volume in a staging folder and renames it.
func (s Store) buildVolume(ctx context.Context, w volumeUpdate) (err error) {
	old, err := findByPrefix(s.Dir, stagingPrefix)
	if err != nil {
		return err
	}
	for _, dir := range old {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove staging folders of a crashed process: %w", err)
		}
	}
	stage, err := os.MkdirTemp(s.Dir, stagingPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(stage))
		}
	}()
	if err := os.Chmod(stage, 0o755); err != nil { // MkdirTemp creates it with 0700
		return err
	}
	place := w.volume
	w.volume, w.isNew = stage, true
	if err := w.completeVolume(ctx); err != nil {
		return err
	}
	if err := os.Rename(stage, place); err != nil {
		return err
	}
	return atomicfile.SyncDir(s.Dir)
}

// findByPrefix returns the paths of what has a name with the prefix in a folder. It returns
// none if the folder does not exist. The folder may have any name: it is no pattern.
func findByPrefix(dir, prefix string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	return found, nil
}

// List returns the complete volumes by name. It returns none if the store does not
// exist.
func (s Store) List() ([]DriverVolume, error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list volumes: %w", err)
	}
	var list []DriverVolume
	for _, e := range entries {
		path, err := s.volumePath(e.Name())
		if err != nil || !e.IsDir() {
			continue
		}
		volume, err := describeVolume(path)
		if err != nil {
			return nil, fmt.Errorf("list volumes: %w", err)
		}
		list = append(list, volume)
	}
	return list, nil
}

func describeVolume(path string) (DriverVolume, error) {
	name := filepath.Base(path)
	v := DriverVolume{Name: name, Version: strings.TrimPrefix(name, volumePrefix), Path: path}
	err := filepath.WalkDir(path, func(file string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || file == filepath.Join(path, manifestName) {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		v.Files++
		v.Bytes += info.Size()
		return nil
	})
	return v, err
}
