package sim

import "math"

// boundsPerPercent is how many points of an arrival's percent bounds are taken at. More
// come closer to the mean over all arrivals that round to it.
const boundsPerPercent = 4

// AllocationBounds are, by percent of arrival, what no placing in no order can bring
// into use of what a seed has arrive, in percent of all CountGPUs: the counterpart
// of Run's Allocation. CPUs, memory and that a task's CountGPUs are of one agent
// are left out, as is that tasks arrive one by one; the types they insist on,
// and that tasks share a GPU only as far as they fit it together, are not.
func (t *ClusterTrace) AllocationBounds(seed int64) map[int]float64 {
	a, all := t.drawArrivals(seed), float64(t.CountGPUs()*milliPerGPU)
	asked, sum := make([]int64, len(a.tasks)), int64(0) // by the first so many tasks
	rounded := map[int][]int{}                          // by percent: how many tasks have arrived
	for i, task := range a.tasks {
		sum += task.totalMilli()
		asked[i] = sum
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
			// Who has arrived later only raises it: the last's holds for all.
			most := t.maxMilliInUse(a.tasks[:counts[to-1]])
			for _, n := range counts[from:to] {
				sum += min(most, float64(asked[n-1]))
			}
			from = to
		}
		bounds[at] = 100 * sum / float64(len(counts)) / all
	}
	return bounds
}

// maxMilliInUse is how many thousandths of CountGPUs the tasks can have in use at most.
func (t *ClusterTrace) maxMilliInUse(tasks []*RecordedTask) float64 {
	c := t.newCuttingStock(tasks)
	return c.upperBound(c.solvePrices())
}
