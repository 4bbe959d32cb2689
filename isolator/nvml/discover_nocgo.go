//go:build !linux || !cgo

package nvml

import (
	"context"
	"fmt"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/layout"
)

// DiscoverHost needs cgo to load the library: a binary built without it
// (CGO_ENABLED=0) serves simulated hosts and returns ErrNoDriver here.
func DiscoverHost(c LibraryConfig) (gpu.Host, error) { return gpu.Host{}, noCgo(c) }

// DiscoverMIG needs it too.
func DiscoverMIG(c LibraryConfig) ([]MIGGPU, error) { return nil, noCgo(c) }

// Library needs cgo too: there is never an open one.
type Library struct{}

// Open returns ErrNoDriver.
func Open(c LibraryConfig) (*Library, error) { return nil, noCgo(c) }

// DescribeHost returns ErrNoDriver.
func (*Library) DescribeHost() (gpu.Host, error) { return gpu.Host{}, noCgo(LibraryConfig{}) }

// SampleDevice returns ErrNoDriver.
func (*Library) SampleDevice(string) (gpu.Sample, error) { return gpu.Sample{}, noCgo(LibraryConfig{}) }

// WaitEvent returns ErrNoDriver.
func (*Library) WaitEvent(context.Context) (DeviceEvent, error) {
	return DeviceEvent{}, noCgo(LibraryConfig{})
}

// ListMIGGPUs returns ErrNoDriver.
func (*Library) ListMIGGPUs() ([]gpu.Device, error) { return nil, noCgo(LibraryConfig{}) }

// ListProfiles returns ErrNoDriver.
func (*Library) ListProfiles(string) ([]layout.InstanceProfile, error) {
	return nil, noCgo(LibraryConfig{})
}

// ListInstances returns ErrNoDriver.
func (*Library) ListInstances(string) ([]layout.GPUInstance, error) {
	return nil, noCgo(LibraryConfig{})
}

// CreateInstance returns ErrNoDriver.
func (*Library) CreateInstance(string, layout.GPUInstance) error { return noCgo(LibraryConfig{}) }

// DestroyInstance returns ErrNoDriver.
func (*Library) DestroyInstance(string, layout.GPUInstance) error { return noCgo(LibraryConfig{}) }

// Close does nothing.
func (*Library) Close() error { return nil }

func noCgo(c LibraryConfig) error {
	return fmt.Errorf("load %s: %w: this binary was built without cgo; build it with CGO_ENABLED=1",
		c.withDefaults().Library, ErrNoDriver)
}
