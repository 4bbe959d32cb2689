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
	// usageInterval is the time between two reports.
	usageInterval = 5 * time.Second
)

// reportUsage writes the utilization of the running task's devices to a file
// in the sandbox, if the agent has a daemon that measures it. The file is
// informational: a failed write never ends the task.
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
				l.log.WithError(err).Info("GPU usage is not reported")
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

// writeUsage reads the utilization and writes the file once.
func (c *ExecutorConfig) writeUsage(ctx context.Context, container string, devices []string, parts bool) error {
	ctx, cancel := context.WithTimeout(ctx, usageInterval)
	defer cancel()
	use, err := c.ReadUsage(ctx, container, devices, parts)
	if err != nil {
		return err
	}
	if use.Time.IsZero() {
		return errors.New("the task's GPUs have not been measured yet")
	}
	text, err := json.Marshal(use)
	if err != nil {
		return fmt.Errorf("encode GPU usage: %w", err)
	}
	if err := replaceUsageFile(c.Sandbox, text); err != nil {
		return fmt.Errorf("write GPU usage: %w", err)
	}
	return nil
}

// replaceUsageFile replaces the file in the sandbox. The task can write there
// and this process may be root, so links and files that the task put at its
// name are replaced, never followed.
func replaceUsageFile(sandbox string, text []byte) error {
	root, err := os.OpenRoot(sandbox)
	if err != nil {
		return err
	}
	defer root.Close()
	return atomicfile.ReplaceIn(root, gpu.UsageFile, text, 0o644)
}
