package share

import (
	"context"

	"mesos-gpu/gpu"
)

// UnlimitedWarning is the warning for shares that are not enforced.
const UnlimitedWarning = "no limit holds on this agent (--share-limit none): the task can take more than its part of the GPU"

// NoLimiter enforces nothing: shares are only accounted.
type NoLimiter struct{}

// Method implements Limiter.
func (NoLimiter) Method() gpu.EnforcementMethod { return gpu.NotEnforced }

// CheckDevice implements Limiter.
func (NoLimiter) CheckDevice(context.Context, gpu.Device) error { return nil }

// AdmitContainer implements Limiter.
func (NoLimiter) AdmitContainer(context.Context, string, []gpu.DeviceShare) (LimitSetup, error) {
	return LimitSetup{}, nil
}

// ReadUsage implements Limiter.
func (NoLimiter) ReadUsage(string) ([]ShareUsage, error) { return nil, nil }

// ReleaseContainer implements Limiter.
func (NoLimiter) ReleaseContainer(context.Context, string) error { return nil }
