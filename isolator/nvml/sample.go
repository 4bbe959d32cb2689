//go:build linux && cgo

package nvml

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"mesos-gpu/gpu"
)

// reading asks one device for all it tells. A question that the library
// lacks or the device does not support leaves its field out; that the device
// is lost ends the questions.
type reading struct {
	s      *session
	handle nvml.Device
	sample gpu.Sample
	err    error // the first thing that went wrong
	over   bool
}

// read measures the device. A slice tells of its memory and processes: what
// NVML tells of power, clocks and errors is the whole GPU's.
func (s *session) read(handle nvml.Device, slice bool) (gpu.Sample, error) {
	r := &reading{s: s, handle: handle, sample: gpu.Sample{At: time.Now(), Values: map[gpu.Field]float64{}}}
	r.memory()
	if !slice {
		r.load()
		r.power()
		r.errors()
		r.traffic()
	}
	r.processes()
	// A device that tells nothing at all says why in its first answer.
	if r.over || len(r.sample.Values) == 0 {
		return gpu.Sample{}, r.err
	}
	return r.sample, nil
}

// ask reports whether the function is there and the call succeeded.
func (r *reading) ask(function string, call func() nvml.Return) bool {
	has, known := r.s.has[function]
	if r.over || known && !has {
		return false
	}
	ret := call()
	if ret == nvml.SUCCESS {
		return true
	}
	if err := fault(ret); r.err == nil || final(err) {
		r.err, r.over = err, final(err)
	}
	return false
}

// number reads one number and puts it in the field, times by.
func number[N uint32 | uint64](r *reading, field gpu.Field, by float64, function string, call func() (N, nvml.Return)) bool {
	return r.ask(function, func() nvml.Return {
		n, ret := call()
		if ret == nvml.SUCCESS {
			r.sample.Values[field] = float64(n) * by
		}
		return ret
	})
}

func (r *reading) memory() {
	r.ask("nvmlDeviceGetMemoryInfo", func() nvml.Return {
		m, ret := r.handle.GetMemoryInfo()
		if ret == nvml.SUCCESS {
			r.sample.Values[gpu.MemUsedBytes], r.sample.Values[gpu.MemTotalBytes] = float64(m.Used), float64(m.Total)
		}
		return ret
	})
}

func (r *reading) load() {
	r.ask("nvmlDeviceGetUtilizationRates", func() nvml.Return {
		u, ret := r.handle.GetUtilizationRates()
		if ret == nvml.SUCCESS {
			r.sample.Values[gpu.DutyRatio], r.sample.Values[gpu.MemDutyRatio] = float64(u.Gpu)/100, float64(u.Memory)/100
		}
		return ret
	})
	const megahertz = 1e6
	for field, clock := range map[gpu.Field]nvml.ClockType{gpu.SMClockHertz: nvml.CLOCK_SM, gpu.MemClockHertz: nvml.CLOCK_MEM} {
		number(r, field, megahertz, "nvmlDeviceGetClockInfo", func() (uint32, nvml.Return) { return r.handle.GetClockInfo(clock) })
	}
	// The function's older name serves older drivers.
	if !number(r, gpu.ThrottleReasons, 1, "nvmlDeviceGetCurrentClocksEventReasons", r.handle.GetCurrentClocksEventReasons) {
		number(r, gpu.ThrottleReasons, 1, "nvmlDeviceGetCurrentClocksThrottleReasons", r.handle.GetCurrentClocksThrottleReasons)
	}
}

func (r *reading) power() {
	const milli = 1e-3
	number(r, gpu.Celsius, 1, "nvmlDeviceGetTemperature", func() (uint32, nvml.Return) { return r.handle.GetTemperature(nvml.TEMPERATURE_GPU) })
	number(r, gpu.PowerWatts, milli, "nvmlDeviceGetPowerUsage", r.handle.GetPowerUsage)
	number(r, gpu.PowerLimitWatts, milli, "nvmlDeviceGetEnforcedPowerLimit", r.handle.GetEnforcedPowerLimit)
	number(r, gpu.EnergyJoules, milli, "nvmlDeviceGetTotalEnergyConsumption", r.handle.GetTotalEnergyConsumption)
}

func (r *reading) errors() {
	for field, kind := range map[gpu.Field]nvml.MemoryErrorType{
		gpu.ECCCorrected: nvml.MEMORY_ERROR_TYPE_CORRECTED, gpu.ECCUncorrected: nvml.MEMORY_ERROR_TYPE_UNCORRECTED,
	} {
		number(r, field, 1, "nvmlDeviceGetTotalEccErrors", func() (uint64, nvml.Return) {
			return r.handle.GetTotalEccErrors(kind, nvml.VOLATILE_ECC)
		})
	}
	number(r, gpu.RowsPending, 1, "nvmlDeviceGetRemappedRows", func() (n uint32, ret nvml.Return) {
		_, _, pending, _, ret := r.handle.GetRemappedRows()
		if pending {
			n = 1
		}
		return n, ret
	})
}

func (r *reading) traffic() {
	// NVML measures each for 20 ms, in KB/s.
	for field, way := range map[gpu.Field]nvml.PcieUtilCounter{gpu.PCIeTxBytes: nvml.PCIE_UTIL_TX_BYTES, gpu.PCIeRxBytes: nvml.PCIE_UTIL_RX_BYTES} {
		number(r, field, 1000, "nvmlDeviceGetPcieThroughput", func() (uint32, nvml.Return) { return r.handle.GetPcieThroughput(way) })
	}
	const allLinks = math.MaxUint32
	values := []nvml.FieldValue{
		{FieldId: nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ScopeId: allLinks},
		{FieldId: nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ScopeId: allLinks},
	}
	if !r.ask("nvmlDeviceGetFieldValues", func() nvml.Return { return r.handle.GetFieldValues(values) }) {
		return
	}
	for i, field := range []gpu.Field{gpu.NVLinkTxBytes, gpu.NVLinkRxBytes} {
		if kibibytes, ok := decode(values[i]); ok {
			r.sample.Values[field] = kibibytes * 1024
		}
	}
}

// decode reads a field value, whose type comes with it.
func decode(v nvml.FieldValue) (float64, bool) {
	bits := binary.NativeEndian.Uint64(v.Value[:])
	switch nvml.ValueType(v.ValueType) {
	case nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG:
		return float64(bits), nvml.Return(v.NvmlReturn) == nvml.SUCCESS
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		return float64(binary.NativeEndian.Uint32(v.Value[:4])), nvml.Return(v.NvmlReturn) == nvml.SUCCESS
	case nvml.VALUE_TYPE_DOUBLE:
		return math.Float64frombits(bits), nvml.Return(v.NvmlReturn) == nvml.SUCCESS
	default:
		return 0, false
	}
}

// processes lists who uses the device. A process that computes and draws is
// told of twice, with the same memory.
func (r *reading) processes() {
	at := map[uint32]int{}
	add := func(infos []nvml.ProcessInfo) {
		for _, p := range infos {
			i, seen := at[p.Pid]
			if !seen {
				i = len(r.sample.Processes)
				at[p.Pid] = i
				r.sample.Processes = append(r.sample.Processes, gpu.Process{PID: int(p.Pid)})
			}
			const notAvailable = math.MaxUint64
			if p.UsedGpuMemory != notAvailable {
				mem := &r.sample.Processes[i].MemBytes
				*mem = max(*mem, int64(p.UsedGpuMemory))
			}
		}
	}
	r.ask("nvmlDeviceGetComputeRunningProcesses", func() nvml.Return {
		infos, ret := r.handle.GetComputeRunningProcesses()
		add(infos)
		return ret
	})
	r.ask("nvmlDeviceGetGraphicsRunningProcesses", func() nvml.Return {
		infos, ret := r.handle.GetGraphicsRunningProcesses()
		add(infos)
		return ret
	})
}
