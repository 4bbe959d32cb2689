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

// Hardware is the host's GPUs and the source of their measurements.
type Hardware struct {
	Host   gpu.Host
	Source watch.SampleSource
	Close  func()
	// MIG partitions the GPUs in MIG mode, and Rediscover describes the host after that. Both
	// are nil if no GPU can be partitioned.
	MIG        mig.InstanceDriver
	Rediscover func() (gpu.Host, error)
}

// SimulatedHardware returns simulated GPUs, whose samples follow what the processes of their tasks do on the CPU.
func SimulatedHardware(h gpu.Host) Hardware {
	return Hardware{Host: h, Source: simulated.NewLoadSource(h, listGPUProcesses), Close: func() {}}
}

// OpenNVML opens this host's GPUs. The error wraps nvml.ErrNoDriver if there is no driver.
func OpenNVML(c nvml.LibraryConfig) (Hardware, error) {
	lib, err := nvml.Open(c)
	if err != nil {
		return Hardware{}, err
	}
	h, err := lib.DescribeHost()
	if err != nil {
		return Hardware{}, errors.Join(err, lib.Close())
	}
	return Hardware{Host: h, Source: nvmlSource{lib}, MIG: lib, Rediscover: lib.DescribeHost, Close: func() {
		if err := lib.Close(); err != nil && c.Log != nil {
			c.Log.WithError(err).Warn("NVML not shut down")
		}
	}}, nil
}

// nvmlSource converts NVML's samples and events to those of package health.
type nvmlSource struct{ lib *nvml.Library }

// Sample implements watch.SampleSource.
func (n nvmlSource) Sample(uuid string) (gpu.Sample, error) {
	s, err := n.lib.SampleDevice(uuid)
	if errors.Is(err, nvml.ErrLost) {
		err = fmt.Errorf("%w: %w", health.ErrLost, err)
	}
	return s, err
}

// Wait implements watch.SampleSource. Memory errors that the device corrected are counted in
// its samples and are no events.
func (n nvmlSource) Wait(ctx context.Context) (health.DeviceEvent, error) {
	for {
		e, err := n.lib.WaitEvent(ctx)
		if err != nil || !e.Corrected {
			return health.DeviceEvent{Device: e.Device, XID: e.XID, ECC: e.ECC, Lost: e.Lost, At: e.At}, err
		}
	}
}
