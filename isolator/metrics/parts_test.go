package metrics

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"mesos-gpu/gpu"
	"mesos-gpu/isolator/share"
	"mesos-gpu/isolator/watch"
)

// Each container shows its own part of a device, as far as that is measured.
func TestParts(t *testing.T) {
	registry, err := register(Config{
		Agent:   "a",
		Devices: func() []watch.State { return []watch.State{{Device: gpu.Device{UUID: "GPU-a", Model: "V100"}}} },
		Holders: func() []gpu.Holder {
			return []gpu.Holder{
				{Container: "measured", Job: "j", Task: "t", Devices: []string{"GPU-a"}},
				{Container: "limited", Task: "u", Devices: []string{"GPU-a"}},
				{Container: "damaged", Devices: []string{"GPU-a"}},
			}
		},
		Parts: func(container string) ([]share.Usage, error) {
			switch container {
			case "measured":
				return []share.Usage{{UUID: "GPU-a", MemLimitBytes: 100, Cores: 30, Measured: true, MemUsedBytes: 40, Throttled: 1500 * time.Millisecond}}, nil
			case "limited":
				return []share.Usage{{UUID: "GPU-a", MemLimitBytes: 200}}, nil
			}
			return nil, errors.New("books are damaged")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	measured := `agent="a",container="measured",framework="",gpu="GPU-a",job="j",model="V100",task="t"`
	limited := `agent="a",container="limited",framework="",gpu="GPU-a",job="",model="V100",task="u"`
	want := `
# HELP mesos_gpu_share_cores Compute of the container's part of a shared device, in percent; 0 where it takes what others leave.
# TYPE mesos_gpu_share_cores gauge
mesos_gpu_share_cores{` + limited + `} 0
mesos_gpu_share_cores{` + measured + `} 30
# HELP mesos_gpu_share_memory_limit_bytes Memory of the container's part of a shared device.
# TYPE mesos_gpu_share_memory_limit_bytes gauge
mesos_gpu_share_memory_limit_bytes{` + limited + `} 200
mesos_gpu_share_memory_limit_bytes{` + measured + `} 100
# HELP mesos_gpu_share_memory_used_bytes Memory that the container uses of its part of a shared device.
# TYPE mesos_gpu_share_memory_used_bytes gauge
mesos_gpu_share_memory_used_bytes{` + measured + `} 40
# HELP mesos_gpu_share_throttled_seconds_total Time for which the container was kept waiting so that it stays within its part.
# TYPE mesos_gpu_share_throttled_seconds_total counter
mesos_gpu_share_throttled_seconds_total{` + measured + `} 1.5
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"mesos_gpu_share_cores", "mesos_gpu_share_memory_limit_bytes", "mesos_gpu_share_memory_used_bytes", "mesos_gpu_share_throttled_seconds_total"); err != nil {
		t.Error(err)
	}
}
