package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
)

// restPerWork is how long measuring a sandbox pauses for each second that it
// took: it uses a fiftieth of a CPU, unless that would be more than longestRest
// after the last.
const (
	restPerWork = 49
	longestRest = 2 * time.Minute
)

// limitDisk ends the running task once its sandbox, with its logs, and what it
// wrote elsewhere are more than the disk that it and this executor hold. A
// task that holds none has no limit.
func (l *loop) limitDisk(ctx context.Context, r task.Running) {
	if l.task.DiskMiB <= 0 {
		return
	}
	limit := int64((l.task.DiskMiB + scalar(diskOf(l.own), "disk")) * (1 << 20))
	l.work.Go(func() {
		unknown := ""
		for pause := l.cfg.DiskInterval; ; {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
			start := time.Now()
			used, err := l.used(ctx, r, limit)
			pause = max(l.cfg.DiskInterval, min(restPerWork*time.Since(start), longestRest))
			switch {
			case ctx.Err() != nil:
				return
			case err != nil && err.Error() != unknown:
				unknown = err.Error()
				l.log.WithError(err).Warn("disk use is not wholly known")
			}
			if verdict := overLimit(used, limit, err); verdict != "" {
				l.post(ctx, func() { l.tooMuchDisk(verdict) })
				return
			}
		}
	})
}

// overLimit says what a task did that broke its limit, or nothing.
func overLimit(used, limit int64, err error) string {
	switch {
	case used > limit:
		return fmt.Sprintf("used at least %s of disk, and its limit is %s", mebibytes(used), mebibytes(limit))
	case errors.Is(err, errHidden):
		return fmt.Sprintf("hid what it used of disk, and its limit is %s: %s", mebibytes(limit), err)
	}
	return ""
}

// used is what the task has on disk, as far as that can be measured and the
// limit asks.
func (l *loop) used(ctx context.Context, r task.Running, limit int64) (int64, error) {
	used, err := usage(ctx, l.cfg.Sandbox, limit)
	if m, ok := r.(task.Measured); ok {
		written, e := m.Written(ctx)
		used, err = used+written, errors.Join(err, e)
	}
	return used, err
}

// tooMuchDisk ends the task at once: it would go on writing.
func (l *loop) tooMuchDisk(verdict string) {
	if l.phase != running || l.kill != nil {
		return
	}
	l.disk = verdict
	l.startKill(0)
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// diskOf are the disk resources but for persistent volumes, which have sizes
// of their own.
func diskOf(resources []mesos.Resource) []mesos.Resource {
	var list []mesos.Resource
	for _, r := range resources {
		if r.Name == "disk" && (r.Disk == nil || r.Disk.Volume == nil) {
			list = append(list, r)
		}
	}
	return list
}
