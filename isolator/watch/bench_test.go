package watch

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/health"
)

func sixteen() gpu.Host {
	var h gpu.Host
	for i := range 16 {
		h.Devices = append(h.Devices, gpu.Device{UUID: fmt.Sprint("GPU-", i)})
	}
	return h
}

// Measures the real time from the driver's event to the host without the device.
func BenchmarkEventToOffers(b *testing.B) {
	d := newFakeDriver()
	w, err := New(WatcherConfig{Host: sixteen(), Source: d, StateDir: b.TempDir(), Log: quiet(), sampleInterval: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	hosts := w.WatchHosts(ctx)
	<-hosts
	for b.Loop() {
		d.events <- health.DeviceEvent{Device: "GPU-7", XID: 79}
		if h := <-hosts; len(h.Devices) != 15 {
			b.Fatalf("%d devices are offered", len(h.Devices))
		}
		b.StopTimer()
		w.mu.Lock()
		w.devices[7].state = health.New(time.Now(), health.SavedState{})
		w.notifySubscribers(nil)
		w.mu.Unlock()
		<-hosts
		b.StartTimer()
	}
	cancel()
	<-done
}

// Measures the memory for ten minutes of samples of sixteen devices.
func BenchmarkHistoryMemory(b *testing.B) {
	fields := []gpu.SampleField{
		gpu.MemUsedBytes, gpu.MemTotalBytes, gpu.DutyRatio, gpu.MemDutyRatio, gpu.SMClockHertz, gpu.MemClockHertz, gpu.Celsius, gpu.PowerWatts, gpu.PowerLimitWatts,
		gpu.EnergyJoules, gpu.ECCCorrected, gpu.ECCUncorrected, gpu.RowsPending, gpu.ThrottleReasons, gpu.PCIeTxBytes,
		gpu.PCIeRxBytes, gpu.NVLinkTxBytes, gpu.NVLinkRxBytes,
	}
	w, err := New(WatcherConfig{Host: sixteen(), Source: newFakeDriver(), StateDir: b.TempDir(), Log: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	used := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := used()
	for b.Loop() {
		for range 121 {
			for _, d := range w.devices {
				s := gpu.Sample{At: time.Now(), Values: make(map[gpu.SampleField]float64, len(fields))}
				for i, f := range fields {
					s.Values[f] = float64(i)
				}
				w.recordSample(d, sampleResult{sample: s})
			}
		}
	}
	b.ReportMetric((used()-before)/(1<<20), "MiB")
	runtime.KeepAlive(w)
}
