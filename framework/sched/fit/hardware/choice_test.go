package hardware

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"mesos-gpu/gpu"
)

func genDevices(t *rapid.T) []gpu.Device {
	devices := make([]gpu.Device, rapid.IntRange(0, 6).Draw(t, "gpus"))
	for i := range devices {
		d := gpu.Device{
			UUID: fmt.Sprint(i), Minor: i, NUMA: rapid.IntRange(-1, 1).Draw(t, "numa"), NVLinks: map[string]int{},
			Model: rapid.SampledFrom([]string{"Tesla V100-SXM2-16GB", "NVIDIA A100 80GB PCIe"}).Draw(t, "model"),
		}
		for j := range i {
			d.NVLinks[fmt.Sprint(j)] = max(rapid.IntRange(-1, 3).Draw(t, "links"), 0)
		}
		devices[i] = d
	}
	return devices
}

// TestGreedyDeviceChoices checks that the greedy search finds a choice that
// satisfies the topology whenever there is one.
func TestGreedyDeviceChoices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devices := genDevices(t)
		k := newClass(0, &Description{}, devices)
		free := make([]int, len(devices))
		for i := range free {
			free[i] = i
		}
		topology := rapid.SampledFrom([]gpu.Topology{gpu.NVLink, gpu.SameNUMA, ""}).Draw(t, "topology")
		for n := 1; n <= len(devices); n++ {
			all := choiceSearch{class: k, candidates: free, free: free, topology: topology}
			all.tryAll(nil, 0, n)
			grown := choiceSearch{class: k, candidates: free, free: free, topology: topology}
			grown.tryGrown(n)
			if (all.best.slots == nil) != (grown.best.slots == nil) {
				t.Fatalf("%d of %+v (%s): all %v, grown %v", n, devices, topology, all.best.slots, grown.best.slots)
			}
			if all.best.slots != nil && grown.best.isBetter(&all.best) {
				t.Fatalf("%v beats %v", grown.best, all.best)
			}
		}
	})
}
