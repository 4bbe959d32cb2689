package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// diskHeadroom is the part of the disk that the collection of sandboxes tries to keep free,
// as Mesos's --gc_disk_headroom.
const diskHeadroom = 0.1

// allowedAge returns how long the sandbox of an ended executor is kept while the used part
// of the disk is between 0 and 1: keep on an empty disk, and the shorter the fuller it is.
func allowedAge(keep time.Duration, used float64) time.Duration {
	return time.Duration(float64(keep) * max(0, 1-diskHeadroom-used))
}

// endedSandbox is a sandbox on the disk that may be removed.
type endedSandbox struct {
	// path is the folder of one run of an executor, whose name is the container's id.
	path string
	// ended is when the executor ended, or when the agent last knew of it.
	ended time.Time
}

// listSandboxes returns all sandboxes below a work directory.
func listSandboxes(work string) (list []endedSandbox, err error) {
	// The pattern is well-formed. The link to the latest run is no folder.
	paths, _ := filepath.Glob(runsDir(work, "*", "*", "*") + "/*")
	for _, path := range paths {
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if info.IsDir() {
			list = append(list, endedSandbox{path, info.ModTime()})
		}
	}
	return list, nil
}

// startCollecting runs collectPeriodically until the returned function is called, which
// waits for its end.
func (a *EmbeddedAgent) startCollecting(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.collectPeriodically(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

// collectPeriodically removes what collectOnce removes until ctx ends.
func (a *EmbeddedAgent) collectPeriodically(ctx context.Context) {
	ticker := time.NewTicker(a.cfg.collectInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if err := a.collectOnce(ctx, now()); err != nil && ctx.Err() == nil && !errors.Is(err, errStopped) {
			a.cfg.Log.WithError(err).Error("cannot remove sandboxes and images that are no longer kept")
		}
	}
}

// collectOnce removes the sandboxes of executors that ended longer ago than allowedAge
// permits, and images that no container has used for so long.
func (a *EmbeddedAgent) collectOnce(ctx context.Context, at time.Time) error {
	used, err := a.cfg.diskUse(a.cfg.WorkDir)
	if err != nil {
		return err
	}
	before := at.Add(-allowedAge(a.cfg.KeepSandboxes, used))
	list, err := listSandboxes(a.cfg.WorkDir)
	if err != nil {
		return err
	}
	// An executor that starts later has none of the listed sandboxes.
	inUse, err := askLoop(ctx, a.loop, func() (sandboxUse, error) { return a.sandboxUse(), nil })
	if err != nil {
		return err
	}
	removed := 0
	var errs []error
	for _, s := range list {
		if s.ended.After(before) || inUse.containers[filepath.Base(s.path)] {
			continue
		}
		if err := removeSandbox(s.path); err != nil {
			errs = append(errs, err)
			continue
		}
		removed++
	}
	if removed > 0 {
		a.cfg.Log.WithField("sandboxes", removed).WithField("disk_used", fmt.Sprintf("%.0f %%", 100*used)).Info("removed sandboxes of ended executors")
	}
	errs = append(errs, removeLinks(a.cfg.WorkDir))
	if !inUse.images {
		errs = append(errs, a.images.RemoveUnused(before))
	}
	return errors.Join(errs...)
}

// sandboxUse lists the live executors of an agent, and whether any of them uses an image.
type sandboxUse struct {
	// containers has the ids of executors that have not ended, or whose end is not over for
	// the scheduler.
	containers map[string]bool
	// images reports whether a container with an image runs or starts.
	images bool
}

// sandboxUse runs on the loop.
func (a *EmbeddedAgent) sandboxUse() sandboxUse {
	use := sandboxUse{containers: map[string]bool{}}
	for e := range a.liveExecutors() {
		use.containers[e.container] = true
		for _, n := range e.nested {
			use.images = use.images || n.image
		}
	}
	for _, e := range a.completed {
		if !a.isOver(e) {
			use.containers[e.container] = true
		}
	}
	return use
}

// removeSandbox removes a sandbox and the folders above it that it leaves empty.
func removeSandbox(path string) error {
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("remove sandbox: %w", err)
	}
	runs := filepath.Dir(path)
	if target, err := os.Readlink(filepath.Join(runs, latestRun)); err == nil && target == path {
		if err := os.Remove(filepath.Join(runs, latestRun)); err != nil {
			return fmt.Errorf("remove sandbox: %w", err)
		}
	}
	for range 2 { // runs and the executor's folder
		if err := os.Remove(runs); err != nil {
			return nil // it has the sandbox of another run
		}
		runs = filepath.Dir(runs)
	}
	return nil
}

// touchSandbox starts the time for which the sandbox of an ended executor is kept.
func (a *EmbeddedAgent) touchSandbox(e *executorState) {
	if err := os.Chtimes(e.sandbox, time.Time{}, now()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.cfg.Log.WithFields(e.logFields()).WithError(err).Warn("cannot note when an executor ended: its sandbox is kept from its start on")
	}
}

// measureDiskUse returns the used part of the disk with a folder, from 0 to 1.
func measureDiskUse(dir string) (float64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("measure the disk with %s: %w", dir, err)
	}
	if s.Blocks == 0 {
		return 0, nil
	}
	return 1 - float64(s.Bavail)/float64(s.Blocks-s.Bfree+s.Bavail), nil
}

// isDiskFull reports whether an operation failed for lack of disk space.
func isDiskFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
