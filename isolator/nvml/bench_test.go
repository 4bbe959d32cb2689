//go:build linux && cgo

package nvml

import (
	"testing"

	"mesos-gpu/gpu"
	"mesos-gpu/internal/testing/nvmltest"
)

// The fake library returns immediately: the benchmark measures this package, go-nvml and
// cgo over more than 1,000 calls.
func BenchmarkDiscover16(b *testing.B) {
	m := nvmltest.ReportHost(b, behindSwitches(16))
	c := LibraryConfig{Library: buildStandIn(b), SysRoot: m.SysRoot, ProcRoot: m.ProcRoot}
	for b.Loop() {
		if h, err := DiscoverHost(c); err != nil || len(h.Devices[15].NVLinks) != 15 {
			b.Fatal(h, err)
		}
	}
}

func BenchmarkSample(b *testing.B) {
	m, l := openStandIn(b, v100s(1), LibraryConfig{})
	m.SetMeasurements(uuid(0), allMeasurements())
	m.AddComputeProcess(uuid(0), gpu.DeviceProcess{PID: 100, MemBytes: 1 << 30})
	b.ReportAllocs()
	for b.Loop() {
		if s, err := l.SampleDevice(uuid(0)); err != nil || len(s.Values) != len(allMeasurements()) {
			b.Fatal(s, err)
		}
	}
}
