package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
)

// pausePerMeasurement is how long measuring a sandbox pauses for each second that it
// took: it uses a fiftieth of a CPU, unless that would be more than maxMeasurementPause
// after the last.
const (
	pausePerMeasurement = 49
	maxMeasurementPause = 2 * time.Minute
)

// enforceDiskLimit ends the running task once its sandbox, with its logs, and what it
// wrote elsewhere are more than the disk that it and this executor hold. A
// task that holds none has no limit.
func (l *taskLoop) enforceDiskLimit(ctx context.Context, r task.RunningTask) {
	if l.task.DiskMiB <= 0 {
		return
	}
	limit := int64((l.task.DiskMiB + sumScalars(plainDiskResources(l.executorResources), "disk")) * (1 << 20))
	l.goroutines.Go(func() {
		unknown := ""
		for pause := l.cfg.DiskInterval; ; {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
				return
			}
			start := time.Now()
			used, err := l.measureDisk(ctx, r, limit)
			pause = max(l.cfg.DiskInterval, min(pausePerMeasurement*time.Since(start), maxMeasurementPause))
			switch {
			case ctx.Err() != nil:
				return
			case err != nil && err.Error() != unknown:
				unknown = err.Error()
				l.log.WithError(err).Warn("disk use is not wholly known")
			}
			if verdict := describeDiskViolation(used, limit, err); verdict != "" {
				l.postAction(ctx, func() { l.endOverDiskLimit(verdict) })
				return
			}
		}
	})
}

// describeDiskViolation says what a task did that broke its limit, or nothing.
func describeDiskViolation(used, limit int64, err error) string {
	switch {
	case used > limit:
		return fmt.Sprintf("used at least %s of disk, and its limit is %s", formatMiB(used), formatMiB(limit))
	case errors.Is(err, errUnmeasurable):
		return fmt.Sprintf("hid what it used of disk, and its limit is %s: %s", formatMiB(limit), err)
	}
	return ""
}

// measureDisk is what the task has on disk, as far as that can be measured and the
// limit asks.
func (l *taskLoop) measureDisk(ctx context.Context, r task.RunningTask, limit int64) (int64, error) {
	used, err := measureFolder(ctx, l.cfg.Sandbox, limit)
	if m, ok := r.(task.DiskMeasurer); ok {
		written, e := m.MeasureWritten(ctx)
		used, err = used+written, errors.Join(err, e)
	}
	return used, err
}

// endOverDiskLimit ends the task at once: it would go on writing.
func (l *taskLoop) endOverDiskLimit(verdict string) {
	if l.phase != phaseRunning || l.kill != nil {
		return
	}
	l.diskViolation = verdict
	l.startKill(0)
}

func formatMiB(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// plainDiskResources are the disk resources but for persistent volumes, which have sizes
// of their own.
func plainDiskResources(resources []mesos.Resource) []mesos.Resource {
	var list []mesos.Resource
	for _, r := range resources {
		if r.Name == "disk" && (r.Disk == nil || r.Disk.Volume == nil) {
			list = append(list, r)
		}
	}
	return list
}
