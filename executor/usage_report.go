package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"mesos-gpu/executor/task"
	"mesos-gpu/gpu"
	"mesos-gpu/internal/atomicfile"
)

const (
	// usageInterval is the time between two reports.
	usageInterval = 5 * time.Second
	// lastUsageTimeout bounds how long the last report may delay the end of the task.
	lastUsageTimeout = 500 * time.Millisecond
)

// usageReport writes what the devices of one task do, and did since its start, to a file in its sandbox.
type usageReport struct {
	// mu protects last.
	mu sync.Mutex
	// last is the usage that was written last.
	last gpu.TaskUsage
}

// reportUsage writes the utilization of the running task's devices to a file
// in the sandbox, if the agent has a daemon that measures it. The file is
// informational: a failed write never ends the task.
func (l *taskLoop) reportUsage(ctx context.Context) {
	if l.cfg.ReadUsage == nil || l.state.task.GPUs == 0 {
		return
	}
	t := l.state.task
	l.goroutines.Go(func() {
		unknown := ""
		tick := time.NewTicker(usageInterval)
		defer tick.Stop()
		for {
			err := l.usage.write(ctx, &l.cfg, &t, usageInterval)
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

// reportLastUsage writes the file once more after the end of the task's process, before its status is sent.
func (l *taskLoop) reportLastUsage(ctx context.Context, t *task.TaskSpec) {
	if l.cfg.ReadUsage == nil || t.GPUs == 0 {
		return
	}
	if err := l.usage.write(ctx, &l.cfg, t, lastUsageTimeout); err != nil {
		l.log.WithError(err).Info("the last GPU usage is not reported")
	}
}

// write reads the utilization and writes the file once.
func (r *usageReport) write(ctx context.Context, c *ExecutorConfig, t *task.TaskSpec, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	use, err := c.ReadUsage(ctx, t.Container.Value, t.DeviceIDs, len(t.DeviceShares) > 0 && !t.WholeGPUs)
	if err != nil {
		return err
	}
	if use.Time.IsZero() {
		return errors.New("the task's GPUs have not been measured yet")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if use.Time.Before(r.last.Time) {
		return nil // the other goroutine has written a later one
	}
	use.AddTotals(&r.last)
	r.last = use
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
