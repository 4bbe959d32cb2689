package daemon

import (
	"context"
	"errors"
	"fmt"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/health"
	"mesos-gpu/isolator/mig"
	"mesos-gpu/isolator/nvml"
	"mesos-gpu/isolator/simulated"
	"mesos-gpu/isolator/watch"
)

// Hardware is a machine's GPUs and what measures them.
type Hardware struct {
	Host   gpu.Host
	Source watch.Source
	Close  func()
	// MIG cuts those in MIG mode, and Again describes the host after that; nil
	// where none can be cut.
	MIG   mig.Driver
	Again func() (gpu.Host, error)
}

// Simulated is hardware that is made up.
func Simulated(h gpu.Host) Hardware {
	return Hardware{Host: h, Source: simulated.NewSource(h), Close: func() {}}
}

// NVML is this machine's hardware. The error wraps nvml.ErrNoDriver where
// there is no driver.
func NVML(c nvml.Config) (Hardware, error) {
	lib, err := nvml.Open(c)
	if err != nil {
		return Hardware{}, err
	}
	h, err := lib.Host()
	if err != nil {
		return Hardware{}, errors.Join(err, lib.Close())
	}
	return Hardware{Host: h, Source: driver{lib}, MIG: lib, Again: lib.Host, Close: func() {
		if err := lib.Close(); err != nil && c.Log != nil {
			c.Log.WithError(err).Warn("NVML not shut down")
		}
	}}, nil
}

// driver says in package health's words what NVML tells.
type driver struct{ lib *nvml.Library }

// Sample implements watch.Source.
func (d driver) Sample(uuid string) (gpu.Sample, error) {
	s, err := d.lib.Sample(uuid)
	if errors.Is(err, nvml.ErrLost) {
		err = fmt.Errorf("%w: %w", health.ErrLost, err)
	}
	return s, err
}

// Wait implements watch.Source. Memory errors that the device has corrected
// are in its samples and no event.
func (d driver) Wait(ctx context.Context) (health.Event, error) {
	for {
		e, err := d.lib.Wait(ctx)
		if err != nil || !e.Corrected {
			return health.Event{Device: e.Device, XID: e.XID, ECC: e.ECC, Lost: e.Lost, At: e.At}, err
		}
	}
}
