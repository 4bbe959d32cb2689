package simulated

import (
	"context"
	"fmt"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/health"
)

// IdleSource returns constant samples of idle devices, so that tools have
// values to show. Its GPUs never fail. gpu.Host.Simulated marks the values as
// not real.
type IdleSource struct{ devices map[string]gpu.Device }

// NewIdleSource returns a source for the devices of a host from NewHost.
func NewIdleSource(h gpu.Host) *IdleSource {
	s := &IdleSource{devices: make(map[string]gpu.Device, len(h.Devices))}
	for _, d := range h.Devices {
		s.devices[d.UUID] = d
	}
	return s
}

// Sample returns the constant sample of a device.
func (s *IdleSource) Sample(uuid string) (gpu.Sample, error) {
	d, ok := s.devices[uuid]
	if !ok {
		return gpu.Sample{}, fmt.Errorf("sample simulated device %s: not among the %d there are", uuid, len(s.devices))
	}
	return gpu.Sample{At: time.Now(), Values: map[gpu.SampleField]float64{
		gpu.MemUsedBytes: 0, gpu.MemTotalBytes: float64(d.MemMiB) * (1 << 20),
		gpu.DutyRatio: 0, gpu.MemDutyRatio: 0,
		gpu.SMClockHertz: 300e6, gpu.MemClockHertz: 405e6,
		gpu.Celsius: 30, gpu.PowerWatts: 25, gpu.PowerLimitWatts: 250, gpu.EnergyJoules: 0,
		gpu.ECCCorrected: 0, gpu.ECCUncorrected: 0, gpu.RowsPending: 0,
		gpu.ThrottleReasons: 1, // idle
		gpu.PCIeTxBytes:     0, gpu.PCIeRxBytes: 0,
	}}, nil
}

// Wait waits until ctx ends: there are no events.
func (s *IdleSource) Wait(ctx context.Context) (health.DeviceEvent, error) {
	<-ctx.Done()
	return health.DeviceEvent{}, ctx.Err()
}
