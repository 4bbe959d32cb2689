package metrics

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/share"
	"mesos-gpu/isolator/watch"
)

// Each container reports its own share of a device, if it is measured.
func TestShareMetrics(t *testing.T) {
	registry, err := newRegistry(ExporterConfig{
		Agent: "a",
		Devices: func() []watch.DeviceState {
			return []watch.DeviceState{{Device: gpu.Device{UUID: "GPU-a", Model: "V100"}}}
		},
		Holders: func() []gpu.ContainerDevices {
			return []gpu.ContainerDevices{
				{Container: "measured", Job: "j", Task: "t", Devices: []string{"GPU-a"}},
				{Container: "limited", Task: "u", Devices: []string{"GPU-a"}},
				{Container: "damaged", Devices: []string{"GPU-a"}},
			}
		},
		ShareUsage: func(container string) ([]share.ShareUsage, error) {
			switch container {
			case "measured":
				return []share.ShareUsage{{UUID: "GPU-a", MemLimitBytes: 100, Cores: 30, Measured: true, MemUsedBytes: 40, Throttled: 1500 * time.Millisecond}}, nil
			case "limited":
				return []share.ShareUsage{{UUID: "GPU-a", MemLimitBytes: 200}}, nil
			}
			return nil, errors.New("books are damaged")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.Open("testdata/parts.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	if err := testutil.GatherAndCompare(registry, want,
		"mesos_gpu_share_cores", "mesos_gpu_share_memory_limit_bytes", "mesos_gpu_share_memory_used_bytes", "mesos_gpu_share_throttled_seconds_total"); err != nil {
		t.Error(err)
	}
}
