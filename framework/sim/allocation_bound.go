package sim

import (
	"math"
	"slices"
)

// AllocationBounds returns, by percent of arrival, the largest allocation that any placement in any order can reach with
// the tasks of a seed, in percent of all GPUs. It is the counterpart of SeedRun.Allocation. It ignores that tasks arrive
// one by one, and divides agents of equal size among sets of tasks, also in fractions. It respects the GPUs and CPUs of
// each agent, the memory of agents of equal size together, the requested models, and that tasks share a GPU only if they
// fit it together.
func (t *ClusterTrace) AllocationBounds(seed int64) map[int]float64 {
	a, all := t.drawArrivals(seed), float64(t.CountGPUs()*milliPerGPU)
	requested, sum := make([]int64, len(a.tasks)), int64(0) // the total of the first i+1 tasks
	rounded := map[int][]int{}                              // by percent: the tasks that arrive at it
	for i, task := range a.tasks {
		sum += task.totalMilli()
		requested[i] = sum
		at := int(math.RoundToEven(100 * float64(sum) / all))
		rounded[at] = append(rounded[at], i)
	}
	p := t.newPackingProblem(a.tasks)
	bounds := map[int]float64{}
	for _, at := range slices.Backward(ArrivalPercents()) {
		arrivals := rounded[at]
		if len(arrivals) == 0 {
			continue
		}
		first, middle := arrivals[0], arrivals[len(arrivals)/2]
		prices := p.solvePrices(p.countTasks(a.tasks[:middle+1])) // they bound the other arrivals nearly as well
		most, sum := milliPerGPU*prices.boundFor(p.countTasks(a.tasks[:first])), 0.0
		for _, i := range arrivals {
			if group, ok := p.groupOf[a.tasks[i]]; ok {
				most += milliPerGPU * prices.tasks[group]
			}
			sum += min(most, float64(requested[i]))
		}
		bounds[at] = 100 * sum / float64(len(arrivals)) / all
	}
	return bounds
}

// countTasks returns how many tasks of each group there are.
func (p *packingProblem) countTasks(tasks []*RecordedTask) []int {
	counts := make([]int, len(p.tasks))
	for _, task := range tasks {
		if i, ok := p.groupOf[task]; ok {
			counts[i]++
		}
	}
	return counts
}
