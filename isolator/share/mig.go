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

// MIG rounds each part up to a MIG device that exists: it takes one container
// a device, which the hardware keeps to it.
type MIG struct {
	mu       sync.Mutex
	admitted map[string][]gpu.Part // by container
}

// NewMIG has admitted nobody.
func NewMIG() *MIG { return &MIG{admitted: map[string][]gpu.Part{}} }

// Method implements Limiter.
func (m *MIG) Method() gpu.Method { return gpu.HeldByMIG }

// Check implements Limiter.
func (m *MIG) Check(_ context.Context, d gpu.Device) error {
	if d.MIG == nil {
		return errors.New("it is no MIG device")
	}
	return nil
}

// Admit implements Limiter.
func (m *MIG) Admit(_ context.Context, container string, parts []gpu.Part) (Setup, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, other := range slices.Sorted(maps.Keys(m.admitted)) {
		for _, p := range parts {
			if other != container && slices.ContainsFunc(m.admitted[other], func(q gpu.Part) bool { return q.UUID == p.UUID }) {
				return Setup{}, fmt.Errorf("container %s has MIG device %s, which takes one: ask for all of its memory", other, p.UUID)
			}
		}
	}
	m.admitted[container] = slices.Clone(parts)
	return Setup{}, nil
}

// Usage implements Limiter: MIG measures nothing of a container.
func (m *MIG) Usage(container string) ([]Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []Usage
	for _, p := range m.admitted[container] {
		list = append(list, Usage{UUID: p.UUID, MemLimitBytes: p.MemMiB << 20, Cores: p.Cores})
	}
	return list, nil
}

// Release implements Limiter.
func (m *MIG) Release(_ context.Context, container string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.admitted, container)
	return nil
}
