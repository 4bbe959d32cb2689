package volumemgr

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mesos-gpu/internal/atomicfile"
	"mesos-gpu/internal/mounttable"
)

// removingPrefix starts the names of volumes that are being removed. A volume with
// that name after a crash may still be mounted.
const removingPrefix = ".removing-"

// CollectOptions says which volumes must be kept.
type CollectOptions struct {
	// procRoot is a proc file system; empty is "/proc". A volume is kept while a
	// process in it has the volume, or a file of it, in its mount namespace.
	procRoot string
	// Keep are versions to keep: that of the loaded driver.
	Keep []string
	// Users returns the paths that stopped containers mount when they start
	// again. It may be nil.
	Users func(context.Context) ([]string, error)
	// DryRun reports what would be removed and removes nothing.
	DryRun bool
}

// KeptVolume is a volume that was kept, and the reason.
type KeptVolume struct {
	DriverVolume
	Why string `json:"why"`
}

// Collect removes unused volumes. If it returns an error, it has removed only those
// that it also returns.
func (s Store) Collect(ctx context.Context, gc CollectOptions) (removed []DriverVolume, kept []KeptVolume, err error) {
	if removed, kept, err = s.collectVolumes(ctx, gc, ""); err != nil {
		return removed, kept, fmt.Errorf("remove unused volumes: %w", s.addRemedy(err, InstalledDriver{}))
	}
	return removed, kept, nil
}

// collectVolumes is Collect for all volumes, or for one if only is not empty.
func (s Store) collectVolumes(ctx context.Context, gc CollectOptions, only string) (removed []DriverVolume, kept []KeptVolume, err error) {
	if _, err := os.Stat(s.Dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	unlock, err := s.lockStore(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer unlock()
	var users []string
	if gc.Users != nil {
		if users, err = gc.Users(ctx); err != nil {
			return nil, nil, err
		}
	}
	if err := s.finishInterrupted(gc); err != nil {
		return nil, nil, err
	}
	volumes, err := s.List()
	if err != nil {
		return nil, nil, err
	}
	for _, v := range volumes {
		if only != "" && v.Name != only {
			continue
		}
		why, err := s.reasonToKeep(gc, v, users)
		if err == nil && why == "" && !gc.DryRun {
			why, err = s.retireVolume(gc, v.Path)
		}
		if err != nil {
			return removed, kept, err
		}
		if why == "" {
			removed = append(removed, v)
		} else {
			kept = append(kept, KeptVolume{v, why})
		}
	}
	return removed, kept, nil
}

// Remove removes one volume. It returns an error if the volume is in use.
func (s Store) Remove(ctx context.Context, name string, gc CollectOptions) error {
	if _, err := s.volumePath(name); err != nil {
		return fmt.Errorf("remove volume: %w", err)
	}
	removed, kept, err := s.collectVolumes(ctx, gc, name)
	switch {
	case err != nil:
		return fmt.Errorf("remove volume %s: %w", name, s.addRemedy(err, InstalledDriver{}))
	case len(kept) > 0:
		return fmt.Errorf("remove volume %s: it %s", name, kept[0].Why)
	case len(removed) == 0:
		return fmt.Errorf("remove volume %s: %w", name, ErrNoVolume)
	}
	return nil
}

// reasonToKeep returns why a volume is kept, or "".
func (s Store) reasonToKeep(gc CollectOptions, v DriverVolume, users []string) (string, error) {
	if slices.Contains(gc.Keep, v.Version) {
		return "is of the driver that runs", nil
	}
	for _, path := range users {
		if mounttable.IsWithin(path, v.Path) {
			return "belongs to a container that may start again", nil
		}
	}
	return describeMount(gc, v.Path)
}

func describeMount(gc CollectOptions, path string) (string, error) {
	proc := gc.procRoot
	if proc == "" {
		proc = "/proc"
	}
	found, err := findMounts(proc, path)
	if err != nil || len(found) == 0 {
		return "", err
	}
	return fmt.Sprintf("is mounted at %s, as process %d sees it", found[0].Point, found[0].PID), nil
}

// retireVolume renames the volume before the last check of its mounts. A process
// that mounted it before the rename is found, and later none can mount it.
func (s Store) retireVolume(gc CollectOptions, path string) (why string, err error) {
	away := filepath.Join(s.Dir, removingPrefix+filepath.Base(path))
	if pathExists(away) { // or finishInterrupted would have removed it
		return "replaces a volume that is still mounted", nil
	}
	if err := os.Rename(path, away); err != nil {
		return "", err
	}
	why, err = describeMount(gc, away)
	if why != "" || err != nil {
		return why, errors.Join(err, os.Rename(away, path))
	}
	return "", errors.Join(os.RemoveAll(away), atomicfile.SyncDir(s.Dir))
}

// finishInterrupted completes removals that a crash interrupted. A volume that is
// mounted gets its name back, and others are removed.
func (s Store) finishInterrupted(gc CollectOptions) error {
	left, err := findByPrefix(s.Dir, removingPrefix)
	if err != nil || gc.DryRun {
		return err
	}
	for _, away := range left {
		why, err := describeMount(gc, away)
		if err != nil {
			return err
		}
		if why == "" {
			err = os.RemoveAll(away)
		} else if path := filepath.Join(s.Dir, strings.TrimPrefix(filepath.Base(away), removingPrefix)); !pathExists(path) {
			err = os.Rename(away, path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func pathExists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
