//go:build linux && cgo

package nvml

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/nvmltest"
)

// allMeasurements returns a value for every field.
func allMeasurements() map[gpu.SampleField]float64 {
	return map[gpu.SampleField]float64{
		gpu.MemUsedBytes: 7 << 30, gpu.MemTotalBytes: 32510 << 20, gpu.DutyRatio: 0.93, gpu.MemDutyRatio: 0.41,
		gpu.SMClockHertz: 1530e6, gpu.MemClockHertz: 877e6, gpu.Celsius: 67, gpu.PowerWatts: 287.25, gpu.PowerLimitWatts: 350,
		gpu.EnergyJoules: 123456.789, gpu.ECCCorrected: 12, gpu.ECCUncorrected: 1, gpu.RowsPending: 1, gpu.ThrottleReasons: 0x48,
		gpu.RowsFailed: 1, gpu.RecoveryAction: 4, gpu.FabricState: 3, gpu.FabricStatus: 5,
		gpu.PCIeTxBytes: 1.5e9, gpu.PCIeRxBytes: 2.5e9, gpu.NVLinkTxBytes: 3 << 40, gpu.NVLinkRxBytes: 5 << 40,
	}
}

var closely = cmpopts.EquateApprox(1e-12, 0)

func TestSampleDevice(t *testing.T) {
	m, l := openStandIn(t, v100s(2), LibraryConfig{})
	m.SetMeasurements(uuid(1), allMeasurements())
	m.SetMeasurements(uuid(0), map[gpu.SampleField]float64{gpu.Celsius: 30})
	m.AddComputeProcess(uuid(1), gpu.DeviceProcess{PID: 100, MemBytes: 1 << 30})
	m.AddComputeProcess(uuid(1), gpu.DeviceProcess{PID: 101, MemBytes: 2 << 30})
	m.AddGraphicsProcess(uuid(1), gpu.DeviceProcess{PID: 101, MemBytes: 2 << 30})
	m.AddGraphicsProcess(uuid(1), gpu.DeviceProcess{PID: 102, MemBytes: -1}) // NVML's "not available"

	before := time.Now()
	got, err := l.SampleDevice(uuid(1))
	if err != nil {
		t.Fatal(err)
	}
	want := gpu.Sample{At: got.At, Values: allMeasurements(), Processes: []gpu.DeviceProcess{
		{PID: 100, MemBytes: 1 << 30}, {PID: 101, MemBytes: 2 << 30}, {PID: 102},
	}}
	if diff := cmp.Diff(want, got, closely); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.At.Before(before) || got.At.After(time.Now()) {
		t.Errorf("at %s, before %s", got.At, before)
	}

	// An unsupported field is absent, and a changed value is observed.
	for _, celsius := range []float64{30, 88} {
		m.SetMeasurements(uuid(0), map[gpu.SampleField]float64{gpu.Celsius: celsius})
		got, err := l.SampleDevice(uuid(0))
		if err != nil {
			t.Fatal(err)
		}
		want := map[gpu.SampleField]float64{gpu.MemUsedBytes: 0, gpu.MemTotalBytes: 32510 << 20, gpu.Celsius: celsius}
		if diff := cmp.Diff(want, got.Values); diff != "" || got.Processes != nil {
			t.Errorf("processes %v, values (-want +got):\n%s", got.Processes, diff)
		}
	}
	if _, err := l.SampleDevice("GPU-x"); err == nil || !strings.Contains(err.Error(), "GPU-x: it is not among the 2 devices") {
		t.Errorf("unknown device: %v", err)
	}
}

// Fields are independent: one failing function does not affect the others.
func TestSampleWithoutOneFunction(t *testing.T) {
	m, l := openStandIn(t, v100s(1), LibraryConfig{})
	m.SetMeasurements(uuid(0), allMeasurements())
	for function, fields := range map[string][]gpu.SampleField{
		"nvmlDeviceGetMemoryInfo":                {gpu.MemUsedBytes, gpu.MemTotalBytes},
		"nvmlDeviceGetUtilizationRates":          {gpu.DutyRatio, gpu.MemDutyRatio},
		"nvmlDeviceGetClockInfo":                 {gpu.SMClockHertz, gpu.MemClockHertz},
		"nvmlDeviceGetTemperature":               {gpu.Celsius},
		"nvmlDeviceGetPowerUsage":                {gpu.PowerWatts},
		"nvmlDeviceGetEnforcedPowerLimit":        {gpu.PowerLimitWatts},
		"nvmlDeviceGetTotalEnergyConsumption":    {gpu.EnergyJoules},
		"nvmlDeviceGetTotalEccErrors":            {gpu.ECCCorrected, gpu.ECCUncorrected},
		"nvmlDeviceGetRemappedRows":              {gpu.RowsPending, gpu.RowsFailed},
		"nvmlDeviceGetGpuFabricInfo":             {gpu.FabricState, gpu.FabricStatus},
		"nvmlDeviceGetCurrentClocksEventReasons": nil, // the function with the older name is used instead
		"nvmlDeviceGetPcieThroughput":            {gpu.PCIeTxBytes, gpu.PCIeRxBytes},
		"nvmlDeviceGetFieldValues":               {gpu.NVLinkTxBytes, gpu.NVLinkRxBytes, gpu.RecoveryAction},
	} {
		m.SetFailures(nvmltest.FunctionFailure{Function: function, Index: -1, Return: 999})
		got, err := l.SampleDevice(uuid(0))
		if err != nil {
			t.Errorf("%s: %v", function, err)
			continue
		}
		want := allMeasurements()
		for _, f := range fields {
			delete(want, f)
		}
		if diff := cmp.Diff(want, got.Values, closely); diff != "" {
			t.Errorf("%s (-want +got):\n%s", function, diff)
		}
	}
}

// A device without any values has no load values, not a load of zero.
func TestSampleWithoutValues(t *testing.T) {
	m, l := openStandIn(t, v100s(1), LibraryConfig{})
	m.SetFailures(nvmltest.FunctionFailure{Function: "nvmlDeviceGetMemoryInfo", Index: -1, Return: 999})
	_, err := l.SampleDevice(uuid(0))
	if err == nil || errors.Is(err, ErrLost) || err.Error() != "sample GPU "+uuid(0)+": Stand-in error (NVML error 999)" {
		t.Errorf("got %v", err)
	}
}

// A GPU may be lost between two calls, the first of which returns "not supported".
func TestSampleOfGPULostMeanwhile(t *testing.T) {
	m, l := openStandIn(t, v100s(1), LibraryConfig{})
	m.SetFailures(nvmltest.FunctionFailure{Function: "nvmlDeviceGetGraphicsRunningProcesses_v3", Index: -1, Return: 15})
	if s, err := l.SampleDevice(uuid(0)); !errors.Is(err, ErrLost) {
		t.Errorf("got %v, %v", s, err)
	}
}

func TestSampleMIG(t *testing.T) {
	h := hostWithMIG()
	m, l := openStandIn(t, h, LibraryConfig{})
	parent, slice := h.Devices[0].MIG.Parent, h.Devices[1]
	m.SetMeasurements(parent, allMeasurements())
	m.SetMeasurements(slice.UUID, map[gpu.SampleField]float64{gpu.MemUsedBytes: 1 << 30, gpu.Celsius: 50})
	m.AddComputeProcess(slice.UUID, gpu.DeviceProcess{PID: 5, MemBytes: 1 << 30})
	got, err := l.SampleDevice(slice.UUID)
	if err != nil {
		t.Fatal(err)
	}
	want := gpu.Sample{At: got.At, Values: map[gpu.SampleField]float64{gpu.MemUsedBytes: 1 << 30, gpu.MemTotalBytes: 19968 << 20},
		Processes: []gpu.DeviceProcess{{PID: 5, MemBytes: 1 << 30}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("slice (-want +got):\n%s", diff)
	}
	// The parent GPU is not a device of the host, but can still be sampled.
	if got, err := l.SampleDevice(parent); err != nil || got.Values[gpu.Celsius] != 67 {
		t.Errorf("GPU: %v, %v", got.Values, err)
	}
	m.LoseGPU(parent)
	if _, err := l.SampleDevice(slice.UUID); !errors.Is(err, ErrLost) {
		t.Errorf("slice of a lost GPU: %v", err)
	}
}

func TestDecodeField(t *testing.T) {
	bits := func(n uint64) (b [8]byte) { binary.NativeEndian.PutUint64(b[:], n); return b }
	for _, c := range []struct {
		value nvml.FieldValue
		want  float64
		ok    bool
	}{
		{nvml.FieldValue{ValueType: uint32(nvml.VALUE_TYPE_UNSIGNED_LONG_LONG), Value: bits(1 << 40)}, 1 << 40, true},
		{nvml.FieldValue{ValueType: uint32(nvml.VALUE_TYPE_UNSIGNED_LONG), Value: bits(3)}, 3, true},
		{nvml.FieldValue{ValueType: uint32(nvml.VALUE_TYPE_UNSIGNED_INT), Value: bits(9<<32 | 4)}, 4, true},
		{nvml.FieldValue{ValueType: uint32(nvml.VALUE_TYPE_DOUBLE), Value: bits(math.Float64bits(2.5))}, 2.5, true},
		{nvml.FieldValue{ValueType: uint32(nvml.VALUE_TYPE_UNSIGNED_INT), NvmlReturn: 3}, 0, false},
		{nvml.FieldValue{ValueType: 77}, 0, false},
	} {
		if got, ok := decodeField(c.value); ok != c.ok || ok && got != c.want {
			t.Errorf("type %d: got %v, %t, want %v, %t", c.value.ValueType, got, ok, c.want, c.ok)
		}
	}
}
