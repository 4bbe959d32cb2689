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
	"mesos-gpu/isolator/nvml/nvmltest"
)

// everything is a value for each field there is.
func everything() map[gpu.Field]float64 {
	return map[gpu.Field]float64{
		gpu.MemUsedBytes: 7 << 30, gpu.MemTotalBytes: 32510 << 20, gpu.DutyRatio: 0.93, gpu.MemDutyRatio: 0.41,
		gpu.SMClockHertz: 1530e6, gpu.MemClockHertz: 877e6, gpu.Celsius: 67, gpu.PowerWatts: 287.25, gpu.PowerLimitWatts: 350,
		gpu.EnergyJoules: 123456.789, gpu.ECCCorrected: 12, gpu.ECCUncorrected: 1, gpu.RowsPending: 1, gpu.ThrottleReasons: 0x48,
		gpu.PCIeTxBytes: 1.5e9, gpu.PCIeRxBytes: 2.5e9, gpu.NVLinkTxBytes: 3 << 40, gpu.NVLinkRxBytes: 5 << 40,
	}
}

var closely = cmpopts.EquateApprox(1e-12, 0)

func TestSample(t *testing.T) {
	m, l := opened(t, v100s(2), Config{})
	m.Measure(uuid(1), everything())
	m.Measure(uuid(0), map[gpu.Field]float64{gpu.Celsius: 30})
	m.Compute(uuid(1), gpu.Process{PID: 100, MemBytes: 1 << 30})
	m.Compute(uuid(1), gpu.Process{PID: 101, MemBytes: 2 << 30})
	m.Draw(uuid(1), gpu.Process{PID: 101, MemBytes: 2 << 30})
	m.Draw(uuid(1), gpu.Process{PID: 102, MemBytes: -1}) // NVML's "not available"

	before := time.Now()
	got, err := l.Sample(uuid(1))
	if err != nil {
		t.Fatal(err)
	}
	want := gpu.Sample{At: got.At, Values: everything(), Processes: []gpu.Process{
		{PID: 100, MemBytes: 1 << 30}, {PID: 101, MemBytes: 2 << 30}, {PID: 102},
	}}
	if diff := cmp.Diff(want, got, closely); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.At.Before(before) || got.At.After(time.Now()) {
		t.Errorf("at %s, before %s", got.At, before)
	}

	// What is not supported is absent, and what changes is seen.
	for _, celsius := range []float64{30, 88} {
		m.Measure(uuid(0), map[gpu.Field]float64{gpu.Celsius: celsius})
		got, err := l.Sample(uuid(0))
		if err != nil {
			t.Fatal(err)
		}
		want := map[gpu.Field]float64{gpu.MemUsedBytes: 0, gpu.MemTotalBytes: 32510 << 20, gpu.Celsius: celsius}
		if diff := cmp.Diff(want, got.Values); diff != "" || got.Processes != nil {
			t.Errorf("processes %v, values (-want +got):\n%s", got.Processes, diff)
		}
	}
	if _, err := l.Sample("GPU-x"); err == nil || !strings.Contains(err.Error(), "GPU-x: it is not among the 2 devices") {
		t.Errorf("unknown device: %v", err)
	}
}

// Each field stands alone: one that fails takes no other with it.
func TestSampleWithoutOne(t *testing.T) {
	m, l := opened(t, v100s(1), Config{})
	m.Measure(uuid(0), everything())
	for function, fields := range map[string][]gpu.Field{
		"nvmlDeviceGetMemoryInfo":                {gpu.MemUsedBytes, gpu.MemTotalBytes},
		"nvmlDeviceGetUtilizationRates":          {gpu.DutyRatio, gpu.MemDutyRatio},
		"nvmlDeviceGetClockInfo":                 {gpu.SMClockHertz, gpu.MemClockHertz},
		"nvmlDeviceGetTemperature":               {gpu.Celsius},
		"nvmlDeviceGetPowerUsage":                {gpu.PowerWatts},
		"nvmlDeviceGetEnforcedPowerLimit":        {gpu.PowerLimitWatts},
		"nvmlDeviceGetTotalEnergyConsumption":    {gpu.EnergyJoules},
		"nvmlDeviceGetTotalEccErrors":            {gpu.ECCCorrected, gpu.ECCUncorrected},
		"nvmlDeviceGetRemappedRows":              {gpu.RowsPending},
		"nvmlDeviceGetCurrentClocksEventReasons": nil, // the older name serves
		"nvmlDeviceGetPcieThroughput":            {gpu.PCIeTxBytes, gpu.PCIeRxBytes},
		"nvmlDeviceGetFieldValues":               {gpu.NVLinkTxBytes, gpu.NVLinkRxBytes},
	} {
		m.Fail(nvmltest.Fail{Function: function, Index: -1, Return: 999})
		got, err := l.Sample(uuid(0))
		if err != nil {
			t.Errorf("%s: %v", function, err)
			continue
		}
		want := everything()
		for _, f := range fields {
			delete(want, f)
		}
		if diff := cmp.Diff(want, got.Values, closely); diff != "" {
			t.Errorf("%s (-want +got):\n%s", function, diff)
		}
	}
}

// A device that tells nothing is no device without load.
func TestSampleOfNothing(t *testing.T) {
	m, l := opened(t, v100s(1), Config{})
	m.Fail(nvmltest.Fail{Function: "nvmlDeviceGetMemoryInfo", Index: -1, Return: 999})
	_, err := l.Sample(uuid(0))
	if err == nil || errors.Is(err, ErrLost) || err.Error() != "sample GPU "+uuid(0)+": Stand-in error (NVML error 999)" {
		t.Errorf("got %v", err)
	}
}

// A GPU may be lost between two answers, the first of them "not supported".
func TestSampleLostMeanwhile(t *testing.T) {
	m, l := opened(t, v100s(1), Config{})
	m.Fail(nvmltest.Fail{Function: "nvmlDeviceGetGraphicsRunningProcesses_v3", Index: -1, Return: 15})
	if s, err := l.Sample(uuid(0)); !errors.Is(err, ErrLost) {
		t.Errorf("got %v, %v", s, err)
	}
}

func TestSampleMIG(t *testing.T) {
	h := sliced()
	m, l := opened(t, h, Config{})
	parent, slice := h.Devices[0].MIG.Parent, h.Devices[1]
	m.Measure(parent, everything())
	m.Measure(slice.UUID, map[gpu.Field]float64{gpu.MemUsedBytes: 1 << 30, gpu.Celsius: 50})
	m.Compute(slice.UUID, gpu.Process{PID: 5, MemBytes: 1 << 30})
	got, err := l.Sample(slice.UUID)
	if err != nil {
		t.Fatal(err)
	}
	want := gpu.Sample{At: got.At, Values: map[gpu.Field]float64{gpu.MemUsedBytes: 1 << 30, gpu.MemTotalBytes: 19968 << 20},
		Processes: []gpu.Process{{PID: 5, MemBytes: 1 << 30}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("slice (-want +got):\n%s", diff)
	}
	// The GPU itself is no device of the host, and can be sampled still.
	if got, err := l.Sample(parent); err != nil || got.Values[gpu.Celsius] != 67 {
		t.Errorf("GPU: %v, %v", got.Values, err)
	}
	m.Lose(parent)
	if _, err := l.Sample(slice.UUID); !errors.Is(err, ErrLost) {
		t.Errorf("slice of a lost GPU: %v", err)
	}
}

func TestDecode(t *testing.T) {
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
		if got, ok := decode(c.value); ok != c.ok || ok && got != c.want {
			t.Errorf("type %d: got %v, %t, want %v, %t", c.value.ValueType, got, ok, c.want, c.ok)
		}
	}
}
