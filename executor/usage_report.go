package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/atomicfile"
)

const (
	// usageInterval is the time between two reports of what a task's devices do.
	usageInterval = 5 * time.Second
)

// reportUsage keeps a file in the sandbox that says what the running task's
// devices do, where a daemon tells. It is for people to look at: that it cannot
// be written ends no task.
func (l *taskLoop) reportUsage(ctx context.Context) {
	if l.cfg.ReadUsage == nil || l.task.GPUs == 0 {
		return
	}
	t := l.task
	l.goroutines.Go(func() {
		unknown := ""
		tick := time.NewTicker(usageInterval)
		defer tick.Stop()
		for {
			err := l.cfg.writeUsage(ctx, t.Container.Value, t.DeviceIDs, len(t.DeviceShares) > 0)
			if err != nil && ctx.Err() == nil && err.Error() != unknown {
				unknown = err.Error()
				l.log.WithError(err).Info("what the task's GPUs do is not reported")
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

// writeUsage asks and writes, once.
func (c *ExecutorConfig) writeUsage(ctx context.Context, container string, devices []string, parts bool) error {
	ctx, cancel := context.WithTimeout(ctx, usageInterval)
	defer cancel()
	use, err := c.ReadUsage(ctx, container, devices, parts)
	if err != nil {
		return err
	}
	if use.Time.IsZero() {
		return errors.New("nothing was measured of the task's GPUs yet")
	}
	text, err := json.Marshal(use)
	if err != nil {
		return fmt.Errorf("write GPU use as JSON: %w", err)
	}
	if err := replaceUsageFile(c.Sandbox, text); err != nil {
		return fmt.Errorf("write GPU use: %w", err)
	}
	return nil
}

// replaceUsageFile writes a file of a folder whole, under another name first. The folder
// is a task's, and this program may be root: the file is new, so that no link
// leads elsewhere, and what the names have led to so far goes.
func replaceUsageFile(sandbox string, text []byte) error {
	root, err := os.OpenRoot(sandbox)
	if err != nil {
		return err
	}
	defer root.Close()
	return atomicfile.ReplaceIn(root, gpu.UsageFile, text, 0o644)
}
