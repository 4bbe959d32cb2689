package fit

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mesos-gpu/gpu"
)

// TestTakeUndoesRelease: taking back what was released leaves room for the same tasks as before.
func TestTakeUndoesRelease(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := AgentResources{ID: "a", Free: Amount{CPUs: 8, MemMiB: 8000}, Ports: []PortRange{{31000, 31003}}}
		for i := range 4 {
			a.Inventory = append(a.Inventory, gpu.Device{UUID: fmt.Sprint("GPU-", i), Model: "Tesla V100", MemMiB: 16000, Minor: i})
		}
		named := rapid.Bool().Draw(t, "named devices")
		shared := rapid.Bool().Draw(t, "a shared device")
		if a.GPUs = rapid.IntRange(0, 2).Draw(t, "free"); named {
			for i := range a.GPUs {
				a.DeviceIDs = append(a.DeviceIDs, fmt.Sprint("GPU-", i))
			}
		}
		if shared {
			a.Shared = []SharedDevice{{UUID: "GPU-3", MemMiB: 4000, Cores: 20}}
			a.AllShared = []SharedDevice{{UUID: "GPU-3", MemMiB: 16000, Cores: 100}}
		}
		c := NewCluster([]AgentResources{a}, PlacementPolicy{Name: "binpack"}, time.Unix(0, 0))
		demands := []Demand{
			{Request: gpu.Request{GPUs: 1}},
			{Request: gpu.Request{GPUs: 1, Share: gpu.ShareRequest{MemMiB: 1000, Cores: 5}}},
			{Amount: Amount{CPUs: 1, MemMiB: 100}},
			{Ports: 1},
		}
		count := func() (rooms [4]int) {
			for i := range demands {
				places := c.PlaceTasks(&demands[i], 100)
				rooms[i] = len(places)
				c.UndoPlacements(&demands[i], places)
			}
			return rooms
		}
		before := count()
		task := TaskResources{Amount: Amount{CPUs: 2, MemMiB: 500}, Ports: []int{31007}}
		switch {
		case shared && rapid.Bool().Draw(t, "share"):
			task.Shares = []gpu.DeviceShare{{UUID: "GPU-3", MemMiB: 3000, Cores: 40}}
		case named:
			task.GPUs, task.DeviceIDs = 1, []string{"GPU-2"}
		default:
			task.GPUs = 1
		}
		c.ReleaseAt(0, task)
		if count() == before {
			t.Fatalf("%+v frees nothing", task)
		}
		c.TakeAt(0, task)
		if after := count(); after != before {
			t.Fatalf("room for %v, before %v, after %+v was released and taken", after, before, task)
		}
	})
}
