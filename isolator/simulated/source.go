package simulated

import (
	"context"
	"fmt"
	"sync"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/health"
)

// Process is a process of a task that has simulated GPUs.
type Process struct {
	PID int
	// CPUTime is the time used since it started.
	CPUTime time.Duration
	// ResidentBytes is its resident memory.
	ResidentBytes int64
	// Devices are the UUIDs of the task's GPUs.
	Devices []string
}

// LoadSource returns samples that follow what tasks do on the CPU, so that tools
// have values to show. Its GPUs never fail. gpu.Host.Simulated marks the values as
// not real.
type LoadSource struct {
	devices map[string]gpu.Device
	list    func() []Process
	now     func() time.Time

	mu sync.Mutex
	// measuredAt is the time at which loads were measured. cpuTimes has the CPU
	// times of the processes at that time.
	measuredAt time.Time
	cpuTimes   map[int]time.Duration
	loads      map[string]*deviceLoad
}

// deviceLoad is the load of a device.
type deviceLoad struct {
	duty      float64
	joules    float64 // since the source exists
	processes []gpu.DeviceProcess
}

// NewLoadSource returns a source for the devices of a host from NewHost. list
// returns the processes of the tasks that have these devices.
func NewLoadSource(h gpu.Host, list func() []Process) *LoadSource {
	s := &LoadSource{devices: make(map[string]gpu.Device, len(h.Devices)), list: list, now: time.Now, loads: map[string]*deviceLoad{}}
	for _, d := range h.Devices {
		s.devices[d.UUID] = d
		s.loads[d.UUID] = &deviceLoad{}
	}
	return s
}

// measureEvery is the least time between two measurements of all devices: a
// shorter one would have few of the kernel's ticks.
const measureEvery = 2 * time.Second

// Values of an idle device and of one with a duty of 1. Those in between are
// linear.
const (
	idleWatts, busyWatts, limitWatts = 25, 225, 250
	idleCelsius, busyCelsius         = 30, 75
	idleHertz, busyHertz             = 300e6, 1400e6
	idleMemHertz, busyMemHertz       = 405e6, 877e6
)

func interpolate(idle, busy, duty float64) float64 { return idle + (busy-idle)*duty }

// Sample returns what a device does. The duty is the CPU time of its tasks'
// processes in the time since the measurement before, in CPUs and at most 1; the
// memory is their resident memory. A process with several devices uses each of
// them equally. Power, temperature and clocks follow the duty.
func (s *LoadSource) Sample(uuid string) (gpu.Sample, error) {
	d, ok := s.devices[uuid]
	if !ok {
		for _, slice := range s.devices { // the watcher samples the GPU of MIG devices
			if slice.MIG != nil && slice.MIG.Parent == uuid {
				return gpu.Sample{At: s.now()}, nil
			}
		}
		return gpu.Sample{}, fmt.Errorf("sample simulated device %s: not among the %d there are", uuid, len(s.devices))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now(); s.measuredAt.IsZero() || now.Sub(s.measuredAt) >= measureEvery {
		s.measure(now)
	}
	load, total := s.loads[uuid], float64(d.MemMiB)*(1<<20)
	used := 0.0
	for _, p := range load.processes {
		used += float64(p.MemBytes)
	}
	used = min(used, total)
	throttle := 0.0
	if load.duty == 0 {
		throttle = 1 // idle
	}
	return gpu.Sample{At: s.measuredAt, Processes: load.processes, Values: map[gpu.SampleField]float64{
		gpu.MemUsedBytes: used, gpu.MemTotalBytes: total,
		gpu.DutyRatio: load.duty, gpu.MemDutyRatio: load.duty * used / total,
		gpu.SMClockHertz: interpolate(idleHertz, busyHertz, load.duty), gpu.MemClockHertz: interpolate(idleMemHertz, busyMemHertz, load.duty),
		gpu.Celsius:    interpolate(idleCelsius, busyCelsius, load.duty),
		gpu.PowerWatts: interpolate(idleWatts, busyWatts, load.duty), gpu.PowerLimitWatts: limitWatts, gpu.EnergyJoules: load.joules,
		gpu.ECCCorrected: 0, gpu.ECCUncorrected: 0, gpu.RowsPending: 0,
		gpu.ThrottleReasons: throttle,
		gpu.PCIeTxBytes:     0, gpu.PCIeRxBytes: 0,
	}}, nil
}

// measure updates the loads of all devices. The first measurement has no earlier
// one to compare with, so it finds no duty.
func (s *LoadSource) measure(now time.Time) {
	elapsed := now.Sub(s.measuredAt)
	if s.measuredAt.IsZero() {
		elapsed = 0
	}
	busy, times := map[string]time.Duration{}, map[int]time.Duration{}
	for _, l := range s.loads {
		l.processes = nil
	}
	for _, p := range s.list() {
		times[p.PID] = p.CPUTime
		n := len(p.Devices)
		for _, uuid := range p.Devices {
			if l := s.loads[uuid]; l != nil {
				busy[uuid] += max(p.CPUTime-s.cpuTimes[p.PID], 0) / time.Duration(n)
				l.processes = append(l.processes, gpu.DeviceProcess{PID: p.PID, MemBytes: p.ResidentBytes / int64(n)})
			}
		}
	}
	for uuid, l := range s.loads {
		l.duty = 0
		if elapsed > 0 {
			l.duty = min(busy[uuid].Seconds()/elapsed.Seconds(), 1)
		}
		l.joules += interpolate(idleWatts, busyWatts, l.duty) * elapsed.Seconds()
	}
	s.measuredAt, s.cpuTimes = now, times
}

// Wait waits until ctx ends: there are no events.
func (s *LoadSource) Wait(ctx context.Context) (health.DeviceEvent, error) {
	<-ctx.Done()
	return health.DeviceEvent{}, ctx.Err()
}
