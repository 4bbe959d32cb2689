package share

import (
	"context"
	"fmt"

	"mesos-gpu/gpu"
)

// deviceWaiter is implemented by limiters that change a device while containers have shares of it.
type deviceWaiter interface {
	// AwaitUnlimited returns once nothing limits the processes of the device. It returns an error if that does not
	// happen in time.
	AwaitUnlimited(ctx context.Context, uuid string) error
}

// wholeDeviceLimiter wraps a limiter. A container that has all of a device, memory and cores, needs no limit on it: no other
// container has a share. So it starts in the same way as on a device that is not shared.
type wholeDeviceLimiter struct {
	Limiter
	capacity func(uuid string) (all gpu.DeviceShare, isShared bool)
}

// ExemptWholeDevices returns a limiter that limits containers to the shares of l, except on devices of which they have all.
// capacity returns how much there is of a shared device.
func ExemptWholeDevices(l Limiter, capacity func(uuid string) (all gpu.DeviceShare, isShared bool)) Limiter {
	return wholeDeviceLimiter{l, capacity}
}

// AdmitContainer implements Limiter. It returns once the device is free of what limited the containers before.
func (l wholeDeviceLimiter) AdmitContainer(ctx context.Context, container string, shares []gpu.DeviceShare) (LimitSetup, error) {
	var limited []gpu.DeviceShare
	var whole []string
	for _, s := range shares {
		if all, isShared := l.capacity(s.UUID); isShared && s.MemMiB >= all.MemMiB && s.Cores >= all.Cores {
			whole = append(whole, s.UUID)
		} else {
			limited = append(limited, s)
		}
	}
	if waiter, ok := l.Limiter.(deviceWaiter); ok {
		for _, uuid := range whole {
			if err := waiter.AwaitUnlimited(ctx, uuid); err != nil {
				return LimitSetup{}, fmt.Errorf("use all of device %s: %w", uuid, err)
			}
		}
	}
	if len(limited) == 0 {
		return LimitSetup{WholeDevices: whole}, nil
	}
	setup, err := l.Limiter.AdmitContainer(ctx, container, limited)
	setup.WholeDevices = whole
	return setup, err
}
