//go:build !linux || !cgo

package nvml

import (
	"context"
	"fmt"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/layout"
)

// Discover needs cgo to load the library: a binary built without it
// (CGO_ENABLED=0) serves simulated hosts and returns ErrNoDriver here.
func Discover(c Config) (gpu.Host, error) { return gpu.Host{}, noCgo(c) }

// DiscoverMIG needs it too.
func DiscoverMIG(c Config) ([]Cuttable, error) { return nil, noCgo(c) }

// Library needs cgo too: there is never an open one.
type Library struct{}

// Open returns ErrNoDriver.
func Open(c Config) (*Library, error) { return nil, noCgo(c) }

// Host returns ErrNoDriver.
func (*Library) Host() (gpu.Host, error) { return gpu.Host{}, noCgo(Config{}) }

// Sample returns ErrNoDriver.
func (*Library) Sample(string) (gpu.Sample, error) { return gpu.Sample{}, noCgo(Config{}) }

// Wait returns ErrNoDriver.
func (*Library) Wait(context.Context) (Event, error) { return Event{}, noCgo(Config{}) }

// Cuttable returns ErrNoDriver, and so do all that ask for MIG.
func (*Library) Cuttable() ([]gpu.Device, error) { return nil, noCgo(Config{}) }

// Profiles returns ErrNoDriver.
func (*Library) Profiles(string) ([]layout.Profile, error) { return nil, noCgo(Config{}) }

// Instances returns ErrNoDriver.
func (*Library) Instances(string) ([]layout.Instance, error) { return nil, noCgo(Config{}) }

// Create returns ErrNoDriver.
func (*Library) Create(string, layout.Instance) error { return noCgo(Config{}) }

// Destroy returns ErrNoDriver.
func (*Library) Destroy(string, layout.Instance) error { return noCgo(Config{}) }

// Close does nothing.
func (*Library) Close() error { return nil }

// MemoryLimits needs cgo too.
type MemoryLimits struct{ c Config }

// NewMemoryLimits is as with cgo.
func NewMemoryLimits(c Config) *MemoryLimits { return &MemoryLimits{c} }

// Check returns ErrNoDriver.
func (m *MemoryLimits) Check(string) error { return noCgo(m.c) }

// Set returns ErrNoDriver.
func (m *MemoryLimits) Set(string, string, uint64) error { return noCgo(m.c) }

// Get returns ErrNoDriver.
func (m *MemoryLimits) Get(string, string) (MemoryLimit, error) { return MemoryLimit{}, noCgo(m.c) }

func noCgo(c Config) error {
	return fmt.Errorf("load %s: %w: this binary was built without cgo; build it with CGO_ENABLED=1",
		c.withDefaults().Library, ErrNoDriver)
}
