package share

import (
	"context"

	"mesos-gpu/gpu"
)

// Unlimited is the warning that goes with parts which nothing holds.
const Unlimited = "no limit holds on this agent (--share-limit none): the task can take more than its part of the GPU"

// None keeps books alone.
type None struct{}

// Method implements Limiter.
func (None) Method() gpu.Method { return gpu.NotHeld }

// Check implements Limiter.
func (None) Check(context.Context, gpu.Device) error { return nil }

// Admit implements Limiter.
func (None) Admit(context.Context, string, []gpu.Part) (Setup, error) { return Setup{}, nil }

// Usage implements Limiter.
func (None) Usage(string) ([]Usage, error) { return nil, nil }

// Release implements Limiter.
func (None) Release(context.Context, string) error { return nil }
