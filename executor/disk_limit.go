package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
)

// A measurement of the sandbox is followed by a pause of pausePerMeasurement
// times its own duration, so that it uses at most a fiftieth of a CPU.
// maxMeasurementPause bounds the pause.
const (
	pausePerMeasurement = 49
	maxMeasurementPause = 2 * time.Minute
)

// enforceDiskLimit kills the running task when its sandbox, with its logs, and
// the data it wrote elsewhere exceed the disk resources of the task and this
// executor. A task without disk resources has no limit.
func (l *taskLoop) enforceDiskLimit(ctx context.Context, r task.RunningTask) {
	if l.state.task.DiskMiB <= 0 {
		return
	}
	limit := int64((l.state.task.DiskMiB + sumScalars(plainDiskResources(l.state.executorResources), "disk")) * (1 << 20))
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
				l.log.WithError(err).Warn("disk usage could not be measured completely")
			}
			if verdict := describeDiskViolation(used, limit, err); verdict != "" {
				l.postAction(ctx, func() { l.state.endOverDiskLimit(verdict) })
				return
			}
		}
	})
}

// describeDiskViolation returns how the task broke its limit, or "" if it did
// not.
func describeDiskViolation(used, limit int64, err error) string {
	switch {
	case used > limit:
		return fmt.Sprintf("used at least %s of disk, and its limit is %s", formatMiB(used), formatMiB(limit))
	case errors.Is(err, errUnmeasurable):
		return fmt.Sprintf("prevented the measurement of its disk usage, and its limit is %s: %s", formatMiB(limit), err)
	}
	return ""
}

// measureDisk returns the bytes that the task has on disk. It may stop
// counting above limit. The result is a lower bound if the error is not nil.
func (l *taskLoop) measureDisk(ctx context.Context, r task.RunningTask, limit int64) (int64, error) {
	used, err := measureFolder(ctx, l.cfg.Sandbox, limit)
	if m, ok := r.(task.DiskMeasurer); ok {
		written, e := m.MeasureWritten(ctx)
		used, err = used+written, errors.Join(err, e)
	}
	return used, err
}

// endOverDiskLimit kills the task without a grace period, in which it could
// write more.
func (s *taskState) endOverDiskLimit(verdict string) {
	if s.phase != phaseRunning || s.kill != nil {
		return
	}
	s.diskViolation = verdict
	s.startKill(0)
}

func formatMiB(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// plainDiskResources returns the disk resources without persistent volumes,
// which have their own sizes.
func plainDiskResources(resources []mesos.Resource) []mesos.Resource {
	var list []mesos.Resource
	for _, r := range resources {
		if r.Name == "disk" && (r.Disk == nil || r.Disk.Volume == nil) {
			list = append(list, r)
		}
	}
	return list
}
