package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
	"mesos-gpu/gpu"
)

// ShareEnforcement is how the agent's daemon enforces a container's shares of
// devices.
type ShareEnforcement struct {
	Limit task.ShareLimit
	// Warning, if not empty, is shown to the task's user.
	Warning string
}

// parseDeviceShares returns a task's shares of devices, sorted by device UUID.
func parseDeviceShares(resources []mesos.Resource) ([]gpu.DeviceShare, error) {
	byName := map[string]gpu.DeviceShare{}
	for _, r := range resources {
		uuid, cores, ok := gpu.ShareResource(r.Name)
		if !ok {
			continue
		}
		p, amount := byName[uuid], int64(r.GetScalar().GetValue())
		p.UUID = uuid
		if cores {
			p.Cores += int(amount)
		} else {
			p.MemMiB += amount
		}
		byName[uuid] = p
	}
	var parts []gpu.DeviceShare
	for uuid, p := range byName {
		if p.MemMiB < 1 {
			return nil, fmt.Errorf("task holds %d MiB of device %s and %d %% of its cores: take memory of it from the offer", p.MemMiB, uuid, p.Cores)
		}
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b gpu.DeviceShare) int { return cmp.Compare(a.UUID, b.UUID) })
	return parts, nil
}

// applyShareLimit adds what enforces the task's shares of devices to the task.
// It returns an error if the shares cannot be enforced: the task must not
// start.
func (c *ExecutorConfig) applyShareLimit(ctx context.Context, t *task.TaskSpec) (warning string, err error) {
	if len(t.DeviceShares) == 0 {
		return "", nil
	}
	what := fmt.Sprintf("enforce the task's share of %d %s", len(t.DeviceShares), gpu.Plural(len(t.DeviceShares), "GPU"))
	if c.ReadShareLimits == nil {
		return "", errors.New(what + ": the agent has no GPU daemon (mesos-gpu agent)")
	}
	s, err := c.ReadShareLimits(ctx, t.Container.Value)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	t.ShareLimit = s.Limit
	if s.Warning != "" {
		c.Log.WithField("task", t.ID).Warn(s.Warning)
	}
	return s.Warning, nil
}
