package share

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"mesos-gpu/gpu"
)

// MIGLimiter enforces shares by MIG devices: each has at most one container,
// which the hardware confines to it.
type MIGLimiter struct {
	mu sync.Mutex
	// admitted has the shares of each container, from AdmitContainer to
	// ReleaseContainer. No two containers have the same device.
	admitted map[string][]gpu.DeviceShare
}

// NewMIGLimiter returns a limiter without containers.
func NewMIGLimiter() *MIGLimiter { return &MIGLimiter{admitted: map[string][]gpu.DeviceShare{}} }

// Method implements Limiter.
func (m *MIGLimiter) Method() gpu.EnforcementMethod { return gpu.EnforcedByMIG }

// CheckDevice implements Limiter.
func (m *MIGLimiter) CheckDevice(_ context.Context, d gpu.Device) error {
	if d.MIG == nil {
		return errors.New("it is not a MIG device")
	}
	return nil
}

// AdmitContainer implements Limiter.
func (m *MIGLimiter) AdmitContainer(_ context.Context, container string, shares []gpu.DeviceShare) (LimitSetup, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, other := range slices.Sorted(maps.Keys(m.admitted)) {
		for _, p := range shares {
			if other != container && slices.ContainsFunc(m.admitted[other], func(q gpu.DeviceShare) bool { return q.UUID == p.UUID }) {
				return LimitSetup{}, fmt.Errorf("container %s has MIG device %s, which takes one container: request all of its memory", other, p.UUID)
			}
		}
	}
	m.admitted[container] = slices.Clone(shares)
	return LimitSetup{}, nil
}

// ReadUsage implements Limiter. MIG measures nothing of a container.
func (m *MIGLimiter) ReadUsage(container string) ([]ShareUsage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []ShareUsage
	for _, p := range m.admitted[container] {
		list = append(list, ShareUsage{UUID: p.UUID, MemLimitBytes: p.MemMiB << 20, Cores: p.Cores})
	}
	return list, nil
}

// ReleaseContainer implements Limiter.
func (m *MIGLimiter) ReleaseContainer(_ context.Context, container string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.admitted, container)
	return nil
}
