//go:build linux && cgo

package nvml

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"mesos-gpu/gpu"
)

// sampleReader reads one sample of a device. A value that the library lacks or the device does
// not support is left out. If the device is lost, no more values are read.
type sampleReader struct {
	s       *nvmlSession
	handle  nvml.Device
	sample  gpu.Sample
	err     error // the first thing that went wrong
	aborted bool
}

// readSample samples the device. A MIG device has values for its memory and processes only:
// NVML reports power, clocks and errors for the whole GPU.
func (s *nvmlSession) readSample(handle nvml.Device, slice bool) (gpu.Sample, error) {
	r := &sampleReader{s: s, handle: handle, sample: gpu.Sample{At: time.Now(), Values: map[gpu.SampleField]float64{}}}
	r.readMemory()
	if !slice {
		r.readUtilization()
		r.readPower()
		r.readErrors()
		r.readTraffic()
	}
	r.readProcesses()
	// The first error explains why a device has no values at all.
	if r.aborted || len(r.sample.Values) == 0 {
		return gpu.Sample{}, r.err
	}
	return r.sample, nil
}

// callFunction reports whether the library has the function and the call succeeded.
func (r *sampleReader) callFunction(function string, call func() nvml.Return) bool {
	has, known := r.s.has[function]
	if r.aborted || known && !has {
		return false
	}
	ret := call()
	if ret == nvml.SUCCESS {
		return true
	}
	if err := newNVMLError(ret); r.err == nil || isFinal(err) {
		r.err, r.aborted = err, isFinal(err)
	}
	return false
}

// readNumber reads one number and stores it in the field, multiplied by by.
func readNumber[N uint32 | uint64](r *sampleReader, field gpu.SampleField, by float64, function string, call func() (N, nvml.Return)) bool {
	return r.callFunction(function, func() nvml.Return {
		n, ret := call()
		if ret == nvml.SUCCESS {
			r.sample.Values[field] = float64(n) * by
		}
		return ret
	})
}

func (r *sampleReader) readMemory() {
	r.callFunction("nvmlDeviceGetMemoryInfo", func() nvml.Return {
		m, ret := r.handle.GetMemoryInfo()
		if ret == nvml.SUCCESS {
			r.sample.Values[gpu.MemUsedBytes], r.sample.Values[gpu.MemTotalBytes] = float64(m.Used), float64(m.Total)
		}
		return ret
	})
}

func (r *sampleReader) readUtilization() {
	r.callFunction("nvmlDeviceGetUtilizationRates", func() nvml.Return {
		u, ret := r.handle.GetUtilizationRates()
		if ret == nvml.SUCCESS {
			r.sample.Values[gpu.DutyRatio], r.sample.Values[gpu.MemDutyRatio] = float64(u.Gpu)/100, float64(u.Memory)/100
		}
		return ret
	})
	const megahertz = 1e6
	for field, clock := range map[gpu.SampleField]nvml.ClockType{gpu.SMClockHertz: nvml.CLOCK_SM, gpu.MemClockHertz: nvml.CLOCK_MEM} {
		readNumber(r, field, megahertz, "nvmlDeviceGetClockInfo", func() (uint32, nvml.Return) { return r.handle.GetClockInfo(clock) })
	}
	// The function's older name serves older drivers.
	if !readNumber(r, gpu.ThrottleReasons, 1, "nvmlDeviceGetCurrentClocksEventReasons", r.handle.GetCurrentClocksEventReasons) {
		readNumber(r, gpu.ThrottleReasons, 1, "nvmlDeviceGetCurrentClocksThrottleReasons", r.handle.GetCurrentClocksThrottleReasons)
	}
}

func (r *sampleReader) readPower() {
	const milli = 1e-3
	readNumber(r, gpu.Celsius, 1, "nvmlDeviceGetTemperature", func() (uint32, nvml.Return) { return r.handle.GetTemperature(nvml.TEMPERATURE_GPU) })
	readNumber(r, gpu.PowerWatts, milli, "nvmlDeviceGetPowerUsage", r.handle.GetPowerUsage)
	readNumber(r, gpu.PowerLimitWatts, milli, "nvmlDeviceGetEnforcedPowerLimit", r.handle.GetEnforcedPowerLimit)
	readNumber(r, gpu.EnergyJoules, milli, "nvmlDeviceGetTotalEnergyConsumption", r.handle.GetTotalEnergyConsumption)
}

func (r *sampleReader) readErrors() {
	for field, kind := range map[gpu.SampleField]nvml.MemoryErrorType{
		gpu.ECCCorrected: nvml.MEMORY_ERROR_TYPE_CORRECTED, gpu.ECCUncorrected: nvml.MEMORY_ERROR_TYPE_UNCORRECTED,
	} {
		readNumber(r, field, 1, "nvmlDeviceGetTotalEccErrors", func() (uint64, nvml.Return) {
			return r.handle.GetTotalEccErrors(kind, nvml.VOLATILE_ECC)
		})
	}
	r.callFunction("nvmlDeviceGetRemappedRows", func() nvml.Return {
		_, _, pending, failed, ret := r.handle.GetRemappedRows()
		if ret == nvml.SUCCESS {
			r.sample.Values[gpu.RowsPending], r.sample.Values[gpu.RowsFailed] = flagValue(pending), flagValue(failed)
		}
		return ret
	})
	action := []nvml.FieldValue{{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}}
	if r.callFunction("nvmlDeviceGetFieldValues", func() nvml.Return { return r.handle.GetFieldValues(action) }) {
		if n, ok := decodeField(action[0]); ok {
			r.sample.Values[gpu.RecoveryAction] = n
		}
	}
	r.callFunction("nvmlDeviceGetGpuFabricInfo", func() nvml.Return {
		fabric, ret := r.handle.GetGpuFabricInfo()
		if ret == nvml.SUCCESS && fabric.State != nvml.GPU_FABRIC_STATE_NOT_SUPPORTED {
			r.sample.Values[gpu.FabricState], r.sample.Values[gpu.FabricStatus] = float64(fabric.State), float64(fabric.Status)
		}
		return ret
	})
}

func flagValue(set bool) float64 {
	if set {
		return 1
	}
	return 0
}

func (r *sampleReader) readTraffic() {
	// NVML measures each for 20 ms, in KB/s.
	for field, way := range map[gpu.SampleField]nvml.PcieUtilCounter{gpu.PCIeTxBytes: nvml.PCIE_UTIL_TX_BYTES, gpu.PCIeRxBytes: nvml.PCIE_UTIL_RX_BYTES} {
		readNumber(r, field, 1000, "nvmlDeviceGetPcieThroughput", func() (uint32, nvml.Return) { return r.handle.GetPcieThroughput(way) })
	}
	const allLinks = math.MaxUint32
	values := []nvml.FieldValue{
		{FieldId: nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ScopeId: allLinks},
		{FieldId: nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ScopeId: allLinks},
	}
	if !r.callFunction("nvmlDeviceGetFieldValues", func() nvml.Return { return r.handle.GetFieldValues(values) }) {
		return
	}
	for i, field := range []gpu.SampleField{gpu.NVLinkTxBytes, gpu.NVLinkRxBytes} {
		if kibibytes, ok := decodeField(values[i]); ok {
			r.sample.Values[field] = kibibytes * 1024
		}
	}
}

// decodeField returns the number in a field value, which contains its type.
func decodeField(v nvml.FieldValue) (float64, bool) {
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

// readProcesses lists the processes that use the device. NVML reports a process that computes
// and draws twice, with the same memory.
func (r *sampleReader) readProcesses() {
	at := map[uint32]int{}
	add := func(infos []nvml.ProcessInfo) {
		for _, p := range infos {
			i, seen := at[p.Pid]
			if !seen {
				i = len(r.sample.Processes)
				at[p.Pid] = i
				r.sample.Processes = append(r.sample.Processes, gpu.DeviceProcess{PID: int(p.Pid)})
			}
			const notAvailable = math.MaxUint64
			if p.UsedGpuMemory != notAvailable {
				mem := &r.sample.Processes[i].MemBytes
				*mem = max(*mem, int64(p.UsedGpuMemory))
			}
		}
	}
	r.callFunction("nvmlDeviceGetComputeRunningProcesses", func() nvml.Return {
		infos, ret := r.handle.GetComputeRunningProcesses()
		add(infos)
		return ret
	})
	r.callFunction("nvmlDeviceGetGraphicsRunningProcesses", func() nvml.Return {
		infos, ret := r.handle.GetGraphicsRunningProcesses()
		add(infos)
		return ret
	})
}
