package clusterview

import (
	"slices"
	"strings"
	"sync/atomic"

	"mesos-gpu/framework/master"
	"mesos-gpu/framework/metrics"
	"mesos-gpu/gpu"
)

// GPUCountCache holds the GPU counts by type, as of the master's last list of agents.
type GPUCountCache struct {
	byType atomic.Pointer[map[string]metrics.GPUCount]
}

// Current returns the latest counts, nil before the first list of agents. The map must not
// be modified.
func (g *GPUCountCache) Current() map[string]metrics.GPUCount {
	if byType := g.byType.Load(); byType != nil {
		return *byType
	}
	return nil
}

// CountGPUs counts an agent's whole GPUs by type. If the agent has several types and
// does not name its GPUs, their type is "A|B", as in a task's record.
func CountGPUs(a *master.ListedAgent) map[string]metrics.GPUCount {
	types := slices.Clone(gpuTypesOf(a))
	for i := range types {
		types[i] = gpu.TypeOf(types[i])
	}
	slices.Sort(types)
	mixed := strings.Join(slices.Compact(types), "|")
	count := map[string]metrics.GPUCount{}
	if a.GPUs != len(a.DeviceIDs) {
		if a.GPUs > 0 {
			count[mixed] = metrics.GPUCount{All: a.GPUs, Free: a.GPUsFree}
		}
		return count
	}
	for _, id := range a.DeviceIDs {
		kind := mixed
		if d := slices.IndexFunc(a.Host.Devices, func(d gpu.Device) bool { return d.UUID == id }); d >= 0 {
			kind = a.Host.Devices[d].Type()
		}
		n := count[kind]
		n.All++
		if !slices.Contains(a.DevicesHeld, id) {
			n.Free++
		}
		count[kind] = n
	}
	return count
}

// SetCounts replaces the counts.
func (g *GPUCountCache) SetCounts(byType map[string]metrics.GPUCount) { g.byType.Store(&byType) }
