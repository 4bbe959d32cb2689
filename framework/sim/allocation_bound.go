package sim

import "math"

// boundsPerPercent is at how many points of each percent of arrival a bound is computed. More points come closer to the
// mean over all arrivals that round to that percent.
const boundsPerPercent = 4

// AllocationBounds returns, by percent of arrival, the largest allocation that any placement in any order can reach with
// the tasks of a seed, in percent of all GPUs. It is the counterpart of SeedRun.Allocation. It ignores CPUs, memory, that
// the GPUs of a task are on one agent, and that tasks arrive one by one. It respects the requested models, and that tasks
// share a GPU only if they fit it together.
func (t *ClusterTrace) AllocationBounds(seed int64) map[int]float64 {
	a, all := t.drawArrivals(seed), float64(t.CountGPUs()*milliPerGPU)
	requested, sum := make([]int64, len(a.tasks)), int64(0) // the total of the first i+1 tasks
	rounded := map[int][]int{}                              // by percent: how many tasks have arrived
	for i, task := range a.tasks {
		sum += task.totalMilli()
		requested[i] = sum
		at := int(math.RoundToEven(100 * float64(sum) / all))
		rounded[at] = append(rounded[at], i+1)
	}
	bounds := map[int]float64{}
	for _, at := range ArrivalPercents() {
		counts := rounded[at]
		if len(counts) == 0 {
			continue
		}
		sum, from := 0.0, 0
		for part := range boundsPerPercent {
			to := len(counts) * (part + 1) / boundsPerPercent
			if to == from {
				continue
			}
			// The bound of the last point holds for all earlier ones, since it grows with each arrival.
			most := t.maxMilliInUse(a.tasks[:counts[to-1]])
			for _, n := range counts[from:to] {
				sum += min(most, float64(requested[n-1]))
			}
			from = to
		}
		bounds[at] = 100 * sum / float64(len(counts)) / all
	}
	return bounds
}

// maxMilliInUse returns how many thousandths of GPUs the tasks can use at most.
func (t *ClusterTrace) maxMilliInUse(tasks []*RecordedTask) float64 {
	c := t.newCuttingStock(tasks)
	return c.upperBound(c.solvePrices())
}
