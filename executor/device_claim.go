package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	mesos "github.com/mesos/mesos-go/api/v1/lib"

	"mesos-gpu/executor/task"
	"mesos-gpu/gpu"
	"mesos-gpu/job"
)

const (
	// claimTimeout bounds how long a task waits for a daemon that does not answer. A restart of the
	// daemon or of the agent takes less. claimInterval is the pause between two attempts, and
	// claimCallTimeout bounds one.
	claimTimeout     = 30 * time.Second
	claimInterval    = time.Second
	claimCallTimeout = 10 * time.Second
)

// Errors that ClaimDevices wraps.
var (
	// ErrNoDaemon means that no daemon has run since the machine started. It then has not offered
	// the devices, unless it runs elsewhere.
	ErrNoDaemon = errors.New("this agent has no GPU daemon")
	// ErrNoClaims means that the daemon is of an earlier version, which answers no claims.
	ErrNoClaims = errors.New("this agent's GPU daemon is of an earlier version and answers no claims")
)

// DeviceRefusedError is returned by ClaimDevices if the daemon refuses a device: another container
// holds it, or the agent did not give it to this one.
type DeviceRefusedError struct{ Reason string }

func (e *DeviceRefusedError) Error() string { return e.Reason }

// machineFaultOf returns the value of job.MachineFaultLabel for a task that did not start, "" if
// its machine is not at fault.
func machineFaultOf(err error) string {
	if e := (*task.MachineFaultError)(nil); errors.As(err, &e) {
		return e.Fault
	}
	if e := (*DeviceRefusedError)(nil); errors.As(err, &e) { // of a simulated task
		return job.DeviceHeld
	}
	return ""
}

// notStarted is the error of a task whose devices are not confirmed.
func notStarted(err error) error {
	return &task.MachineFaultError{Fault: job.DeviceHeld, Err: fmt.Errorf("not started: %w", err)}
}

// claimDevices has the agent's daemon confirm that no other container holds the task's devices.
// Mesos's books can lag behind the agent, so a device in the task's resources may be in use. The
// error is a *task.MachineFaultError, or ctx's if ctx has ended. A task without named devices claims
// nothing: the agent's isolator chose its devices.
func (c *ExecutorConfig) claimDevices(ctx context.Context, t *task.TaskSpec) error {
	if c.ClaimDevices == nil || len(t.DeviceIDs) == 0 {
		return nil
	}
	deadline := time.Now().Add(claimTimeout)
	for attempt := 1; ; attempt++ {
		err := c.claimOnce(ctx, t)
		refused := (*DeviceRefusedError)(nil)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &refused):
			return notStarted(err)
		case errors.Is(err, ErrNoClaims), errors.Is(err, ErrNoDaemon) && !t.DevicesOfProvider:
			c.Log.WithError(err).Info("the task's GPUs are not claimed")
			return nil
		case !time.Now().Before(deadline):
			err = fmt.Errorf("the agent's GPU daemon has not confirmed within %s and %d attempts that no other container holds the task's %d %s: %w",
				claimTimeout, attempt, len(t.DeviceIDs), gpu.Plural(len(t.DeviceIDs), "GPU"), err)
			return notStarted(err)
		case attempt == 1:
			c.Log.WithError(err).Warn("cannot claim the task's GPUs yet")
		}
		select {
		case <-time.After(claimInterval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *ExecutorConfig) claimOnce(ctx context.Context, t *task.TaskSpec) error {
	ctx, cancel := context.WithTimeout(ctx, claimCallTimeout)
	defer cancel()
	return c.ClaimDevices(ctx, t.Container.Value, t.DeviceIDs)
}

// namesProviderDevices reports whether a resource provider, which is the daemon, offered any of
// the devices.
func namesProviderDevices(resources []mesos.Resource) bool {
	return slices.ContainsFunc(resources, func(r mesos.Resource) bool {
		_, _, share := gpu.ShareResource(r.Name)
		return r.ProviderID != nil && (share || r.Name == "gpu_ids")
	})
}
